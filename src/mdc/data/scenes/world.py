"""The rendered world: what a scene is, and what is true of it.

Lengths are integers in units of 1/192 of the image's side (so 4 units are one pixel at 48 pixels); x grows to the
right, y downwards; an object's ``size`` is the longer side of its upright bounding box. A `Scene` holds everything that its
picture depends on, so it is the complete ground truth.
"""

from __future__ import annotations

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
DIRECTIONS = {
    "left of": (0, -1),
    "right of": (0, 1),
    "above": (1, -1),
    "below": (1, 1),
}  # along which axis, and which way
RELATIONS = tuple(DIRECTIONS)
OPPOSITE = {a: b for a, (axis, way) in DIRECTIONS.items() for b, other in DIRECTIONS.items() if other == (axis, -way)}
ARRANGEMENTS = ("side by side", "one above the other")  # of two objects along each axis
BACKGROUNDS = ("plain", "gradient", "stripes", "checker", "dots")

LARGE_FROM = 66  # an object of this size or more is called large
CLEAR = 12  # a relation counts if the distance along its axis is larger than along the other by at least this much

PROBE_CLASSES: dict[str, tuple[str, ...]] = {
    "shape": SHAPES,
    "colour": COLOURS,
    "relation": RELATIONS,
    # between objects in two neighbouring corners: which two are filled tells the axis, and the place of red the rest, so it
    # measures places, as the next two do, which ask for either alone
    "corners": RELATIONS,
    "axis": ARRANGEMENTS,
    "place_of_red": ("upper left", "upper right", "lower left", "lower right"),
    # red and blue in two of three places in a row: (place of red − place of blue) mod 3. Nothing about one object, and no place
    # without its colour, tells it; scores that add up the two places reach 83.3 per cent, "red right of blue" 66.7
    "cyclic": ("one place on", "two places on"),
    # two red objects and a blue one, two of them of one shape: whether these are the red ones. Nor do the words tell it
    "reds_match": ("different shapes", "the same shape"),
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
    def kind(self) -> Description:
        """All that a caption can say of it alone."""
        return Description(self.size_word, self.colour, self.shape)


class Description(NamedTuple):
    """The attributes of an object that words name; None where they name none."""

    size: str | None = None
    colour: str | None = None
    shape: str | None = None

    def fits(self, kind: Description) -> bool:
        """Whether ``kind`` has every attribute that is named."""
        size, colour, shape = self
        return size in (None, kind.size) and colour in (None, kind.colour) and shape in (None, kind.shape)

    def among(self, scene: Scene) -> tuple[SceneObject, ...]:
        """The scene's objects that fit the description."""
        return tuple(one for one in scene.objects if self.fits(one.kind))

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
        """The objects by kind, in order of first appearance; a caption cannot tell objects of one kind apart."""
        return {kind: kind.among(self) for kind in dict.fromkeys(one.kind for one in self.objects)}

    @cached_property
    def relations(self) -> dict[tuple[Description, Description], str]:
        """Relation of the first kind to the second, where it is clear and the same for all their objects."""
        pairs = itertools.permutations(self.kinds.items(), 2)
        found = {(a, b): relation_between(of_a, of_b) for (a, of_a), (b, of_b) in pairs}
        return {pair: name for pair, name in found.items() if name is not None}

    @property
    def single_relations(self) -> list[tuple[Description, Description]]:
        """The pairs of kinds of one object each that have a relation."""
        return [pair for pair in self.relations if all(len(self.kinds[kind]) == 1 for kind in pair)]

    def canonical(self) -> str:
        """The whole scene as one line, for hashing."""
        return repr((self.background, self.ground, self.phase, *(tuple(vars(one).values()) for one in self.objects)))

    def to_json(self) -> dict[str, Any]:
        """The whole scene as JSON values."""
        objects = [dict(vars(one)) for one in self.objects]
        return {"background": self.background, "ground": list(self.ground), "phase": self.phase, "objects": objects}

    @classmethod
    def from_json(cls, truth: dict[str, Any]) -> Scene:
        """The inverse of `to_json`; further keys are ignored."""
        return cls(
            background=truth["background"],
            ground=tuple(truth["ground"]),
            phase=truth["phase"],
            objects=tuple(SceneObject(**one) for one in truth["objects"]),
        )


def relation(a: SceneObject, b: SceneObject) -> str | None:
    """Where a lies as seen from b; None if the distances along both axes differ by less than `CLEAR` units."""
    gaps = a.x - b.x, a.y - b.y
    clear = (name for name, (axis, way) in DIRECTIONS.items() if gaps[axis] * way - abs(gaps[1 - axis]) >= CLEAR)
    return next(clear, None)


def relation_between(first: Sequence[SceneObject], second: Sequence[SceneObject]) -> str | None:
    """The relation that every object of ``first`` has to every object of ``second``; None if they differ."""
    names = {relation(a, b) for a in first for b in second}
    return names.pop() if len(names) == 1 else None


def arrangement(pair: Sequence[SceneObject]) -> str | None:
    """How two objects stand to each other; None if this is unclear, or if there are not exactly two."""
    name = relation(*pair) if len(pair) == 2 else None
    return ARRANGEMENTS[DIRECTIONS[name][0]] if name else None


def label_of(task: str, scene: Scene) -> int:
    """The right answer of a probe for this scene. Raises `UserError` if the scene does not pose the question."""
    objects, colours = scene.objects, Counter(o.colour for o in scene.objects)
    label = None
    if task == "background":
        label = BACKGROUNDS.index(scene.background)
    elif task == "count" and 1 <= len(objects) <= 4:
        label = len(objects) - 1
    elif task in ("shape", "colour") and len(objects) == 1:
        label = PROBE_CLASSES[task].index(getattr(objects[0], task))
    elif task in ("relation", "corners", "axis", "place_of_red", "cyclic") and colours == {"red": 1, "blue": 1}:
        red, blue = sorted(objects, key=lambda o: o.colour != "red")
        label = _of_red_and_blue(task, red, blue)
    elif task == "reds_match" and colours == {"red": 2, "blue": 1} and len({o.shape for o in objects}) == 2:
        label = int(len({o.shape for o in objects if o.colour == "red"}) == 1)
    if label is None:
        raise UserError(f"scenes: this scene does not pose the question {task!r}")
    return label


def third(one: SceneObject) -> tuple[int, int]:
    """In which thirds of the picture an object's centre lies: column and row, 0 to 2."""
    return 3 * one.x // UNITS, 3 * one.y // UNITS


def _of_red_and_blue(task: str, red: SceneObject, blue: SceneObject) -> int | None:
    """The label of a question about a red object and a blue one; None if they do not pose it."""
    (x, y), (other_x, other_y) = third(red), third(blue)
    if task == "cyclic":
        return (x - other_x) % 3 - 1 if x != other_x and y == other_y else None
    if (name := relation(red, blue)) is None:
        return None
    if task == "place_of_red":
        return None if 1 in (x, y) else x // 2 + y
    return DIRECTIONS[name][0] if task == "axis" else RELATIONS.index(name)
