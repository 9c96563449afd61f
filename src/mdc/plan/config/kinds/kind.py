"""Things of which there are several kinds: encoders, sources of data, heads of probes.

A kind is a class of parameters that names its module. The core's are in this package; an extension's are in its ``kinds.py``,
which imports no torch. As with the classes of :mod:`mdc.plan.config.method`, no fingerprint covers these: a job's configuration
holds their values, and its fingerprint covers their module.
"""

from collections.abc import Mapping
from functools import reduce
from importlib import import_module
from operator import or_
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, TypeVar, get_args

from pydantic import Field

from mdc.plan.config.types import Strict
from mdc.plan.parts import EXTENDING, declared, distinct
from mdc.plan.records import UserError


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


def names(kind: type[Strict], key: str = "kind") -> tuple[str, ...]:
    """The values of its ``key``."""
    return get_args(kind.model_fields[key].annotation)


def of_extensions(base: type[K]) -> list[type[K]]:
    """The classes of extensions below ``base``. UserError if one lacks a method that it must have."""
    found = [one for module in EXTENDING["kinds"] for one in declared(module, "KINDS") if issubclass(one, base)]
    for one in found:
        if lacking := sorted(getattr(one, "__abstractmethods__", ())):
            raise UserError(f"{one.__module__}: {one.__name__} lacks {', '.join(lacking)}, which a {base.__name__} has")
    return found


def kinds(base: type[K], *own: type[K]) -> dict[str, type[K]]:
    """The core's ``own`` classes and those of extensions below ``base``, by name."""
    return distinct(((name, one) for one in (*own, *of_extensions(base)) for name in names(one)), "kind")


def sections() -> dict[str, Any]:
    """Sections of a scale that extensions bring: name → the type of its entries."""
    modules = map(import_module, EXTENDING["kinds"])
    brought = [item for module in modules for item in getattr(module, "SECTIONS", {}).items()]
    return distinct(brought, "section")


def union(classes: Mapping[str, type[Strict]]) -> Any:
    """The type of an entry of any of the ``classes``."""
    return Annotated[reduce(or_, dict.fromkeys(classes.values())), Field(discriminator="kind")]
