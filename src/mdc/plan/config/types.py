"""The types of values in params.yaml (names, counts, shares, paths), and shared checks."""

import ipaddress
from collections.abc import Collection, Iterator, Mapping
from functools import cache
from typing import Annotated, Any, ClassVar, Literal, Self, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    SerializationInfo,
    SerializerFunctionWrapHandler,
    model_serializer,
)

from mdc.plan.records import did_you_mean

T = TypeVar("T")


def each_once(names: list[T]) -> list[T]:
    if len(set(names)) != len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"duplicate entry {twice}")
    return names


def increasing(numbers: list[float]) -> list[float]:
    if sorted(set(numbers)) != numbers:
        raise ValueError(f"{numbers} must be increasing, each once")
    return numbers


#: a list without duplicates, which may be empty (Unique) or not (SomeUnique)
Unique = Annotated[list[T], AfterValidator(each_once)]
SomeUnique = Annotated[list[T], Field(min_length=1), AfterValidator(each_once)]
#: [low, high], a list in YAML
Range = Annotated[tuple[T, T], Field(strict=False)]
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$")]
Names = SomeUnique[Name]
#: one side of a comparison: a method, or a corpus's method as dense/mdc
Side = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*(/[A-Za-z0-9][A-Za-z0-9_.-]*)?$")]
#: the maximal number of claims of a table or figure, to limit the multiplicity correction (docs/statistics.md)
MOST_CLAIMS = 6
#: how the claims of a table are tested: with Holm's correction, or in the listed order until the first that is not supported
Order = Literal["holm", "fixed"]
#: … or, of scores, corpus/method/estimator
Scored = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*(/[A-Za-z0-9][A-Za-z0-9_.-]*){2}$")]


def pairs_once(pairs: list[list[str]]) -> list[list[str]]:
    """Refuse a duplicate comparison, also in reverse order, which would be counted twice."""
    seen: set[frozenset[str]] = set()
    for pair in pairs:
        if frozenset(pair) in seen:
            raise ValueError(f"[{', '.join(pair)}] is listed twice, in either order")
        seen.add(frozenset(pair))
    return pairs


def within(what: str) -> AfterValidator:
    """A validator of pairs: both sides must be of one corpus or dataset. ``what``: the words for what others would compare."""

    def together(pairs: list[list[str]]) -> list[list[str]]:
        for pair in pairs:
            if len({side.rpartition("/")[0] for side in pair}) > 1:
                raise ValueError(f"[{', '.join(pair)}] compares {what}")
        return pairs

    return AfterValidator(together)


_Pair = Annotated[list[T], Field(min_length=2, max_length=2), AfterValidator(each_once)]
#: comparisons, the first side minus the second. A ``Ref`` in the type of a side says which sides there are.
Pairs = Annotated[list[_Pair[T]], AfterValidator(pairs_once)]
#: those of them that get a verdict
Claims = Annotated[list[_Pair[T]], Field(max_length=MOST_CLAIMS), AfterValidator(pairs_once)]
Positive = Annotated[int, Field(gt=0, lt=2**63)]  # the largest number that PyTorch and NumPy take
NonNegative = Annotated[int, Field(ge=0, lt=2**63)]
Threads = Annotated[int, Field(gt=0, le=4096)]
Share = Annotated[float, Field(ge=0, le=1)]
HeldOut = Annotated[float, Field(ge=0, lt=1)]
#: one word or several
Words = str | Annotated[list[str], Field(min_length=1)]
Column = Annotated[str, Field(min_length=1)] | NonNegative  # by name or by number


def _usable_path(path: str) -> str:
    if not path or "\0" in path:
        raise ValueError(f"{path!r} is no path")
    return path


DataPath = Annotated[str, AfterValidator(_usable_path)]  # relative to MDC_DATA, or absolute


def _network(text: str) -> str:
    try:
        ipaddress.ip_network(text)
    except ValueError:
        raise ValueError(f"{text!r} is no network of addresses, as 10.0.0.0/8 or 127.0.0.1/32") from None
    return text


Network = Annotated[str, AfterValidator(_network)]


class Strict(BaseModel):
    """Unknown keys are refused, values are never converted silently (text is no number), and instances are immutable.

    A dump omits every optional key whose value is its default and is None, False or empty, so that a new optional key changes no
    existing configuration. Other defaults are written out, since editing one changes results.
    """

    # built at first use: most classes are of other verbs and tables
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, defer_build=True, allow_inf_nan=False)

    @model_serializer(mode="wrap")
    def _without_silent(self, dump: SerializerFunctionWrapHandler, info: SerializationInfo) -> dict[str, Any]:
        values: dict[str, Any] = dump(self)
        silent = {} if info.context == "complete" else _silent(type(self))
        return {key: value for key, value in values.items() if key not in silent or value != silent[key]}

    def but(self, **changes: Any) -> Self:
        """A copy with ``changes``, which are not checked."""
        return self.model_copy(update=changes)

    def complete(self) -> dict[str, Any]:
        """As JSON values, with every key."""
        return self.model_dump(mode="json", by_alias=True, context="complete")


class Parameters(Strict):
    """The parameters of a table or figure."""

    #: the sections of a scale that it needs, besides its data
    sections: ClassVar[tuple[str, ...]] = ()

    @property
    def trained(self) -> dict[str, dict[str, list[str]]]:
        """The runs that it shows, by backbone and corpus their methods; those of captions are in the section of captions."""
        return {}

    def misfits(self, params: Any, where: str) -> Iterator[str]:
        """What it asks that other sections of the ``params`` do not have: a line each, which begins with the key, ``where``."""
        yield from ()


class WithClaims(Parameters):
    """A table or figure with claims. ``order``: how they are tested together, see :func:`mdc.report.statistics.claims.decide`."""

    order: Order = "holm"


@cache
def _silent(kind: type[BaseModel]) -> dict[str, Any]:
    """The optional keys of a class that dumps omit → their default (None, False or empty)."""
    defaults: dict[str, Any] = {}
    for name, field in kind.model_fields.items():
        default = ... if field.is_required() else field.get_default(call_default_factory=True)
        if default is None or default is False or default in ("", [], {}):
            defaults |= {name: default, field.alias or name: default}
    return defaults


def check_reference(where: str, name: str, allowed: Collection[str], what: str) -> None:
    if name not in allowed:
        raise ValueError(no_such(where, name, allowed, what))


def no_such(where: str, name: str, allowed: Collection[str], what: str) -> str:
    names = f"{', '.join(allowed) or 'there is none'}{did_you_mean(name, allowed)}"
    return f"{where}: no {what} is named '{name}'; allowed: {names}"


def unknown(where: str, names: Collection[str], allowed: Collection[str], what: str) -> Iterator[str]:
    """A line for each name that is not allowed."""
    return (no_such(where, name, allowed, what) for name in names if name not in allowed)


def equal_labels(where: str, labels: Mapping[str, str]) -> Iterator[str]:
    """A line for each of equal labels ({key: label}): readers and `mdc why` distinguish rows and columns by them."""
    first = {label: key for key, label in reversed(list(labels.items()))}
    for key, label in labels.items():
        if first[label] != key:
            yield f"{where}: {first[label]} and {key} are both called '{label}'; give each a label of its own"


def near_key(key: str, beside: Collection[str]) -> str:
    """The hint for a ``key`` that a mapping with the keys ``beside`` does not have, from the classes that have most of these."""
    classes = list[type[Strict]]([Strict])
    for kind in classes:
        classes += kind.__subclasses__()
    known = [{field.alias or name for name, field in kind.model_fields.items()} for kind in classes]
    most = max(len(names.intersection(beside)) for names in known)
    near = set().union(*(names for names in known if len(names.intersection(beside)) == most))
    return did_you_mean(key, near - {key})


def check_unique_labels(where: str, labels: Mapping[str, str]) -> None:
    """ValueError for :func:`equal_labels`."""
    for problem in equal_labels(where, labels):
        raise ValueError(problem)


def needing(*needed: str) -> AfterValidator:
    """A validator of a mapping by split: it must have these keys."""

    def complete(splits: Any) -> Any:
        if missing := [name for name in needed if name not in splits]:
            raise ValueError(f"{', '.join(missing)} is missing; needed: {', '.join(needed)}")
        return splits

    return AfterValidator(complete)
