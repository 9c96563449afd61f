"""The rendered world: scenes, and what is true of them.

Lengths are integers in units of 1/192 of the image's side (so 4 units are one pixel at 48 pixels); x grows to the
right, y downwards; an object's ``size`` is the longer side of its upright bounding box. A `Scene` has everything on which its
image depends, so it is the complete ground truth.
"""

import itertools
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from mdc.plan.records import UserError

UNITS = 192
SHAPES = ("circle", "square", "triangle", "star", "cross", "heart", "ring", "crescent")
COLOURS = ("red", "orange", "yellow", "green", "blue", "purple", "pink", "white")
SIZES = ("small", "large")
#: {relation: (axis, sign)}
DIRECTIONS = {"left of": (0, -1), "right of": (0, 1), "above": (1, -1), "below": (1, 1)}
RELATIONS = tuple(DIRECTIONS)
OPPOSITE = {a: b for a, (axis, sign) in DIRECTIONS.items() for b, way in DIRECTIONS.items() if way == (axis, -sign)}
ARRANGEMENTS = ("side by side", "one above the other")  # of two objects along each axis
BACKGROUNDS = ("plain", "gradient", "stripes", "checker", "dots")

LARGE_FROM = 66  # an object of this size or more is called large
CLEAR = 12  # a relation is clear if the distance along its axis is larger than along the other by at least this much

PROBE_CLASSES: dict[str, tuple[str, ...]] = {
    "shape": SHAPES,
    "colour": COLOURS,
    "relation": RELATIONS,
    "count": ("one", "two", "three", "four"),
    "background": BACKGROUNDS,
}


@dataclass(frozen=True)
class SceneObject:
    """One coloured shape: centre (x, y) and size in units, rotation in degrees, shade in lightness steps."""

    shape: str
    colour: str
    size: int
    x: int
    y: int
    rotation: int = 0
    shade: int = 0

    @property
    def size_word(self) -> str:
        """``small`` or ``large``."""
        return "large" if self.size >= LARGE_FROM else "small"

    @property
    def kind(self) -> "Description":
        """Its attributes that a caption can mention."""
        return Description(self.size_word, self.colour, self.shape)


class Description(NamedTuple):
    """The attributes of an object that words name; None for others."""

    size: str | None = None
    colour: str | None = None
    shape: str | None = None

    def fits(self, kind: "Description") -> bool:
        """Whether ``kind`` has every attribute that is named."""
        size, colour, shape = self
        return size in (None, kind.size) and colour in (None, kind.colour) and shape in (None, kind.shape)

    def among(self, scene: "Scene") -> tuple[SceneObject, ...]:
        """The scene's objects that fit the description."""
        return tuple(thing for thing in scene.objects if self.fits(thing.kind))

    def __str__(self) -> str:
        return " ".join(word for word in (self.size, self.colour, self.shape or "shape") if word)


@dataclass(frozen=True)
class Scene:
    """Objects on a background; ``ground`` is its mean RGB and ``phase`` (0 to 15) where its pattern starts."""

    background: str
    ground: tuple[int, int, int]
    phase: int
    objects: tuple[SceneObject, ...]

    @cached_property
    def kinds(self) -> dict[Description, tuple[SceneObject, ...]]:
        """The objects by kind, in order of first appearance; a caption does not distinguish objects of one kind."""
        return {kind: kind.among(self) for kind in dict.fromkeys(thing.kind for thing in self.objects)}

    @cached_property
    def relations(self) -> dict[tuple[Description, Description], str]:
        """Relations of the first kind to the second that are clear and the same for all their objects."""
        pairs = itertools.permutations(self.kinds.items(), 2)
        relations = {(a, b): relation_between(of_a, of_b) for (a, of_a), (b, of_b) in pairs}
        return {pair: name for pair, name in relations.items() if name is not None}

    @property
    def single_relations(self) -> list[tuple[Description, Description]]:
        """The pairs of kinds of one object each that have a relation."""
        return [pair for pair in self.relations if all(len(self.kinds[kind]) == 1 for kind in pair)]

    def canonical(self) -> str:
        """The whole scene as one line, for hashing."""
        return repr(
            (self.background, self.ground, self.phase, *(tuple(vars(thing).values()) for thing in self.objects))
        )

    def to_json(self) -> dict[str, Any]:
        """The whole scene as JSON values."""
        objects = [dict(vars(thing)) for thing in self.objects]
        return {"background": self.background, "ground": list(self.ground), "phase": self.phase, "objects": objects}

    @classmethod
    def from_json(cls, truth: dict[str, Any]) -> "Scene":
        """The inverse of `to_json`; further keys are ignored."""
        return cls(
            background=truth["background"],
            ground=tuple(truth["ground"]),
            phase=truth["phase"],
            objects=tuple(SceneObject(**thing) for thing in truth["objects"]),
        )


def relation(a: SceneObject, b: SceneObject) -> str | None:
    """The relation of a to b; None if the distances along both axes differ by less than `CLEAR` units."""
    gaps = a.x - b.x, a.y - b.y
    clear = (name for name, (axis, way) in DIRECTIONS.items() if gaps[axis] * way - abs(gaps[1 - axis]) >= CLEAR)
    return next(clear, None)


def relation_between(first: Sequence[SceneObject], second: Sequence[SceneObject]) -> str | None:
    """The relation that every object of ``first`` has to every object of ``second``; None if they differ."""
    names = {relation(a, b) for a in first for b in second}
    return names.pop() if len(names) == 1 else None


def arrangement(pair: Sequence[SceneObject]) -> str | None:
    """The arrangement of two objects; None if it is unclear, or if there are not exactly two."""
    name = relation(*pair) if len(pair) == 2 else None
    return ARRANGEMENTS[DIRECTIONS[name][0]] if name else None


def label_of(task: str, scene: Scene) -> int:
    """The right answer of a probe for this scene. Raises `UserError` if the scene does not pose the question."""
    objects, label = scene.objects, -1
    if task == "background":
        label = BACKGROUNDS.index(scene.background)
    elif task == "count" and 1 <= len(objects) <= 4:
        label = len(objects) - 1
    elif task in ("shape", "colour") and len(objects) == 1:
        label = PROBE_CLASSES[task].index(getattr(objects[0], task))
    elif task == "relation" and Counter(thing.colour for thing in objects) == {"red": 1, "blue": 1}:
        name = relation(*sorted(objects, key=lambda thing: thing.colour != "red"))
        label = RELATIONS.index(name) if name is not None else -1
    if label < 0:
        raise UserError(f"scenes: this scene does not pose the question {task!r}")
    return label
