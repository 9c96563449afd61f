"""Shortcuts in the built-in world's probes: how many labels a part of each scene's truth tells, by the label that goes with it
most often among other scenes. What an encoder reaches above these numbers needs more than that part."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence

from mdc.data.formats.samples import Shortcut
from mdc.data.scenes.drawing import draw_scene
from mdc.data.scenes.world import Scene, SceneObject, label_of, third

#: the most that scores reach which add up one number for each object, whatever its colour, shape and place are worth (the
#: tests enumerate both); of other probes it was not asked
ADDED_UP = {"cyclic": 5 / 6, "reds_match": 0.75}

View = Callable[[Scene], Hashable]
Labelled = Sequence[tuple[Scene, int]]


def probe_shortcuts(task: str, seed: int, train: int, test: int) -> list[Shortcut]:
    """The best of each kind for a probe (a key of `PROBE_CLASSES`) of so many scenes a split: the label that is most frequent
    in the training split, and its share in the test split. Which is best, each half of the training split says of the
    other."""
    known, asked = (
        [(scene, label_of(task, scene)) for scene in (draw_scene(task, split, seed, n) for n in range(count))]
        for split, count in (("train", train), ("test", test))
    )
    halves = known[: train // 2], known[train // 2 :]
    found = []
    for (kind, what), view in _views(task).items():
        held_out = _right(view, *halves) + _right(view, *reversed(halves))
        found.append((held_out, Shortcut(kind, what, _right(view, known, asked))))
    added = [Shortcut("added up", "one number for each object", ADDED_UP[task])] if task in ADDED_UP else []
    return [*best_of_each_kind(found), *added]


def best_of_each_kind(found: Iterable[tuple[float, Shortcut]]) -> list[Shortcut]:
    """Of each kind of shortcut the first that has the highest number before it."""
    best: dict[str, tuple[float, Shortcut]] = {}
    for one in found:
        best[one[1].kind] = max(best.get(one[1].kind, one), one, key=lambda ranked: ranked[0])
    return [shortcut for _, shortcut in best.values()]


def _right(view: View, known: Labelled, asked: Labelled) -> float:
    """The share of those ``asked`` whose label is the most frequent one of what looks the same among the ``known``; 0 of none."""
    counts: defaultdict[Hashable, Counter[int]] = defaultdict(Counter)
    for scene, label in known:
        counts[view(scene)][label] += 1
    most = {key: count.most_common(1)[0][0] for key, count in counts.items()}
    return sum(most.get(view(scene), 0) == label for scene, label in asked) / max(len(asked), 1)


def _views(task: str) -> dict[tuple[str, str], View]:
    """What is looked at, by kind and name. One object is the first or the last: red or blue, where there are both."""
    parts: dict[str, Callable[[SceneObject], Hashable]] = {
        "colour": lambda one: one.colour,
        "shape": lambda one: one.shape,
        "size": lambda one: one.size // 6,
        "place": third,
    }
    parts.pop(task, None)  # of one object alone: no shortcut but the question itself
    found: dict[tuple[str, str], View] = {("nothing", "the most frequent label"): lambda scene: None}
    for names in [*itertools.combinations(parts, 1), *itertools.combinations(parts, 2)]:
        for which, at in (("first", 0), ("last", -1)):
            found["one object", f"{' and '.join(names)} of the {which}"] = lambda scene, names=names, at=at: tuple(  # type: ignore[misc]
                parts[name](scene.objects[at]) for name in names
            )
    if task in ("shape", "colour", "count"):  # the place or the word of the only object; the number of words
        return found
    found["places", "which are filled"] = lambda scene: tuple(sorted(map(third, scene.objects)))
    found["words", "how often each colour and shape is there"] = lambda scene: (
        *sorted(one.colour for one in scene.objects),
        *sorted(one.shape for one in scene.objects),
    )
    return found
