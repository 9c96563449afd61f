"""The rendered world: what a scene is, and how one is drawn from (task, split, seed, index).

Lengths are integers in units of 1/192 of the image's side (so 4 units are one pixel at 48 pixels); x grows to the
right, y downwards; an object's ``size`` is the longer side of its upright bounding box. Everything a picture depends
on is in its `Scene`, so a scene is the complete ground truth of its picture.
"""

from __future__ import annotations

import hashlib
import itertools
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar

import numpy as np

from mdc.records import UserError

T = TypeVar("T")

UNITS = 192
SHAPES = ("circle", "square", "triangle", "star", "cross", "heart", "ring", "crescent")
COLOURS = ("red", "orange", "yellow", "green", "blue", "purple", "pink", "white")
SIZES = ("small", "large")
RELATIONS = ("left of", "right of", "above", "below")
BACKGROUNDS = ("plain", "gradient", "stripes", "checker", "dots")
OPPOSITE = {"left of": "right of", "right of": "left of", "above": "below", "below": "above"}

LARGE_FROM = 66  # an object of this size or more is called large
CLEAR = 12  # a relation counts when its axis leads by at least this much
# Objects stand near these places. Found by trial: with free positions, or on a ground lighter than some objects and
# darker than others, a tiny encoder does not learn shapes from 20,000 pictures even when it is told their names.
PLACES = (48, 96, 144)
JITTER = 4  # at most so far from the place, either way
MARGIN = 1  # least distance of a bounding box from the image's edge
TILT = 6  # greatest rotation in degrees; more would turn a square into a diamond, or make neighbours touch
SHADES = 3  # lightness steps an object's colour may move either way

PROBE_CLASSES: dict[str, tuple[str, ...]] = {
    "shape": SHAPES,
    "colour": COLOURS,
    "relation": RELATIONS,
    "count": ("one", "two", "three", "four"),
    "background": BACKGROUNDS,
}
# Which eighth(s) of all scenes, by hash, belong to whom. Probes share theirs: no probe is trained on another's test.
_BUCKETS = 8
_OWNED = {"train": (0, 1, 2, 3), "val": (4,), "probe-train": (5, 6), "probe-test": (7,)}
# Stable numbers of the random streams; a new one takes a new number.
_STREAM = {"caption": 0, "shape": 1, "colour": 2, "relation": 3, "count": 4, "background": 5, "alt": 6, "dense": 7}
_SPLIT = {"train": 0, "val": 1, "test": 2}


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
        """The objects that a caption cannot tell apart, together, in order of first appearance."""
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
        """The whole truth as one line, for hashing."""
        objects = ((o.shape, o.colour, o.size, o.x, o.y, o.rotation, o.shade) for o in self.objects)
        return repr((self.background, self.ground, self.phase, *objects))

    def to_json(self) -> dict[str, Any]:
        """The whole truth as JSON values."""
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
    """Where a lies seen from b, or None when neither axis leads by `CLEAR` units."""
    dx, dy = a.x - b.x, a.y - b.y
    if abs(dx) - abs(dy) >= CLEAR:
        return "left of" if dx < 0 else "right of"
    if abs(dy) - abs(dx) >= CLEAR:
        return "above" if dy < 0 else "below"
    return None


def relation_between(first: Sequence[SceneObject], second: Sequence[SceneObject]) -> str | None:
    """The one relation that every object of ``first`` has to every object of ``second``, else None."""
    names = {relation(a, b) for a in first for b in second}
    return names.pop() if len(names) == 1 else None


class Draws:
    """Small random choices from a numpy generator, drawn in blocks because single draws are slow."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng
        self._left: list[float] = []

    def uniform(self) -> float:
        """A number in [0, 1)."""
        if not self._left:
            self._left = self._rng.random(48).tolist()
        return self._left.pop()

    def between(self, low: int, high: int) -> int:
        """An integer in [low, high]; ``low`` when the range is empty."""
        return low + int(self.uniform() * max(high - low + 1, 1))

    def pick(self, items: Sequence[T]) -> T:
        """One item, all equally likely."""
        return items[int(self.uniform() * len(items))]

    def chance(self, share: float) -> bool:
        """True with this probability."""
        return self.uniform() < share

    def sample(self, items: Sequence[T], count: int) -> list[T]:
        """``count`` different items in random order."""
        pool = list(items)
        return [pool.pop(int(self.uniform() * len(pool))) for _ in range(count)]


def draws_for(stream: str, split: str, seed: int, index: int, attempt: int = 0) -> Draws:
    """The random stream of one sample: Philox keyed by the seed, its counter set by everything else."""
    if not (0 <= seed < 2**64 and 0 <= index < 2**64):
        raise UserError(f"scenes: seed and index must be in 0..2^64-1, got seed {seed}, index {index}")
    counter = [0, index, _STREAM[stream] * 8 + _SPLIT[split], attempt]
    return Draws(np.random.Generator(np.random.Philox(key=seed, counter=counter)))


def _normalised(points: list[tuple[float, float]]) -> tuple[tuple[float, float], ...]:
    """Centre the points' bounding box on the origin and scale its longer side to 1."""
    xs, ys = [p[0] for p in points], [p[1] for p in points]
    scale = 1 / max(max(xs) - min(xs), max(ys) - min(ys))
    mx, my = (max(xs) + min(xs)) / 2, (max(ys) + min(ys)) / 2
    return tuple(((x - mx) * scale, (y - my) * scale) for x, y in points)


def _arc(radius: float, start: float, stop: float, steps: int, x: float = 0.0) -> list[tuple[float, float]]:
    """Points on a circle around (x, 0), from one angle (degrees, clockwise on the screen) to another."""
    angles = (math.radians(start + (stop - start) * i / steps) for i in range(steps + 1))
    return [(x + radius * math.cos(a), radius * math.sin(a)) for a in angles]


@cache
def outline(shape: str, rotation: int = 0) -> tuple[tuple[float, float], ...]:
    """The shape as one polygon, upright bounding box centred on the origin with longer side 1, then rotated.

    A ring is a keyhole polygon: around outside, across, back around inside.
    """
    if shape == "circle":
        raw = _arc(1, 0, 360, 40)
    elif shape == "square":
        raw = [(-1, -1), (1, -1), (1, 1), (-1, 1)]
    elif shape == "triangle":
        raw = [(0, -1), (1, 0.8), (-1, 0.8)]
    elif shape == "star":
        spokes = [(1.0 if i % 2 == 0 else 0.48, math.radians(36 * i - 90)) for i in range(10)]
        raw = [(r * math.cos(a), r * math.sin(a)) for r, a in spokes]
    elif shape == "cross":
        arm = 0.36
        corner = [(-arm, -1), (arm, -1), (arm, -arm), (1, -arm), (1, arm), (arm, arm)]
        raw = corner + [(-x, -y) for x, y in corner]
    elif shape == "heart":
        turns = (2 * math.pi * i / 40 for i in range(40))
        raw = [
            (16 * math.sin(t) ** 3, -13 * math.cos(t) + 5 * math.cos(2 * t) + 2 * math.cos(3 * t) + math.cos(4 * t))
            for t in turns
        ]
    elif shape == "ring":
        raw = _arc(1, 0, 360, 40) + _arc(0.52, 360, 0, 32)
    elif shape == "crescent":
        # A disc with a smaller disc, whose centre lies to the right, cut away: they meet at these angles.
        bite, shift = 0.86, 0.52
        meet_x = (1 + shift**2 - bite**2) / (2 * shift)
        outer, inner = math.degrees(math.acos(meet_x)), math.degrees(math.acos((meet_x - shift) / bite))
        raw = _arc(1, outer, 360 - outer, 36) + _arc(bite, 360 - inner, inner, 28, x=shift)
    else:
        raise UserError(f"scenes: unknown shape {shape!r}; allowed: {', '.join(SHAPES)}")
    turn = math.radians(rotation)
    cos, sin = math.cos(turn), math.sin(turn)
    return tuple((x * cos - y * sin, x * sin + y * cos) for x, y in _normalised(raw))


@cache
def half_extent(shape: str, rotation: int = 0) -> float:
    """Half the side of the upright square around the rotated shape of size 1."""
    return max(max(abs(x), abs(y)) for x, y in outline(shape, rotation))


def _near(draws: Draws, x: int, y: int, half: int) -> tuple[int, int]:
    """A place with its jitter, moved inwards where the box (half its side given) would leave the picture."""
    low, high = MARGIN + half, UNITS - MARGIN - half
    jittered = (x + draws.between(-JITTER, JITTER), y + draws.between(-JITTER, JITTER))
    return min(max(jittered[0], low), high), min(max(jittered[1], low), high)


def _places(draws: Draws, count: int, name: str | None) -> list[tuple[int, int]]:
    """Different places for one to four objects; of two, the first stands in relation ``name`` to the second."""
    near, middle, far = PLACES
    if count == 1:
        return [(draws.pick(PLACES), draws.pick(PLACES))]
    if count == 2:
        name = name or draws.pick(RELATIONS)
        along = (near, far) if name in ("left of", "above") else (far, near)
        # Not both at opposite ends across as well: on a diagonal no relation would be clear.
        across = draws.pick([(a, b) for a in PLACES for b in PLACES if abs(a - b) < far - near])
        pairs = list(zip(along, across, strict=True))
        return pairs if name in ("left of", "right of") else [(x, y) for y, x in pairs]
    corners = draws.sample([(near, near), (near, far), (far, near), (far, far)], count)
    if count == 3 and draws.chance(0.5):  # two on one side, one in the middle of the other
        side, other = draws.sample([near, far], 2)
        triangle = draws.sample([(side, near), (side, far), (other, middle)], 3)
        return triangle if draws.chance(0.5) else [(x, y) for y, x in triangle]
    return corners


def _word_size(draws: Draws, word: str, alone: bool) -> int:
    """A size that the word describes; an object that stands alone may be larger."""
    if word == "small":
        return draws.between(56, 64) if alone else draws.between(48, 60)
    return draws.between(96, 128) if alone else draws.between(68, 76)


@dataclass(frozen=True)
class _Plan:
    """Shape, colour and size of each object to be placed, and the pair's relation if it is prescribed."""

    objects: list[tuple[str, str, int]]
    relation: str | None = None


def _plan_single(draws: Draws, shape: str | None = None, colour: str | None = None) -> _Plan:
    size = _word_size(draws, draws.pick(SIZES), alone=True)
    return _Plan([(shape or draws.pick(SHAPES), colour or draws.pick(COLOURS), size)])


def _plan_relation(draws: Draws, name: str, colours: Sequence[str]) -> _Plan:
    objects = [(draws.pick(SHAPES), c, _word_size(draws, draws.pick(SIZES), alone=False)) for c in colours]
    return _Plan(objects, name)


def _plan_count(draws: Draws, count: int) -> _Plan:
    """Objects of one shape and one size whose painted area together does not depend on their number."""
    shape = draws.pick(SHAPES)
    size = int(draws.between(66, 76) * math.sqrt(2 / count) + 0.5)
    one_colour = draws.chance(0.6)
    first = draws.pick(COLOURS)
    return _Plan([(shape, first if one_colour else draws.pick(COLOURS), size) for _ in range(count)])


def _plan_group(draws: Draws) -> _Plan:
    """Two to four objects that a caption cannot tell apart, small or large whatever their number."""
    shape, colour, word = draws.pick(SHAPES), draws.pick(COLOURS), draws.pick(SIZES)
    return _Plan([(shape, colour, _word_size(draws, word, alone=False)) for _ in range(draws.between(2, 4))])


def _plan_many(draws: Draws) -> _Plan:
    """Three or four objects of different shapes and different colours."""
    count = draws.between(3, 4)
    words = [draws.pick(SIZES) for _ in range(count)]
    shapes, colours = draws.sample(SHAPES, count), draws.sample(COLOURS, count)
    return _Plan([(s, c, _word_size(draws, w, alone=False)) for s, c, w in zip(shapes, colours, words, strict=True)])


def _plan_any(draws: Draws) -> _Plan:
    """What pretraining sees: every probe's situation among others."""
    u = draws.uniform()
    if u < 0.28:
        return _plan_single(draws)
    if u < 0.54:
        return _plan_relation(draws, draws.pick(RELATIONS), draws.sample(COLOURS, 2))
    if u < 0.62:
        return _plan_relation(draws, draws.pick(RELATIONS), draws.sample(("red", "blue"), 2))
    if u < 0.76:
        return _plan_count(draws, draws.between(1, 4))
    if u < 0.86:
        return _plan_group(draws)
    return _plan_many(draws)


def _plan_for(task: str, label: int, draws: Draws) -> _Plan:
    if task == "shape":
        return _plan_single(draws, shape=SHAPES[label])
    if task == "colour":
        return _plan_single(draws, colour=COLOURS[label])
    if task == "relation":
        return _plan_relation(draws, RELATIONS[label], ("red", "blue"))
    if task == "count":
        return _plan_count(draws, label + 1)
    return _plan_any(draws)


def _attempt(task: str, label: int, draws: Draws) -> Scene:
    """One scene of the task, of any bucket."""
    background = BACKGROUNDS[label] if task == "background" else draws.pick(BACKGROUNDS)
    grey = draws.between(24, 52)  # darker than every object: all colours stay legible, and shapes learnable
    red, green, blue = (grey + draws.between(-14, 14) for _ in range(3))
    phase = draws.between(0, 15)
    plan = _plan_for(task, label, draws)
    turns = [0 if shape in ("circle", "ring") else draws.between(-TILT, TILT) for shape, _, _ in plan.objects]
    halves = [
        math.ceil(size * half_extent(shape, turn)) for (shape, _, size), turn in zip(plan.objects, turns, strict=True)
    ]
    places = _places(draws, len(halves), plan.relation)
    centres = [_near(draws, x, y, half) for (x, y), half in zip(places, halves, strict=True)]
    objects = tuple(
        SceneObject(shape, colour, size, x, y, turn, draws.between(-SHADES, SHADES))
        for (shape, colour, size), turn, (x, y) in zip(plan.objects, turns, centres, strict=True)
    )
    return Scene(background, (red, green, blue), phase, objects)


def bucket(scene: Scene) -> int:
    """Which of 8 disjoint parts of all scenes this one lies in; a hash of its whole truth."""
    return hashlib.blake2b(scene.canonical().encode(), digest_size=8).digest()[0] % _BUCKETS


def owner(task: str, split: str) -> tuple[int, ...]:
    """The buckets of a split: pretraining's train and val, and the probes' train and test, share none."""
    if task == "caption":
        allowed = ("train", "val")
    elif task in PROBE_CLASSES:
        allowed = ("train", "test")
    else:
        raise UserError(f"scenes: unknown task {task!r}; allowed: caption, {', '.join(PROBE_CLASSES)}")
    if split not in allowed:
        raise UserError(f"scenes: task {task} has no split {split!r}; allowed: {', '.join(allowed)}")
    return _OWNED[split if task == "caption" else f"probe-{split}"]


def draw_scene(task: str, split: str, seed: int, index: int) -> Scene:
    """The scene with this address; the same on any machine and in any order.

    ``task`` is "caption" or a key of `PROBE_CLASSES`; a probe's label is ``index`` modulo its number of classes, so
    labels are balanced. A scene is drawn again until its bucket is the split's own. Raises `UserError` for a task or
    split that does not exist.
    """
    owned = owner(task, split)
    label = index % len(PROBE_CLASSES[task]) if task in PROBE_CLASSES else 0
    for attempt in itertools.count():
        scene = _attempt(task, label, draws_for(task, split, seed, index, attempt))
        if bucket(scene) in owned:
            return scene
    raise AssertionError("unreachable")


def label_of(task: str, scene: Scene) -> int:
    """The probe's right answer, read off the scene's truth. Raises `UserError` if the scene does not pose it."""
    if task == "background":
        return BACKGROUNDS.index(scene.background)
    if task == "count" and 1 <= len(scene.objects) <= 4:
        return len(scene.objects) - 1
    if task in ("shape", "colour") and len(scene.objects) == 1:
        (one,) = scene.objects
        return SHAPES.index(one.shape) if task == "shape" else COLOURS.index(one.colour)
    if task == "relation" and Counter(o.colour for o in scene.objects) == {"red": 1, "blue": 1}:
        red, blue = sorted(scene.objects, key=lambda o: o.colour != "red")
        if (name := relation(red, blue)) is not None:
            return RELATIONS.index(name)
    raise UserError(f"scenes: this scene does not pose the question {task!r}")
