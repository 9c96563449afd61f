"""Every field of every configuration class that scales use, where it stands, and other values that it may take."""

import itertools
import re
import types
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from changed import GONE, with_other
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from scale_files import SHARED

from mdc.plan.config.read import validate
from mdc.plan.records import UserError

Path = tuple[str | int, ...]


@dataclass(frozen=True, eq=False)
class Place:
    """A field of the class ``owner`` where one of its instances stands in a ``scale``; ``given`` is what its values say, or
    ``GONE``, and ``now`` what holds."""

    scale: str
    path: Path
    owner: type[BaseModel]
    name: str
    info: FieldInfo
    given: Any
    now: Any

    @property
    def field(self) -> str:
        """As ``Recipe.lr``."""
        return f"{self.owner.__name__}.{self.name}"

    @property
    def types(self) -> list[Any]:
        """What its value may be."""
        return _bare(get_type_hints(self.owner, include_extras=True)[self.name])

    @property
    def fixed(self) -> bool:
        """Nothing else can stand there: one word alone, or a class, whose own fields are what can be edited."""
        classes = [one for one in self.types if isinstance(one, type) and issubclass(one, BaseModel)]
        one_word = len(self.types) == 1 and get_origin(self.types[0]) is Literal and len(get_args(self.types[0])) == 1
        return one_word or (self.info.is_required() and self.types == classes)


def places(values: dict[str, Any]) -> list[Place]:
    """Of the valid values of a scale, the fields of all instances, also those that are left out."""
    return list(_places(values["scale"], values, validate(values), ()))


def _places(scale: str, raw: Any, parsed: Any, path: Path) -> Iterator[Place]:
    if isinstance(parsed, BaseModel) and isinstance(raw, dict):
        for name, info in type(parsed).model_fields.items():
            key = info.alias or name
            yield Place(scale, (*path, key), type(parsed), name, info, raw.get(key, GONE), getattr(parsed, name))
            if key in raw:
                yield from _places(scale, raw[key], getattr(parsed, name), (*path, key))
    elif type(parsed) is type(raw) is list or (isinstance(parsed, dict) and isinstance(raw, dict)):
        # a short form is written out as something else
        for key, inner in raw.items() if isinstance(raw, dict) else enumerate(raw):
            yield from _places(scale, inner, parsed[key], (*path, key))


class Others:
    """Other values for the fields of ``scales``: by their types, as elsewhere, and as messages say what is allowed. What all
    scales share counts as the first one's."""

    def __init__(self, scales: Mapping[str, dict[str, Any]]) -> None:
        self.scales = scales
        self.by_field: dict[str, list[Place]] = {}
        self.elsewhere: dict[str, list[Any]] = {}
        first = next(iter(scales))
        for place in (one for values in scales.values() for one in places(values)):
            if place.path[0] in SHARED and place.scale != first:
                continue
            self.by_field.setdefault(place.field, []).append(place)
            seen = self.elsewhere.setdefault(place.name, [])
            if place.given is not GONE and place.given not in seen:
                seen.append(place.given)

    def where(self, field: str) -> list[Place]:
        """Places that differ in kind: of each section of each scale, and of each method, with it or without."""
        there = sorted(self.by_field[field], key=lambda place: place.given is GONE)
        found = {
            (place.scale, *place.path[: 2 if place.path[0] in SHARED else 1], place.given is GONE): place
            for place in there[::-1]
        }
        return list(found.values())[::-1]

    def tried(self, place: Place) -> Iterator[tuple[Any, str | None]]:
        """Other values for the field there, and of each why the schema refuses it; None if it does not."""
        learned: list[str] = []
        seen: list[Any] = [place.given, place.now]
        for names in ([], learned):
            for value in itertools.islice(self._values(place, names), 40):
                if any(value is one or (type(value) is type(one) and value == one) for one in seen):
                    continue
                seen.append(value)
                try:
                    validate(with_other(self.scales[place.scale], place.path, value))
                except UserError as error:
                    _, _, allowed = str(error).partition("allowed: ")
                    learned += [name for name in re.findall(r"[\w./-]+", allowed)[:9] if name not in learned]
                    yield value, str(error)
                else:
                    yield value, None

    def _values(self, place: Place, names: list[str]) -> Iterator[Any]:
        now = place.given
        if now is GONE:
            now = None if place.info.is_required() else place.info.get_default(call_default_factory=True)
        for value in (*_of_type(place.types, now, names), *self.elsewhere[place.name]):
            if type(value) is not type(now) or value != now:
                yield value
        if not place.info.is_required():
            yield GONE


def _bare(annotation: Any) -> list[Any]:
    """The types of a union, without what is annotated."""
    if get_origin(annotation) is Annotated:
        return _bare(get_args(annotation)[0])
    if get_origin(annotation) in (Union, types.UnionType):
        return [one for inner in get_args(annotation) for one in _bare(inner)]
    return [annotation]


def _of_type(allowed: list[Any], now: Any, names: list[str]) -> Iterator[Any]:
    for one in allowed:
        origin, inner = get_origin(one), get_args(one)
        if origin is Literal:
            yield from inner
        elif one is bool:
            yield not now
        elif one is int:
            yield from (now + 1, now * 2, now // 2, now - 1) if isinstance(now, int) else (1, 16)
        elif one is float:
            yield from (now * 0.9, now * 1.1, now / 2, 0.1) if isinstance(now, int | float) else (0.5, 2.0)
        elif one is str:
            yield from (f"{now or ''}x", f"{now or ''}X", *names)
        elif origin in (list, tuple):
            yield from _of_list(list(now or ()), _bare(inner[0]), names)
        elif origin is dict and isinstance(now, dict):
            yield from ({**now, "other": value} for value in list(now.values())[:1])
            yield from (dict(list(now.items())[:-1]), dict(list(now.items())[1:]))
            key, first = next(iter(now.items()), ("other", None))
            yield from ({**now, key: value} for value in _of_type(_bare(inner[1]), first, names))


def _of_list(now: list[Any], allowed: list[Any], names: list[str]) -> Iterator[Any]:
    yield from (now[:-1], now[1:], now[::-1])
    for value in _of_type(allowed, now[0] if now else None, names):
        if value not in now:
            yield from ([*now, value], [*now[:-1], value], [value, *now[1:]], [value, *now])
