"""How good a caption of a scene is, with the scene's truth at hand: what of it is true, and how much of the truth it tells.

A caption is read by :mod:`mdc.data.scenes.check` from its text alone. What it states falls into four kinds:

- *objects*: a noun phrase with a shape states that this shape is there;
- *attributes*: a colour or a size in it states that an object of this shape (or, of "thing", any object) has it;
- *counts*: an exact number of objects ("two red stars", "the circle");
- *relations*: where one thing is as seen from another, and how two like things stand.

Precision is the true share of what is stated; 1 − precision is hallucination. Recall is the share of the truth that is told: of
the scene's kinds of object, those whose shape is told; of their colours and sizes, those told of an object of that kind; of
the numbers of its kinds, those told ("a star" tells one, "stars" tells none); of the links that clear relations make between
its kinds, those that the told ones make.

Where a caption's grammar cannot be relied on, `true_words` takes its single words, whatever stands around them.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import astuple, dataclass, fields

from mdc.data.scenes.check import linked_kinds, read
from mdc.data.scenes.language import LEXICON, Arrangement, Claim, Number, words_of
from mdc.data.scenes.world import Description, Scene, arrangement

KINDS = ("objects", "attributes", "counts", "relations")
#: the kinds of words, in this order
WORD_KINDS = ("colour", "shape", "count")


@dataclass(frozen=True)
class Tally:
    """Of one kind of statement: ``true`` of the ``stated`` ones, and of the ``facts`` those that are ``told``."""

    true: int = 0
    stated: int = 0
    told: int = 0
    facts: int = 0

    def __add__(self, other: Tally) -> Tally:
        return Tally(*map(sum, zip(astuple(self), astuple(other), strict=True)))


#: what a Tally counts, in this order
COUNTS = tuple(field.name for field in fields(Tally))


@dataclass(frozen=True)
class Verdict:
    """Of one caption: a tally of each kind, and the number of its words that mean nothing in the world's language."""

    kinds: dict[str, Tally]
    unreadable: int

    @property
    def all(self) -> Tally:
        """All kinds together."""
        return sum(self.kinds.values(), Tally())


def judge(scene: Scene, caption: str) -> Verdict:
    """What ``caption`` states of ``scene``. A statement that is made twice counts once."""
    claims, unreadable = read(caption)
    numbers = [claim for claim in claims if isinstance(claim, Number)]
    phrases = [claim.what for claim in numbers]
    stated: dict[str, list[Claim]] = {
        "objects": [_there(Description(shape=what.shape)) for what in phrases if what.shape is not None],
        "attributes": [_there(one) for what in phrases for one in _attributes(what).values()],
        "counts": [claim for claim in numbers if claim.exact],
        "relations": [claim for claim in claims if not isinstance(claim, Number)],
    }
    # what a phrase tells of a kind: its number, and attributes that it names where it fits the kind
    counted = {
        (what.among(scene), c.count) for c, what in zip(numbers, phrases, strict=True) if c.exact or c.count == 1
    }
    arranged = {(claim.what.among(scene), claim.name) for claim in claims if isinstance(claim, Arrangement)}
    stands = {members: name for members in scene.kinds.values() if (name := arrangement(members)) is not None}
    links, all_links = linked_kinds(scene, claims)
    told = {
        "objects": [any(what.shape == kind.shape for what in phrases) for kind in scene.kinds],
        "attributes": [
            any(what.fits(kind) and getattr(what, name) for what in phrases)
            for kind in scene.kinds
            for name in _attributes(kind)
        ],
        "counts": [(members, len(members)) in counted for members in scene.kinds.values()],
        "relations": [n < links for n in range(all_links)] + [stand in arranged for stand in stands.items()],
    }
    tallies = {}
    for kind in KINDS:
        truths = [claim.holds(scene) for claim in dict.fromkeys(stated[kind])]
        tallies[kind] = Tally(sum(truths), len(truths), sum(told[kind]), len(told[kind]))
    return Verdict(tallies, len(unreadable))


def _there(what: Description) -> Number:
    return Number(what, 1, exact=False)


def _attributes(what: Description) -> dict[str, Description]:
    """The description's colour and size by their names, each with the shape alone."""
    return {
        name: Description(shape=what.shape, **{name: value})
        for name in ("colour", "size")
        if (value := getattr(what, name)) is not None
    }


def true_words(scene: Scene, caption: str) -> list[int]:
    """Of each of ``WORD_KINDS`` in turn how many of its words are true, and how many there are.

    A colour or shape word is true if an object of the scene has it; a number if the scene has so many objects, in all or of
    one colour, one shape, or one kind. A word that stands twice counts twice.
    """
    colours, shapes = Counter(one.colour for one in scene.objects), Counter(one.shape for one in scene.objects)
    numbers = {len(scene.objects), *colours.values(), *shapes.values(), *map(len, scene.kinds.values())}
    there = dict(zip(WORD_KINDS, (colours, shapes, numbers), strict=True))
    true, said = Counter[str](), Counter[str]()
    for word in words_of(caption.lower()):
        entry = LEXICON.get(word)
        if entry is not None and entry.kind in there:
            said[entry.kind] += 1
            true[entry.kind] += entry.value in there[entry.kind]
    return [counted[kind] for kind in WORD_KINDS for counted in (true, said)]
