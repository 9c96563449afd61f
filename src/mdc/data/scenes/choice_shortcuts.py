"""Shortcuts in choice sets of rendered scenes: how many right captions are found from the captions alone, or with a little of the
scene's truth."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from mdc.data.formats.samples import Shortcut
from mdc.data.scenes.check import read
from mdc.data.scenes.language import LEXICON, Relation, words_of
from mdc.data.scenes.shortcuts import best_of_each_kind
from mdc.data.scenes.world import DIRECTIONS, UNITS, Description, Scene


def choice_shortcuts(items: Sequence[tuple[Scene, tuple[str, ...]]]) -> list[Shortcut]:
    """The best of each kind for a choice set, of each item its scene and options, the right one first: a tie among k options
    counts 1/k."""
    options = [some for _, some in items]
    lengths = [[float(len(words_of(text))) for text in some] for some in options]
    kinds: dict[tuple[str, str], Sequence[Sequence[float]]] = {
        ("no image", "the shorter"): [[-length for length in some] for some in lengths],
        ("no image", "the longer"): lengths,
        ("no image", "words and pairs of words, learnt on the other half"): _learnt(options),
        ("words", "words that the image has, whatever has them"): [
            [_there(scene, text) for text in some] for scene, some in items
        ],
        ("one object", "the side of the first in a relation"): [
            [_sided(scene, text) for text in some] for scene, some in items
        ],
    }
    found = []
    for kind, scores in kinds.items():
        value = float(np.mean([(one[0] == max(one)) / list(one).count(max(one)) for one in scores]))
        found.append((value, Shortcut(*kind, value)))
    return best_of_each_kind(found)


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
    has = {value for kind in scene.kinds for value in kind}
    said = [LEXICON[word] for word in words_of(text) if word in LEXICON]
    return -float(sum(entry.kind in Description._fields and entry.value not in has for entry in said))


def _sided(scene: Scene, text: str) -> float:
    """In how many of a caption's relations the first object lies on that side of the picture where it would have to be."""
    found = 0
    for claim in read(text)[0]:
        if isinstance(claim, Relation):
            axis, side = DIRECTIONS[claim.name]
            found += any(((one.x, one.y)[axis] - UNITS / 2) * side > 0 for one in claim.first.among(scene))
    return float(found)
