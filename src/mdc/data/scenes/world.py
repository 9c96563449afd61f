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
from typing import Any

from mdc.plan.records import UserError

UNITS = 192
SHAPES = ("circle", "square", "triangle", "star", "cross", "heart", "ring", "crescent")
COLOURS = ("red", "orange", "yellow", "green", "blue", "purple", "pink", "white")
SIZES = ("small", "large")
RELATIONS = ("left of", "right of", "above", "below")
BACKGROUNDS = ("plain", "gradient", "stripes", "checker", "dots")
OPPOSITE = {"left of": "right of", "right of": "left of", "above": "below", "below": "above"}

LARGE_FROM = 66  # an object of this size or more is called large
CLEAR = 12  # a relation counts if the distance along its axis is larger than along the other by at least this much

PROBE_CLASSES: dict[str, tuple[str, ...]] = {
    "shape": SHAPES,
    "colour": COLOURS,
    "relation": RELATIONS,
    # between objects in two neighbouring corners: which two are filled tells the axis, and the place of red the rest, so it
    # measures places, as the next two do, which ask for either alone
    "corners": RELATIONS,
    "axis": ("side by side", "one above the other"),
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


Kind = tuple[str, str, str]  # size word, colour, shape: what a caption can say of an object


@dataclass(frozen=True)
class Scene:
    """Objects on a background; ``ground`` is its mean RGB and ``phase`` (0 to 15) where its pattern starts."""

    background: str
    ground: tuple[int, int, int]
    phase: int
    objects: tuple[SceneObject, ...]

    @property
    def kinds(self) -> dict[Kind, tuple[SceneObject, ...]]:
        """The objects by kind, in order of first appearance; a caption cannot tell objects of one kind apart."""
        found: dict[Kind, list[SceneObject]] = {}
        for one in self.objects:
            found.setdefault((one.size_word, one.colour, one.shape), []).append(one)
        return {kind: tuple(members) for kind, members in found.items()}

    @property
    def relations(self) -> dict[tuple[Kind, Kind], str]:
        """Relation of the first kind to the second, where it is clear and the same for all their objects."""
        found = {}
        for (a, of_a), (b, of_b) in itertools.permutations(self.kinds.items(), 2):
            if (name := relation_between(of_a, of_b)) is not None:
                found[a, b] = name
        return found

    def canonical(self) -> str:
        """The whole scene as one line, for hashing."""
        objects = ((o.shape, o.colour, o.size, o.x, o.y, o.rotation, o.shade) for o in self.objects)
        return repr((self.background, self.ground, self.phase, *objects))

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
    dx, dy = a.x - b.x, a.y - b.y
    if abs(dx) - abs(dy) >= CLEAR:
        return "left of" if dx < 0 else "right of"
    if abs(dy) - abs(dx) >= CLEAR:
        return "above" if dy < 0 else "below"
    return None


def relation_between(first: Sequence[SceneObject], second: Sequence[SceneObject]) -> str | None:
    """The relation that every object of ``first`` has to every object of ``second``; None if they differ."""
    names = {relation(a, b) for a in first for b in second}
    return names.pop() if len(names) == 1 else None


def label_of(task: str, scene: Scene) -> int:
    """The right answer of a probe for this scene. Raises `UserError` if the scene does not pose the question."""
    if task == "background":
        return BACKGROUNDS.index(scene.background)
    if task == "count" and 1 <= len(scene.objects) <= 4:
        return len(scene.objects) - 1
    if task in ("shape", "colour") and len(scene.objects) == 1:
        (one,) = scene.objects
        return SHAPES.index(one.shape) if task == "shape" else COLOURS.index(one.colour)
    colours = Counter(o.colour for o in scene.objects)
    if task in ("relation", "corners", "axis", "place_of_red", "cyclic") and colours == {"red": 1, "blue": 1}:
        red, blue = sorted(scene.objects, key=lambda o: o.colour != "red")
        if (label := _of_red_and_blue(task, red, blue)) is not None:
            return label
    if task == "reds_match" and colours == {"red": 2, "blue": 1} and len({o.shape for o in scene.objects}) == 2:
        return int(len({o.shape for o in scene.objects if o.colour == "red"}) == 1)
    raise UserError(f"scenes: this scene does not pose the question {task!r}")


def third(one: SceneObject) -> tuple[int, int]:
    """In which thirds of the picture an object's centre lies: column and row, 0 to 2."""
    return 3 * one.x // UNITS, 3 * one.y // UNITS


def _of_red_and_blue(task: str, red: SceneObject, blue: SceneObject) -> int | None:
    """The label of a question about a red object and a blue one; None if they do not pose it."""
    (x, y), (other_x, other_y) = third(red), third(blue)
    if task == "cyclic":
        return (x - other_x) % 3 - 1 if x != other_x and y == other_y else None
    name = relation(red, blue)
    if name is None or task in ("relation", "corners"):
        return None if name is None else RELATIONS.index(name)
    if task == "axis":
        return int(name in ("above", "below"))
    return None if 1 in (x, y) else x // 2 + y
