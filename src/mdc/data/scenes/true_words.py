"""Single words of a caption against its scene, whatever stands around them: for captions whose grammar cannot be relied on.

A colour or shape word is true if an object of the scene has it; a number if the scene has so many objects, in all or of one
colour, one shape, or one kind. A word that stands twice counts twice.
"""

from __future__ import annotations

import re
from collections import Counter

from mdc.data.scenes.language import COLOUR_WORDS, NUMBER_WORDS, SHAPE_WORDS, plural
from mdc.data.scenes.world import Scene

#: the kinds of words, in this order
WORD_KINDS = ("colour", "shape", "count")

_COLOUR = {word: colour for colour, words in COLOUR_WORDS.items() for word in words}
_ONE = {word: shape for shape, words in SHAPE_WORDS.items() for word in words}
_SHAPE = _ONE | {plural(word): shape for word, shape in _ONE.items()}
_NUMBER = {word: number for number, word in NUMBER_WORDS.items()} | {str(number): number for number in NUMBER_WORDS}
_WORD = re.compile(r"[a-z0-9]+")


def true_words(scene: Scene, caption: str) -> list[int]:
    """Of each of ``WORD_KINDS`` in turn how many of its words are true, and how many there are."""
    colours, shapes = Counter(one.colour for one in scene.objects), Counter(one.shape for one in scene.objects)
    numbers = {len(scene.objects), *colours.values(), *shapes.values(), *map(len, scene.kinds.values())}
    true, said = Counter[str](), Counter[str]()
    for word in _WORD.findall(caption.lower()):
        for kind, table, there in (
            ("colour", _COLOUR, colours),
            ("shape", _SHAPE, shapes),
            ("count", _NUMBER, numbers),
        ):
            if word in table:
                said[kind] += 1
                true[kind] += table[word] in there
    return [counted[kind] for kind in WORD_KINDS for counted in (true, said)]
