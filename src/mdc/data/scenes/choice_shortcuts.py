"""Shortcuts in choice sets of rendered scenes: the accuracy from the captions alone, or with little of the scene's truth."""

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import permutations

import numpy as np

from mdc.data.formats.samples import Shortcut
from mdc.data.scenes.check import read
from mdc.data.scenes.language import LEXICON, Relation, words_of
from mdc.data.scenes.shortcuts import best_of_each_kind
from mdc.data.scenes.world import DIRECTIONS, UNITS, Description, Scene, relation


def choice_shortcuts(items: Sequence[tuple[Scene, tuple[str, ...]]]) -> list[Shortcut]:
    """The best of each kind for a choice set; ``items``: (scene, options), the right option first. A tie among k counts 1/k."""
    options = [texts for _, texts in items]
    lengths = [[float(len(words_of(text))) for text in texts] for texts in options]
    kinds: dict[tuple[str, str], Sequence[Sequence[float]]] = {
        ("no image", "the shorter"): [[-length for length in item] for item in lengths],
        ("no image", "the longer"): lengths,
        ("no image", "words and pairs of words, learnt on the other half"): _learnt(options),
    }
    for kind, score in PARTIAL.items():
        kinds[kind] = [[score(scene, text) for text in texts] for scene, texts in items]
    shortcuts = []
    for kind, scores in kinds.items():
        value = float(np.mean([(item[0] == max(item)) / list(item).count(max(item)) for item in scores]))
        shortcuts.append((value, Shortcut(*kind, value)))
    return best_of_each_kind(shortcuts)


def _learnt(options: Sequence[Sequence[str]]) -> list[list[float]]:
    """Scores of a linear model of unigrams and bigrams: ridge regression on the differences between right and wrong captions,
    fitted on each half of the items for the other."""
    grams = [[Counter([*w, *zip(["", *w], [*w, ""], strict=True)]) for w in map(words_of, texts)] for texts in options]
    column = {gram: n for n, gram in enumerate(dict.fromkeys(gram for item in grams for bag in item for gram in bag))}
    table = [np.zeros((len(item), len(column))) for item in grams]
    for rows, item in zip(table, grams, strict=True):
        for row, bag in zip(rows, item, strict=True):
            row[[column[gram] for gram in bag]] = list(bag.values())
    scores: list[list[float]] = [[] for _ in options]
    for half in (0, 1):
        gaps = np.concatenate([rows[:1] - rows[1:] for rows in table[1 - half :: 2]])
        # with a ridge of 1, in the dual form
        weights = gaps.T @ np.linalg.solve(gaps @ gaps.T + np.eye(len(gaps)), np.ones(len(gaps)))
        for number in range(half, len(options), 2):
            # rounded: equal captions are ties
            scores[number] = np.round(table[number] @ weights, 9).tolist()
    return scores


def _absent_words(scene: Scene, text: str) -> float:
    """Minus the number of a caption's colours, shapes and sizes that no object of the scene has."""
    present = {value for kind in scene.kinds for value in kind}
    entries = [LEXICON[word] for word in words_of(text) if word in LEXICON]
    return -float(sum(entry.kind in Description._fields and entry.value not in present for entry in entries))


def _placed(scene: Scene, text: str) -> float:
    """How many of a caption's relations some object has to another."""
    between = {relation(*pair) for pair in permutations(scene.objects, 2)}
    return float(sum(isinstance(claim, Relation) and claim.name in between for claim in read(text)[0]))


def _sides(scene: Scene, text: str) -> float:
    """In how many of a caption's relations the first object is in that half of the image."""
    count = 0
    for claim in read(text)[0]:
        if isinstance(claim, Relation):
            axis, side = DIRECTIONS[claim.name]
            count += any(((thing.x, thing.y)[axis] - UNITS / 2) * side > 0 for thing in claim.first.among(scene))
    return float(count)


#: scores of a caption from a part of its scene's truth: {(kind, what): score}
PARTIAL: dict[tuple[str, str], Callable[[Scene, str], float]] = {
    ("words", "words that the image has, whatever has them"): _absent_words,
    ("one object", "the side of the first in a relation"): _sides,
    ("places", "relations that two of the objects have, whichever they are"): _placed,
}
