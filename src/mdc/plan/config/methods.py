"""Any method: the union of the classes in the folders of objectives, chosen by ``objective``."""

from functools import reduce
from importlib import import_module
from operator import or_
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field, TypeAdapter

from mdc.plan.config.method import Method
from mdc.plan.parts import METHODS

if TYPE_CHECKING:
    AnyMethod = Method
else:
    AnyMethod = Annotated[
        reduce(or_, (import_module(f"{folder}.method").METHOD for folder in METHODS.values())),
        Field(discriminator="objective"),
    ]


def method(**values: Any) -> Method:
    """A method of these values. ValidationError if they are none."""
    return TypeAdapter[Method](AnyMethod).validate_python(values)
