"""Shortcuts in the embedded world's probes: how many labels a part of each scene's truth tells, by the label that goes with it
most often among other scenes. What an encoder reaches above these numbers needs more than that part."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Hashable, Sequence

from mdc.data.formats.samples import Shortcut
from mdc.data.scenes.drawing import draw_scene
from mdc.data.scenes.world import Scene, SceneObject, label_of, third

#: the most that scores reach which add up one number for each object, whatever its colour, shape and place are worth (the
#: tests enumerate both); of other probes it was not asked
ADDED_UP = {"cyclic": 5 / 6, "reds_match": 0.75}

_ASKED = {"shape": "shape", "colour": "colour"}  # of one object alone: no shortcut but the question itself


def probe_shortcuts(task: str, seed: int, train: int, test: int) -> list[Shortcut]:
    """The best of each kind for a probe (a key of `PROBE_CLASSES`) of so many scenes a split: the label that is most frequent
    in the training split, and its share in the test split. Which is best, each half of the training split says of the
    other."""
    scenes = {
        split: [draw_scene(task, split, seed, n) for n in range(n)] for split, n in (("train", train), ("test", test))
    }
    labels = {split: [label_of(task, scene) for scene in some] for split, some in scenes.items()}
    best: dict[str, tuple[float, Shortcut]] = {}
    half = train // 2
    for (kind, what), view in _views(task).items():
        known = list(zip(map(view, scenes["train"]), labels["train"], strict=True))
        asked = list(zip(map(view, scenes["test"]), labels["test"], strict=True))
        first, second = known[:half], known[half:]
        held_out = _right(first, second) + _right(second, first)
        found = held_out, Shortcut(kind, what, _right(known, asked))
        best[kind] = max(best.get(kind, found), found, key=lambda one: one[0])
    added = [Shortcut("added up", "one number for each object", ADDED_UP[task])] if task in ADDED_UP else []
    return [*(one for _, one in best.values()), *added]


def _right(known: Sequence[tuple[Hashable, int]], asked: Sequence[tuple[Hashable, int]]) -> float:
    """The share of those ``asked`` whose label is the most frequent one of their key among the ``known``; 0 of none."""
    counts: dict[Hashable, Counter[int]] = {}
    for key, label in known:
        counts.setdefault(key, Counter())[label] += 1
    most = {key: count.most_common(1)[0][0] for key, count in counts.items()}
    return sum(most.get(key, 0) == label for key, label in asked) / max(len(asked), 1)


def _views(task: str) -> dict[tuple[str, str], Callable[[Scene], Hashable]]:
    """What is looked at, by kind and name. One object is the first or the last: red or blue, where there are both."""
    parts: dict[str, Callable[[SceneObject], Hashable]] = {
        "colour": lambda one: one.colour,
        "shape": lambda one: one.shape,
        "size": lambda one: one.size // 6,
        "place": third,
    }
    parts.pop(_ASKED.get(task, ""), None)
    found: dict[tuple[str, str], Callable[[Scene], Hashable]] = {
        ("nothing", "the most frequent label"): lambda scene: None
    }
    for names in [*itertools.combinations(parts, 1), *itertools.combinations(parts, 2)]:
        for which, at in (("first", 0), ("last", -1)):
            found["one object", f"{' and '.join(names)} of the {which}"] = lambda scene, names=names, at=at: tuple(  # type: ignore[misc]
                parts[name](scene.objects[at]) for name in names
            )
    found["places", "which are filled"] = lambda scene: tuple(sorted(map(third, scene.objects)))
    said = [name for name in ("colour", "shape") if name in parts]
    found["words", "how often each colour and shape is there"] = lambda scene: tuple(
        tuple(sorted(getattr(one, name) for one in scene.objects)) for name in said
    )
    if task in _ASKED or task == "count":  # the place or the word of the only object; the number of words
        found = {key: view for key, view in found.items() if key[0] in ("nothing", "one object")}
    return found
