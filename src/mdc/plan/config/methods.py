"""Any method, and any policy of decoding: the unions of the classes that the folders of objectives bring."""

from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field, TypeAdapter

from mdc.plan.config.decoding import Beam, Decoding, SweptUnmasking, Unmasking
from mdc.plan.config.kinds.kind import names
from mdc.plan.config.method import Method
from mdc.plan.parts import METHODS, declared
from mdc.plan.records import UserError


def _declared(objective: str, folder: str) -> type[Method]:
    """The class in the folder of an objective. UserError if it is of another."""
    method: type[Method] = declared(f"{folder}.method", "METHOD")
    if objective not in (own := names(method, "objective")):
        raise UserError(
            f"{folder}.method: METHOD is of the objective {', '.join(own)}, and its folder is called {objective}"
        )
    return method


_CLASSES = [_declared(objective, folder) for objective, folder in METHODS.items()]
#: kind of decoding → its class, and that with a sweep in a scale
DECODINGS: dict[str, tuple[type[Decoding], type[Decoding]]] = {
    "unmask": (Unmasking, SweptUnmasking),
    "beam": (Beam, Beam),
    **{kind: classes for method in _CLASSES for kind, classes in method.decodings.items()},
}

#: keys of methods that an override of the recipe may set
BY_RUN = frozenset(key for method in _CLASSES for key in method.by_run)

if TYPE_CHECKING:
    AnyMethod = Method
    AnyDecoding = Decoding
    SweptDecoding = Decoding
else:
    AnyMethod = Annotated[reduce(or_, _CLASSES), Field(discriminator="objective")]
    AnyDecoding, SweptDecoding = (
        Annotated[reduce(or_, classes), Field(discriminator="kind")]
        for classes in zip(*DECODINGS.values(), strict=True)
    )


def method(**values: Any) -> Method:
    """A method of these values. ValidationError if they are none."""
    return TypeAdapter[Method](AnyMethod).validate_python(values)
