"""Every field of every configuration class that scales use, and where it stands."""

import types
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from changed import GONE
from pydantic import BaseModel

from mdc.plan.config.read import validate

Path = tuple[str | int, ...]


@dataclass(frozen=True, eq=False)
class Place:
    """A field of the class ``owner`` where one of its instances stands in a ``scale``; ``given`` is what its values say, or
    ``GONE``."""

    scale: str
    path: Path
    owner: type[BaseModel]
    name: str
    given: Any

    @property
    def field(self) -> str:
        """As ``Recipe.lr``."""
        return f"{self.owner.__name__}.{self.name}"

    @property
    def types(self) -> list[Any]:
        """What its value may be."""
        return _bare(get_type_hints(self.owner, include_extras=True)[self.name])


def first_places(scales: Mapping[str, dict[str, Any]]) -> list[Place]:
    """Each field of the valid values of ``scales``, where it stands first; given, if it is given anywhere."""
    found: dict[str, Place] = {}
    for scale, values in scales.items():
        for place in _places(scale, values, validate(values), ()):
            if place.field not in found or (found[place.field].given is GONE and place.given is not GONE):
                found[place.field] = place
    return list(found.values())


def _places(scale: str, raw: Any, parsed: Any, path: Path) -> Iterator[Place]:
    if isinstance(parsed, BaseModel) and isinstance(raw, dict):
        for name, info in type(parsed).model_fields.items():
            key = info.alias or name
            yield Place(scale, (*path, key), type(parsed), name, raw.get(key, GONE))
            if key in raw:
                yield from _places(scale, raw[key], getattr(parsed, name), (*path, key))
    elif type(parsed) is type(raw) is list or (isinstance(parsed, dict) and isinstance(raw, dict)):
        # a short form is written out as something else
        for key, inner in raw.items() if isinstance(raw, dict) else enumerate(raw):
            yield from _places(scale, inner, parsed[key], (*path, key))


def _bare(annotation: Any) -> list[Any]:
    """The types of a union, without what is annotated."""
    if get_origin(annotation) is Annotated:
        return _bare(get_args(annotation)[0])
    if get_origin(annotation) in (Union, types.UnionType):
        return [one for inner in get_args(annotation) for one in _bare(inner)]
    return [annotation]
