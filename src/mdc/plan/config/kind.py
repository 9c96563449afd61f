"""Things of which there are several kinds: encoders, sources of data, heads of probes.

A kind is a class of parameters that names its module. The core's are in this package; an extension's are in its ``kinds.py``,
which imports no torch. As of :mod:`mdc.plan.config.method`, no fingerprint covers these classes: jobs hold their values, and the
module in their lists of modules.
"""

from collections.abc import Mapping
from functools import cache, reduce
from importlib import import_module
from operator import or_
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, TypeVar, get_args

from pydantic import Field

from mdc.plan.config.types import Strict
from mdc.plan.parts import EXTENDING


class Loaded(Strict):
    """Parameters of what a module computes. ``module``: what jobs load by name."""

    module: ClassVar[str]

    @classmethod
    def load(cls) -> Any:
        """Its module, imported now."""
        return import_module(cls.module)


class Kind(Loaded):
    """One kind, which its key ``kind`` names."""

    if TYPE_CHECKING:
        kind: str


K = TypeVar("K", bound=Strict)


def names(kind: type[Strict]) -> tuple[str, ...]:
    """The values of its key ``kind``."""
    return get_args(kind.model_fields["kind"].annotation)


@cache
def _extending() -> tuple[Any, ...]:
    """The declarations of extensions."""
    return tuple(map(import_module, EXTENDING["kinds"]))


def of_extensions(base: type[K]) -> list[type[K]]:
    """The classes of extensions below ``base``."""
    return [one for module in _extending() for one in module.KINDS if issubclass(one, base)]


def kinds(base: type[K], *own: type[K]) -> dict[str, type[K]]:
    """The core's ``own`` classes and those of extensions below ``base``, by name."""
    return {name: one for one in (*own, *of_extensions(base)) for name in names(one)}


def sections() -> dict[str, Any]:
    """Sections of a scale that extensions bring: name → the type of its entries."""
    return {name: entry for module in _extending() for name, entry in getattr(module, "SECTIONS", {}).items()}


def union(classes: Mapping[str, type[Strict]]) -> Any:
    """The type of an entry of any of the ``classes``."""
    return Annotated[reduce(or_, dict.fromkeys(classes.values())), Field(discriminator="kind")]
