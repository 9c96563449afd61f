"""Names that refer to an entry elsewhere in the parameters: the type of a name says where, and one walk checks all names.

corpus: Annotated[Name, Ref("data.corpora", "corpus")]
"""

import types
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel, Field

from mdc.plan.config.types import Name, Side, SomeUnique, no_such


@dataclass(frozen=True)
class Ref:
    """The name is a key of the mapping at ``path``; ``what``: the noun for it in messages.

    The path, ``a.b`` or ``a.b|c.d`` for either of two, begins at the nearest enclosing class that has such a mapping.
    """

    path: str
    what: str


CorpusName = Annotated[Name, Ref("data.corpora", "corpus")]
#: a corpus that runs are trained on, or one of its variants
TrainedOn = Annotated[Name, Ref("data.corpora|pretrain.varied", "corpus")]
ProbeName = Annotated[Name, Ref("data.probes", "probe")]
ChoicesName = Annotated[Name, Ref("data.choices", "choice set (data.choices)")]
TextsName = Annotated[Name, Ref("data.texts", "set of captions (data.texts)")]
VocabularyName = Annotated[Name, Ref("data.vocabularies", "vocabulary")]
DATASET = Ref("data.datasets", "dataset")
DatasetName = Annotated[Name, DATASET]
MethodName = Annotated[Name, Ref("methods", "method")]
BackboneName = Annotated[Name, Ref("pretrain.backbones", "backbone")]
EncoderName = Annotated[Name, Ref("encoders", "encoder (encoders)")]
HeadName = Annotated[Name, Ref("probe.every", "head (probe.heads)")]
FinetuneName = Annotated[Name, Ref("finetunings", "finetuning (captions.finetunings)")]
SystemName = Annotated[Name, Ref("systems|sweeps", "system")]

BackboneNames = SomeUnique[BackboneName]
ChoicesNames = SomeUnique[ChoicesName]
MethodNames = SomeUnique[MethodName]
ProbeNames = SomeUnique[ProbeName]
SystemNames = SomeUnique[SystemName]


def _or_a_list(schema: dict[str, Any]) -> None:
    """A scale may name the corpora alone (:class:`mdc.plan.config.probe_tables.OfMethods`)."""
    whole = dict(schema)
    schema.clear()
    schema["anyOf"] = [whole, {"type": "array", "items": {"type": "string"}}]


#: the runs of a table: the methods of each corpus
Methods = Annotated[dict[TrainedOn, MethodNames], Field(min_length=1, json_schema_extra=_or_a_list)]
#: the sides of comparisons: of a table's own runs, or methods in each of its corpora
OwnSide = Annotated[Side, Ref("sides", "method of its corpora")]
MethodSide = Annotated[Side, Ref("methods", "method (without its corpus)")]


def unresolved(root: BaseModel, where: str = "", above: tuple[BaseModel, ...] = ()) -> list[str]:
    """A line for each name below ``root`` that refers to nothing: its key, the name, what is allowed. ``where``: the key of
    ``root`` itself within the instances ``above``, the outermost first."""
    return list(dict.fromkeys(_walk(root, None, where, above)))


def _walk(value: Any, hint: Any, where: str, above: tuple[BaseModel, ...]) -> Iterator[str]:
    """The lines for a ``value`` of the type ``hint`` within the instances ``above``, the outermost first."""
    if isinstance(value, str):
        for ref in _refs(hint):
            allowed = [key for path in ref.path.split("|") for key in _nearest(path, above)]
            if value not in allowed:
                yield no_such(where, value, allowed, ref.what)
    elif isinstance(value, BaseModel):
        for name, (key, inner) in _hints(type(value)).items():
            yield from _walk(getattr(value, name), inner, f"{where}.{key}".lstrip("."), (*above, value))
    elif isinstance(value, dict):
        for_key, for_value = _inner(hint, dict)
        for key, inner_value in value.items():
            yield from _walk(key, for_key, where, above)
            yield from _walk(inner_value, for_value, f"{where}.{key}", above)
    elif isinstance(value, list):
        (for_item,) = _inner(hint, list)
        for inner_value in value:
            yield from _walk(inner_value, for_item, where, above)


@cache
def _hints(kind: type[BaseModel]) -> dict[str, tuple[str, Any]]:
    """Each field of a class with its key and its type."""
    hints = get_type_hints(kind, include_extras=True)
    return {name: (field.alias or name, hints[name]) for name, field in kind.model_fields.items()}


def _refs(hint: Any) -> list[Ref]:
    """The references in the type ``hint``, which may be a union."""
    if get_origin(hint) in (Union, types.UnionType):
        return [ref for part in get_args(hint) for ref in _refs(part)]
    return [part for part in getattr(hint, "__metadata__", ()) if isinstance(part, Ref)]


def _inner(hint: Any, kind: type) -> tuple[Any, ...]:
    """The item types of a container of a ``kind`` in the type ``hint``, which may be a union."""
    while get_origin(hint) is Annotated:
        hint = hint.__origin__
    if get_origin(hint) in (Union, types.UnionType):
        return next(
            (inner for part in get_args(hint) if any(inner := _inner(part, kind))), (None,) * (1 + (kind is dict))
        )
    return get_args(hint) if get_origin(hint) is kind else (None,) * (1 + (kind is dict))


def _nearest(path: str, above: tuple[BaseModel, ...]) -> dict[str, Any]:
    for value in reversed(above):
        for key in path.split("."):
            value = getattr(value, key, None)  # type: ignore[assignment]
        if isinstance(value, dict):
            return value
    return {}
