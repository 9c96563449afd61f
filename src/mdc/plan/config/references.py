"""Names that refer to an entry elsewhere in the parameters: each says in its type where, and one walk checks them all.

corpus: Annotated[Name, Ref("data.corpora", "corpus")]
"""

from __future__ import annotations

import types
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from pydantic import AfterValidator, BaseModel, Field

from mdc.plan.config.types import Name, Side, SomeUnique, each_once, no_such


@dataclass(frozen=True)
class Ref:
    """A key of the mapping at ``path``, of what messages call a ``what``.

    The path, ``a.b`` or ``a.b|c.d`` for either of two, begins at the nearest class around the name that has such a mapping.
    """

    path: str
    what: str


CorpusName = Annotated[Name, Ref("data.corpora", "corpus")]
#: what runs are trained on: a corpus, or one of its variants
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
TokenizerName = Annotated[Name, Ref("tokenizers", "tokenizer (tokenizers)")]
WordsName = Annotated[Name, Ref("words", "entry of words")]
HeadName = Annotated[Name, Ref("probe.every", "head (probe.heads)")]
FinetuneName = Annotated[Name, Ref("finetune", "finetuning (finetune)")]
SystemName = Annotated[Name, Ref("systems|sweeps", "system")]

BackboneNames = SomeUnique[BackboneName]
ChoicesNames = SomeUnique[ChoicesName]
MethodNames = SomeUnique[MethodName]
ProbeNames = SomeUnique[ProbeName]
SystemNames = SomeUnique[SystemName]


def _or_a_list(schema: dict[str, Any]) -> None:
    """A scale may name the corpora alone (:class:`mdc.plan.config.tables.OfMethods`)."""
    whole = dict(schema)
    schema.clear()
    schema["anyOf"] = [whole, {"type": "array", "items": {"type": "string"}}]


#: the runs of a table: the methods of each corpus
Methods = Annotated[dict[TrainedOn, MethodNames], Field(min_length=1, json_schema_extra=_or_a_list)]
CurvePair = Annotated[
    list[Annotated[Side, Ref("curves", "curve (curves)")]],
    Field(min_length=2, max_length=2),
    AfterValidator(each_once),
]


def unresolved(root: BaseModel) -> list[str]:
    """A line for each name below ``root`` that refers to nothing: where, what is named, what is allowed."""
    return list(dict.fromkeys(_walk(root, None, "", ())))


def _walk(value: Any, hint: Any, where: str, above: tuple[BaseModel, ...]) -> Iterator[str]:
    """The lines of a ``value`` of the type ``hint`` that lies in the instances ``above``, the outermost first."""
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
        for key, one in value.items():
            yield from _walk(key, for_key, where, above)
            yield from _walk(one, for_value, f"{where}.{key}", above)
    elif isinstance(value, list):
        (for_item,) = _inner(hint, list)
        for one in value:
            yield from _walk(one, for_item, where, above)


@cache
def _hints(kind: type[BaseModel]) -> dict[str, tuple[str, Any]]:
    """Each field of a class with its key and its type."""
    hints = get_type_hints(kind, include_extras=True)
    return {name: (field.alias or name, hints[name]) for name, field in kind.model_fields.items()}


def _refs(hint: Any) -> list[Ref]:
    """What a name of the type ``hint``, which may be a union, refers to."""
    if get_origin(hint) in (Union, types.UnionType):
        return [ref for one in get_args(hint) for ref in _refs(one)]
    return [one for one in getattr(hint, "__metadata__", ()) if isinstance(one, Ref)]


def _inner(hint: Any, kind: type) -> tuple[Any, ...]:
    """What a container of a ``kind`` holds by the type ``hint``, which may be a union."""
    while get_origin(hint) is Annotated:
        hint = hint.__origin__
    if get_origin(hint) in (Union, types.UnionType):
        return next(
            (found for one in get_args(hint) if any(found := _inner(one, kind))), (None,) * (1 + (kind is dict))
        )
    return get_args(hint) if get_origin(hint) is kind else (None,) * (1 + (kind is dict))


def _nearest(path: str, above: tuple[BaseModel, ...]) -> dict[str, Any]:
    for found in reversed(above):
        for key in path.split("."):
            found = getattr(found, key, None)  # type: ignore[assignment]
        if isinstance(found, dict):
            return found
    return {}
