"""Wrong captions of a scene, each a small change of a right one, as in benchmarks of compositionality.

:mod:`mdc.data.scenes.check` checks every pair against the scene's truth: the right caption is true, and the wrong one makes a
false claim. A scene without the question gives None.
"""

from collections.abc import Callable
from itertools import combinations

from mdc.data.scenes.captions import compose
from mdc.data.scenes.check import check_caption, false_claims
from mdc.data.scenes.language import WORDS, Entry, phrases_at, plural, text_of, words_of
from mdc.data.scenes.streams import Draws
from mdc.data.scenes.world import OPPOSITE, Description, Scene

#: a right caption, a wrong one, and the pair's group
Pair = tuple[str, str, str]

_TRIES = 24

# --- SugarCrepe: a caption against one with something added, replaced or swapped ----------------------------------------

#: the kinds of words that are added, replaced or swapped. Except for add_obj, an added word is removed from the right caption
_EDITED: dict[str, tuple[str, ...]] = {
    "add_obj": Description._fields,
    "add_att": ("colour", "size"),
    "replace_obj": ("shape",),
    "replace_att": ("colour", "size"),
    "replace_rel": ("relation",),
    "swap_obj": ("shape",),
    "swap_att": ("colour", "size"),  # two colours or two sizes
}


def _edited(question: str, draws: Draws, caption: str) -> Pair | None:
    kinds, words = _EDITED[question], words_of(caption)
    if question == "add_obj":
        kind = Description(*(draws.pick(list(WORDS[kind])) for kind in kinds))
        return caption, text_of([*words, *words_of(f"there is also a {kind}.")]), question
    if question == "swap_att":
        kinds = kinds[:1] if draws.chance(0.7) else kinds[1:]
    phrases = [(at, end, entry) for at in range(len(words)) for entry, end in phrases_at(words, at, *kinds)]
    count = 2 if question.startswith("swap") else 1
    choices = [chosen for chosen in combinations(phrases, count) if len({words[at] for at, _, _ in chosen}) == count]
    if not choices:
        return None
    chosen = draws.pick(choices)
    texts = [words[at] for at, _, _ in reversed(chosen)] if count == 2 else [_alternative(draws, chosen[0][2])]
    without, wrong = list(words), list(words)
    for (at, end, _), text in reversed(list(zip(chosen, texts, strict=True))):
        without[at:end], wrong[at:end] = [], text.split()
    return text_of(without) if question == "add_att" else caption, text_of(wrong), question


def _alternative(draws: Draws, entry: Entry) -> str:
    """A word for another value of the same kind; for a relation, its opposite."""
    if entry.kind == "relation":
        return draws.pick(WORDS["relation"][OPPOSITE[entry.value]])
    others = [value for value in WORDS[entry.kind] if value != entry.value]
    word = others[0] if len(others) == 1 else draws.pick(others)
    return plural(word) if entry.several else word


# --- ARO: two short captions with swapped objects or swapped attributes -------------------------------------------------


def _relation(draws: Draws, scene: Scene) -> Pair | None:
    """ "the A is left of the B" against "the B is left of the A"."""
    pairs = scene.single_relations
    if not pairs:
        return None
    a, b = draws.pick(pairs)
    first, second = (f"the {kind._replace(size=None)}" for kind in (a, b))
    name = scene.relations[a, b]
    return f"{first} is {name} {second}", f"{second} is {name} {first}", name


def _attribute(draws: Draws, scene: Scene) -> Pair | None:
    """ "the red circle and the blue star" against "the blue circle and the red star"."""
    singles = [kind for kind, members in scene.kinds.items() if len(members) == 1]
    if len(singles) < 2:
        return None
    a, b = draws.sample(singles, 2)
    which = draws.pick(("size", "colour"))
    of_a, of_b = (str(getattr(kind, which)) for kind in (a, b))
    right, wrong = (
        " and ".join(f"the {value} {kind.shape}" for value, kind in zip(values, (a, b), strict=True))
        for values in ((of_a, of_b), (of_b, of_a))
    )
    return right, wrong, "_".join(sorted((of_a, of_b)))


_SCENES: dict[str, Callable[[Draws, Scene], Pair | None]] = {"relation": _relation, "attribute": _attribute}
QUESTIONS = (*_SCENES, *_EDITED)


def wrong_pair(question: str, scene: Scene, draws: Draws, seed: int, index: int) -> Pair | None:
    """A checked pair for one of ``QUESTIONS``; SugarCrepe's are made from the dense caption of (seed, index)."""
    dense = compose(scene, "dense", seed, index).text
    for _ in range(_TRIES):
        pair = _SCENES[question](draws, scene) if question in _SCENES else _edited(question, draws, dense)
        if pair is None:
            return None
        false, unknown = false_claims(scene, pair[1])
        if false and not unknown and not check_caption(scene, pair[0]):
            return pair
    return None
