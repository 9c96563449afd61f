"""Wrong captions of a scene, each a small change of a right one, in the manner of the benchmarks of compositionality.

Every pair is checked against the scene's truth by :mod:`mdc.data.scenes.check`, which reads a caption from its text alone: the
right caption holds, and the wrong one makes a claim that is false. A scene that cannot pose the question gives None.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from mdc.data.scenes.captions import compose
from mdc.data.scenes.check import check_caption
from mdc.data.scenes.language import (
    ANY_SHAPE,
    COLOUR_WORDS,
    RELATION_WORDS,
    SHAPE_WORDS,
    SIZE_WORDS,
    Description,
    plural,
)
from mdc.data.scenes.streams import Draws
from mdc.data.scenes.world import COLOURS, OPPOSITE, SHAPES, Scene

#: a right caption, a wrong one, and what the pair is an example of
Pair = tuple[str, str, str]

_WORD = re.compile(r"[a-z0-9]+|[^\sa-z0-9]")
_NOUN = {word: shape for shape, words in SHAPE_WORDS.items() for word in words}
_NOUNS = {**{word: (shape, False) for word, shape in _NOUN.items()}, **{plural(w): (s, True) for w, s in _NOUN.items()}}
_COLOUR = {word: colour for colour, words in COLOUR_WORDS.items() for word in words}
_SIZE = {word: size for size, words in SIZE_WORDS.items() for word in words}
_RELATIONS = sorted(
    ((phrase.split(), name) for name, phrases in RELATION_WORDS.items() for phrase in phrases),
    key=lambda one: -len(one[0]),
)
_TRIES = 24


def words_of(caption: str) -> list[str]:
    """The words and marks of a caption."""
    return _WORD.findall(caption)


def text_of(words: list[str]) -> str:
    """The caption of these words, with "a" or "an" as the next word asks."""
    fixed = list(words)
    for place, word in enumerate(words[:-1]):
        if word in ("a", "an"):
            fixed[place] = "an" if words[place + 1][0] in "aeiou" else "a"
    return re.sub(r" ([.,:])", r"\1", " ".join(fixed))


def tags_of(words: list[str]) -> list[str]:
    """The grammar's own parts of speech, as Penn Treebank tags: nouns, adjectives, and all others as XX."""
    plain, several = {*_NOUN, *ANY_SHAPE}, {plural(word) for word in (*_NOUN, *ANY_SHAPE)}
    return [
        "NN" if word in plain else "NNS" if word in several else "JJ" if word in _COLOUR or word in _SIZE else "XX"
        for word in words
    ]


# --- ARO: two short captions that differ in who is where, or in who has which attribute ---------------------------------


def relation(scene: Scene, draws: Draws, dense: str) -> Pair | None:
    """ "the A is left of the B" against "the B is left of the A"."""
    pairs = [pair for pair in scene.relations if all(len(scene.kinds[kind]) == 1 for kind in pair)]
    if not pairs:
        return None
    a, b = draws.pick(pairs)
    name = scene.relations[a, b]
    first, second = (_plain(Description(colour=kind[1], shape=kind[2])) for kind in (a, b))
    said = RELATION_WORDS[name][0]
    return f"the {first} is {said} the {second}", f"the {second} is {said} the {first}", name


def attribute(scene: Scene, draws: Draws, dense: str) -> Pair | None:
    """ "the red circle and the blue star" against "the blue circle and the red star"."""
    singles = [kind for kind, members in scene.kinds.items() if len(members) == 1]
    if len(singles) < 2:
        return None
    a, b = draws.sample(singles, 2)
    place = draws.pick([0, 1])  # size or colour
    swapped = [list(a), list(b)]
    swapped[0][place], swapped[1][place] = b[place], a[place]
    right, wrong = (
        " and ".join(f"the {_plain(_attributed(kind[place], place, kind[2]))}" for kind in kinds)
        for kinds in ((a, b), swapped)
    )
    return right, wrong, "_".join(sorted((a[place], b[place])))


def _attributed(value: str, place: int, shape: str) -> Description:
    return Description(size=value, shape=shape) if place == 0 else Description(colour=value, shape=shape)


# --- SugarCrepe: a caption against one with something added, replaced or swapped ----------------------------------------


def add_obj(scene: Scene, draws: Draws, dense: str) -> Pair | None:
    """An object is added that is not there."""
    kind = Description(draws.pick(list(_SIZES)), draws.pick(COLOURS), draws.pick(SHAPES))
    phrase = words_of(f"there is also a {_plain(kind)}.")
    return dense, text_of([*words_of(dense), *phrase]), "add_obj"


def add_att(scene: Scene, draws: Draws, dense: str) -> Pair | None:
    """A caption that leaves one attribute out, against it with another in that place."""
    words = words_of(dense)
    places = [p for p, word in enumerate(words) if word in _COLOUR or word in _SIZE]
    if not places:
        return None
    place = draws.pick(places)
    right = words[:place] + words[place + 1 :]
    return text_of(right), text_of([*words[:place], _other(draws, words[place]), *words[place + 1 :]]), "add_att"


def replace_obj(scene: Scene, draws: Draws, dense: str) -> Pair | None:
    """A shape becomes another shape."""
    return _replaced(draws, dense, _NOUNS, "replace_obj")


def replace_att(scene: Scene, draws: Draws, dense: str) -> Pair | None:
    """A colour becomes another colour, or a size the other size."""
    return _replaced(draws, dense, {**_COLOUR, **_SIZE}, "replace_att")


def replace_rel(scene: Scene, draws: Draws, dense: str) -> Pair | None:
    """A relation becomes its opposite."""
    words = words_of(dense)
    found = [
        (place, phrase, name)
        for place in range(len(words))
        for phrase, name in _RELATIONS
        if words[place : place + len(phrase)] == phrase
    ]
    if not found:
        return None
    place, phrase, name = draws.pick(found)
    other = draws.pick(RELATION_WORDS[OPPOSITE[name]]).split()
    return dense, text_of([*words[:place], *other, *words[place + len(phrase) :]]), "replace_rel"


def swap_obj(scene: Scene, draws: Draws, dense: str) -> Pair | None:
    """Two shapes change places."""
    return _swapped(draws, dense, set(_NOUNS), "swap_obj")


def swap_att(scene: Scene, draws: Draws, dense: str) -> Pair | None:
    """Two colours, or two sizes, change places."""
    return _swapped(draws, dense, set(_COLOUR) if draws.chance(0.7) else set(_SIZE), "swap_att")


QUESTIONS: dict[str, Callable[[Scene, Draws, str], Pair | None]] = {
    "relation": relation,
    "attribute": attribute,
    "add_obj": add_obj,
    "add_att": add_att,
    "replace_obj": replace_obj,
    "replace_att": replace_att,
    "replace_rel": replace_rel,
    "swap_obj": swap_obj,
    "swap_att": swap_att,
}


def wrong_pair(question: str, scene: Scene, draws: Draws, seed: int, index: int) -> Pair | None:
    """A pair for one of ``QUESTIONS``, checked; the dense caption of (seed, index) is what it is made from."""
    dense = compose(scene, "dense", seed, index).text
    for _ in range(_TRIES):
        pair = QUESTIONS[question](scene, draws, dense)
        if pair is None:
            return None
        right, wrong, _ = pair
        if not check_caption(scene, right) and _false_and_readable(scene, wrong):
            return pair
    return None


def _false_and_readable(scene: Scene, caption: str) -> bool:
    found = check_caption(scene, caption)
    return bool(found) and not any(claim.startswith("cannot read") for claim in found)


_SIZES = tuple(SIZE_WORDS)


def _plain(what: Description) -> str:
    """A description in the usual words."""
    words = [table[value][0] for table, value in _named(what) if value]
    return " ".join(words)


def _named(what: Description) -> list[tuple[dict[str, tuple[str, ...]], str | None]]:
    return [(SIZE_WORDS, what.size), (COLOUR_WORDS, what.colour), (SHAPE_WORDS, what.shape)]


def _other(draws: Draws, word: str) -> str:
    """Another value's word in the place of ``word``: a shape's, a colour's or a size's."""
    if word in _COLOUR:
        return COLOUR_WORDS[draws.pick([c for c in COLOURS if c != _COLOUR[word]])][0]
    if word in _SIZE:
        return SIZE_WORDS[next(size for size in SIZE_WORDS if size != _SIZE[word])][0]
    shape, several = _NOUNS[word]
    other = SHAPE_WORDS[draws.pick([s for s in SHAPES if s != shape])][0]
    return plural(other) if several else other


def _replaced(draws: Draws, caption: str, among: Mapping[str, object], kind: str) -> Pair | None:
    words = words_of(caption)
    places = [p for p, word in enumerate(words) if word in among]
    if not places:
        return None
    place = draws.pick(places)
    return caption, text_of([*words[:place], _other(draws, words[place]), *words[place + 1 :]]), kind


def _swapped(draws: Draws, caption: str, among: set[str], kind: str) -> Pair | None:
    words = words_of(caption)
    places = [p for p, word in enumerate(words) if word in among]
    pairs = [(a, b) for a in places for b in places if a < b and words[a] != words[b]]
    if not pairs:
        return None
    a, b = draws.pick(pairs)
    swapped = list(words)
    swapped[a], swapped[b] = words[b], words[a]
    return caption, text_of(swapped), kind
