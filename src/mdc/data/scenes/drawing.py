"""Draws the scene of a (task, split, seed, index), and says which split owns which scenes."""

import hashlib
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mdc.data.scenes.shapes import half_extent
from mdc.data.scenes.streams import Draws, draws_for
from mdc.data.scenes.world import (
    BACKGROUNDS,
    COLOURS,
    DIRECTIONS,
    PROBE_CLASSES,
    RELATIONS,
    SHAPES,
    SIZES,
    UNITS,
    Scene,
    SceneObject,
)

# Objects are near these places. Chosen by experiment: a tiny encoder trained on the shapes' names (10,000 images, two epochs)
# reaches 18 % accuracy with free positions on mid-grey, 43 % on a dark background, and 77 to 91 % near nine places.
PLACES = (48, 96, 144)
JITTER = 6  # maximal distance from the place along each axis
MARGIN = 1  # least distance of a bounding box from the image's edge
TILT = 6  # maximal rotation in degrees; more would turn a square into a diamond, or make neighbours touch
GREYS = (60, 100)  # of a background; darker than nearly every colour, so that objects are easy to see and learn
TINT = 24  # maximal distance of a background's channel from its grey
SHADES = 3  # maximal change of an object's colour, in lightness steps

# Which eighths of all scenes, by hash, belong to which split. Pretraining's train and val and the probes' train and test are
# disjoint. All probes have the same: no probe is trained on another's test scenes. Choice sets and the scenes to be captioned are
# in the probes' test eighth.
_BUCKETS = 8
OWNED: dict[str, dict[str, tuple[int, ...]]] = {
    "caption": {"train": (0, 1, 2, 3), "val": (4,), "test": (7,)},
    "choices": {"test": (7,)},
    **{probe: {"train": (5, 6), "test": (7,)} for probe in PROBE_CLASSES},
}


def _near(draws: Draws, x: int, y: int, half: int) -> tuple[int, int]:
    """A place with jitter, moved inwards if the box (of side 2 · ``half``) would leave the image."""
    low, high = MARGIN + half, UNITS - MARGIN - half
    jittered = (x + draws.between(-JITTER, JITTER), y + draws.between(-JITTER, JITTER))
    return min(max(jittered[0], low), high), min(max(jittered[1], low), high)


def _places(draws: Draws, count: int, name: str | None) -> list[tuple[int, int]]:
    """Different places for one to four objects; of two, the first has the relation ``name`` to the second. The place of one of
    them nearly determines the relation."""
    near, middle, far = PLACES
    if count == 1:
        return [(draws.pick(PLACES), draws.pick(PLACES))]
    if count == 2:
        axis, way = DIRECTIONS[name or draws.pick(RELATIONS)]
        along = (near, far) if way < 0 else (far, near)
        # not at opposite ends of the other axis too: on a diagonal no relation is clear
        across = draws.pick([(a, b) for a in PLACES for b in PLACES if abs(a - b) < far - near])
        return list(zip(across, along, strict=True) if axis else zip(along, across, strict=True))
    corners = draws.sample([(near, near), (near, far), (far, near), (far, far)], count)
    if count == 3 and draws.chance(0.5):  # two on one side, one in the middle of the other
        side, opposite = draws.sample([near, far], 2)
        triangle = draws.sample([(side, near), (side, far), (opposite, middle)], 3)
        return triangle if draws.chance(0.5) else [(x, y) for y, x in triangle]
    return corners


def _size(draws: Draws, word: str | None = None, alone: bool = False) -> int:
    """A size for the word, or for a random one; a single object may be larger."""
    if (word or draws.pick(SIZES)) == "small":
        return draws.between(56, 64) if alone else draws.between(48, 60)
    return draws.between(96, 128) if alone else draws.between(68, 76)


@dataclass(frozen=True)
class _Plan:
    """Shape, colour and size of each object; a pair's relation if it is prescribed."""

    objects: list[tuple[str, str, int]]
    relation: str | None = None


def _single(draws: Draws, shape: str | None = None, colour: str | None = None) -> _Plan:
    size = _size(draws, alone=True)
    return _Plan([(shape or draws.pick(SHAPES), colour or draws.pick(COLOURS), size)])


def _pair(draws: Draws, relation: str, colours: Sequence[str] = ("red", "blue")) -> _Plan:
    return _Plan([(draws.pick(SHAPES), colour, _size(draws)) for colour in colours], relation)


def _count(draws: Draws, count: int) -> _Plan:
    """Objects of one shape and one size whose total area does not depend on their number."""
    shape = draws.pick(SHAPES)
    size = int(draws.between(66, 76) * math.sqrt(2 / count) + 0.5)
    one_colour = draws.chance(0.6)
    first = draws.pick(COLOURS)
    return _Plan([(shape, first if one_colour else draws.pick(COLOURS), size) for _ in range(count)])


def _group(draws: Draws) -> _Plan:
    """Two to four objects of one kind, small or large independently of their number."""
    shape, colour, word = draws.pick(SHAPES), draws.pick(COLOURS), draws.pick(SIZES)
    return _Plan([(shape, colour, _size(draws, word)) for _ in range(draws.between(2, 4))])


def _many(draws: Draws) -> _Plan:
    """Three or four objects of different shapes and different colours."""
    count = draws.between(3, 4)
    words = [draws.pick(SIZES) for _ in range(count)]
    kinds = zip(draws.sample(SHAPES, count), draws.sample(COLOURS, count), words, strict=True)
    return _Plan([(shape, colour, _size(draws, word)) for shape, colour, word in kinds])


def _any(draws: Draws) -> _Plan:
    """A scene for pretraining: every probe's situations, and others."""
    u = draws.uniform()
    if u < 0.28:
        return _single(draws)
    if u < 0.62:
        return _pair(draws, draws.pick(RELATIONS), draws.sample(COLOURS if u < 0.54 else ("red", "blue"), 2))
    if u < 0.76:
        return _count(draws, draws.between(1, 4))
    return _group(draws) if u < 0.86 else _many(draws)


#: the objects of each probe's scenes by label; other tasks use `_any`
_PLANS: dict[str, Callable[[Draws, int], _Plan]] = {
    "shape": lambda draws, label: _single(draws, shape=SHAPES[label]),
    "colour": lambda draws, label: _single(draws, colour=COLOURS[label]),
    "relation": lambda draws, label: _pair(draws, RELATIONS[label]),
    "count": lambda draws, label: _count(draws, label + 1),
}


def _attempt(task: str, label: int, draws: Draws) -> Scene:
    """One scene of the task, of any bucket."""
    background = BACKGROUNDS[label] if task == "background" else draws.pick(BACKGROUNDS)
    grey = draws.between(*GREYS)
    red, green, blue = (grey + draws.between(-TINT, TINT) for _ in range(3))
    phase = draws.between(0, 15)
    plan = _PLANS[task](draws, label) if task in _PLANS else _any(draws)
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
    """Which of 8 disjoint parts of all scenes has this one, by a hash of its whole truth."""
    return hashlib.blake2b(scene.canonical().encode(), digest_size=8).digest()[0] % _BUCKETS


def draw_scene(task: str, split: str, seed: int, index: int) -> Scene:
    """The scene of these arguments; the same on any machine and in any order.

    ``task`` is "caption", "choices" or a key of `PROBE_CLASSES`; a probe's label is ``index`` modulo its number of classes, so
    labels are balanced. Scenes are drawn until one is in the split's own buckets.
    """
    label = index % len(PROBE_CLASSES[task]) if task in PROBE_CLASSES else 0
    scenes = (_attempt(task, label, draws_for(task, split, seed, index, attempt)) for attempt in itertools.count())
    return next(scene for scene in scenes if bucket(scene) in OWNED[task][split])
