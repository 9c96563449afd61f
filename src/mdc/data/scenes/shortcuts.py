"""Shortcuts in the embedded world's probes and choice sets: how many answers are right without what the question is about.

Of a probe: from a part of each scene's truth alone, by the label that goes with it most often among other scenes. Of a choice
set: from the captions alone, or with a little of the truth. What a model reaches above these numbers needs more than that part.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mdc.data.formats.samples import ChoiceSample, Skipped
from mdc.data.scenes.check import read
from mdc.data.scenes.drawing import draw_scene
from mdc.data.scenes.language import COLOUR_WORDS, SHAPE_WORDS, SIZE_WORDS, Relation, plural
from mdc.data.scenes.world import UNITS, Scene, SceneObject, label_of, third
from mdc.data.scenes.wrong import words_of

#: the most that scores reach which add up one number for each object, whatever its colour, shape and place are worth, in per
#: cent (the tests enumerate both); of other probes it was not asked
ADDED_UP = {"cyclic": 500 / 6, "reds_match": 75.0}

_DRAWN = {"train": 6000, "test": 8000}
_ASKED = {"shape": "shape", "colour": "colour"}  # of one object alone: no shortcut but the question itself
_SIDES = {"left of": (0, -1), "right of": (0, 1), "above": (1, -1), "below": (1, 1)}
_MEANING = {
    form: value
    for table in (COLOUR_WORDS, SHAPE_WORDS, SIZE_WORDS)
    for value, words in table.items()
    for word in words
    for form in (word, plural(word))
}


@dataclass(frozen=True)
class Shortcut:
    """``set``: its key, ``of``: probe or choices. ``kind``: nothing, no image, one object, places, words or added up; ``what`` is
    looked at; ``value``: per cent right."""

    of: str
    set: str
    kind: str
    what: str
    value: float


def probe_shortcuts(name: str, task: str, seed: int = 0) -> list[Shortcut]:
    """The best of each kind for a probe (a key of `PROBE_CLASSES`): the label that is most frequent among 6,000 scenes of the
    training split. Which is best, 4,000 scenes of the test split decide; its value is that on 4,000 others."""
    scenes = {split: [draw_scene(task, split, seed, n) for n in range(count)] for split, count in _DRAWN.items()}
    labels = {split: [label_of(task, scene) for scene in some] for split, some in scenes.items()}
    best: dict[str, tuple[int, Shortcut]] = {}
    half = _DRAWN["test"] // 2
    for (kind, what), view in _views(task).items():
        seen = {split: [view(scene) for scene in some] for split, some in scenes.items()}
        counts: dict[Hashable, Counter[int]] = {}
        for key, label in zip(seen["train"], labels["train"], strict=True):
            counts.setdefault(key, Counter())[label] += 1
        most = {key: count.most_common(1)[0][0] for key, count in counts.items()}
        right = [most.get(key, 0) == label for key, label in zip(seen["test"], labels["test"], strict=True)]
        found = sum(right[:half]), Shortcut("probe", name, kind, what, 100 * sum(right[half:]) / half)
        best[kind] = max(best.get(kind, found), found, key=lambda one: one[0])
    added = (
        [Shortcut("probe", name, "added up", "one number for each object", ADDED_UP[task])] if task in ADDED_UP else []
    )
    return [*(one for _, one in best.values()), *added]


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


def choice_shortcuts(name: str, samples: Iterable[ChoiceSample]) -> list[Shortcut]:
    """The best of each kind for a choice set of rendered scenes: a tie among k options counts 1/k."""
    items = [(Scene.from_json(one.truth), one.options) for one in samples if one.truth is not None]
    options = [some for _, some in items]
    lengths = [[float(len(words_of(text))) for text in some] for some in options]
    kinds: dict[tuple[str, str], Sequence[Sequence[float]]] = {
        ("no image", "the shorter"): [[-length for length in some] for some in lengths],
        ("no image", "the longer"): lengths,
        ("no image", "words and pairs of words, learnt on the other half"): _learnt(options),
        ("words", "words that the image has, whatever has them"): [
            [_there(scene, t) for t in some] for scene, some in items
        ],
        ("one object", "the side of the first in a relation"): [
            [_sided(scene, t) for t in some] for scene, some in items
        ],
    }
    best: dict[str, Shortcut] = {}
    for (kind, what), scores in kinds.items():
        value = 100 * float(np.mean([(one[0] == max(one)) / list(one).count(max(one)) for one in scores]))
        found = Shortcut("choices", name, kind, what, value)
        best[kind] = max(best.get(kind, found), found, key=lambda one: one.value)
    return list(best.values())


def _learnt(options: Sequence[Sequence[str]]) -> list[list[float]]:
    """Scores of a linear model of words and of pairs of neighbours, least squares with a small penalty on the differences between
    right and wrong captions; each half of the items is scored by the model of the other."""
    grams = [[Counter([*w, *zip(["", *w], [*w, ""], strict=True)]) for w in map(words_of, some)] for some in options]
    known = {gram: n for n, gram in enumerate(dict.fromkeys(gram for some in grams for one in some for gram in one))}
    table = [np.zeros((len(some), len(known))) for some in grams]
    for rows, some in zip(table, grams, strict=True):
        for row, one in zip(rows, some, strict=True):
            row[[known[gram] for gram in one]] = list(one.values())
    scores: list[list[float]] = [[] for _ in options]
    for half in (0, 1):
        gaps = np.concatenate([rows[:1] - rows[1:] for rows in table[1 - half :: 2]])
        # with a ridge of 1, in the space of the gaps
        weights = gaps.T @ np.linalg.solve(gaps @ gaps.T + np.eye(len(gaps)), np.ones(len(gaps)))
        for number in range(half, len(options), 2):
            # rounded: equal captions are ties
            scores[number] = np.round(table[number] @ weights, 9).tolist()
    return scores


def _there(scene: Scene, text: str) -> float:
    """How many of a caption's colours, shapes and sizes no object of the scene has, as a negative number."""
    has = {value for one in scene.objects for value in (one.colour, one.shape, one.size_word)}
    return -float(sum(_MEANING[word] not in has for word in words_of(text) if word in _MEANING))


def _sided(scene: Scene, text: str) -> float:
    """In how many of a caption's relations the first object lies on that side of the picture where it would have to be."""
    found = 0
    for claim in read(text)[0]:
        if isinstance(claim, Relation):
            axis, side = _SIDES[claim.name]
            found += any(((one.x, one.y)[axis] - UNITS / 2) * side > 0 for one in claim.first.among(scene))
    return float(found)


def all_shortcuts(probes: Mapping[str, Mapping[str, Any]], choices: Mapping[str, Mapping[str, Any]]) -> list[Shortcut]:
    """Those of every rendered probe and choice set among a scale's sources, by their keys (of a source: its values)."""
    from mdc.data.sources.choices.scenes import SceneChoices

    found = []
    for name, source in probes.items():
        if source["kind"] == "scenes":
            found += probe_shortcuts(name, source["task"], source["seed"])
    for name, source in choices.items():
        if source["kind"] == "scenes":
            found += choice_shortcuts(name, SceneChoices(source).samples("test", Skipped()))
    return found
