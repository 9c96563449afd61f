"""Precision and recall of a caption of a scene, from the scene's truth.

:mod:`mdc.data.scenes.check` parses the caption's text. There are four kinds of statements:

- *objects*: a noun phrase with a shape states that the scene has this shape;
- *attributes*: a colour or a size in it states that an object of this shape (or, of "thing", any object) has it;
- *counts*: an exact number of objects ("two red stars", "the circle");
- *relations*: the relation of one thing to another, and the arrangement of two like things.

Precision is the true share of the statements; 1 − precision is hallucination. Recall is the share of the scene's facts that are
mentioned: of its kinds of object, those whose shape is mentioned; of their colours and sizes, those mentioned of an object of
that kind; of the numbers of its kinds, those stated ("a star" states one, "stars" none); of the links that clear relations make
between its kinds, those that the stated ones make.

If a caption's grammar is unreliable, `true_words` counts single words, regardless of their context.
"""

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
    """Counts of one kind of statement: ``true`` ones of the ``stated``, and mentioned (``told``) ones of the ``facts``."""

    true: int = 0
    stated: int = 0
    told: int = 0
    facts: int = 0

    def __add__(self, other: "Tally") -> "Tally":
        return Tally(*map(sum, zip(astuple(self), astuple(other), strict=True)))


#: the fields of a Tally, in this order
COUNTS = tuple(field.name for field in fields(Tally))


@dataclass(frozen=True)
class Verdict:
    """A caption's tally of each kind, and its number of unknown words."""

    kinds: dict[str, Tally]
    unreadable: int

    @property
    def all(self) -> Tally:
        """All kinds together."""
        return sum(self.kinds.values(), Tally())


def judge(scene: Scene, caption: str) -> Verdict:
    """The tallies of ``caption`` for ``scene``. A repeated statement counts once."""
    claims, unreadable = read(caption)
    numbers = [claim for claim in claims if isinstance(claim, Number)]
    phrases = [claim.description for claim in numbers]
    stated: dict[str, list[Claim]] = {
        "objects": [_exists(Description(shape=desc.shape)) for desc in phrases if desc.shape is not None],
        "attributes": [_exists(part) for desc in phrases for part in _attributes(desc).values()],
        "counts": [claim for claim in numbers if claim.exact],
        "relations": [claim for claim in claims if not isinstance(claim, Number)],
    }
    # a phrase that fits a kind mentions its attributes, and may state its number
    counted = {
        (desc.among(scene), c.count) for c, desc in zip(numbers, phrases, strict=True) if c.exact or c.count == 1
    }
    arranged = {(claim.description.among(scene), claim.name) for claim in claims if isinstance(claim, Arrangement)}
    arrangements = {members: name for members in scene.kinds.values() if (name := arrangement(members)) is not None}
    links, all_links = linked_kinds(scene, claims)
    mentioned = {
        "objects": [any(desc.shape == kind.shape for desc in phrases) for kind in scene.kinds],
        "attributes": [
            any(desc.fits(kind) and getattr(desc, name) for desc in phrases)
            for kind in scene.kinds
            for name in _attributes(kind)
        ],
        "counts": [(members, len(members)) in counted for members in scene.kinds.values()],
        "relations": [n < links for n in range(all_links)] + [pair in arranged for pair in arrangements.items()],
    }
    tallies = {}
    for kind in KINDS:
        truths = [claim.holds(scene) for claim in dict.fromkeys(stated[kind])]
        tallies[kind] = Tally(sum(truths), len(truths), sum(mentioned[kind]), len(mentioned[kind]))
    return Verdict(tallies, len(unreadable))


def _exists(desc: Description) -> Number:
    return Number(desc, 1, exact=False)


def _attributes(desc: Description) -> dict[str, Description]:
    """{"colour", "size": a description of it with only the shape}, of those that ``desc`` has."""
    return {
        name: Description(shape=desc.shape, **{name: value})
        for name in ("colour", "size")
        if (value := getattr(desc, name)) is not None
    }


def true_words(scene: Scene, caption: str) -> list[int]:
    """For each of ``WORD_KINDS`` in turn the number of true words and of all words.

    A colour or shape word is true if an object of the scene has it; a number if the scene has so many objects, in all or of
    one colour, one shape, or one kind. A repeated word counts each time.
    """
    colours, shapes = Counter(thing.colour for thing in scene.objects), Counter(thing.shape for thing in scene.objects)
    numbers = {len(scene.objects), *colours.values(), *shapes.values(), *map(len, scene.kinds.values())}
    valid = dict(zip(WORD_KINDS, (colours, shapes, numbers), strict=True))
    true, total = Counter[str](), Counter[str]()
    for word in words_of(caption.lower()):
        entry = LEXICON.get(word)
        if entry is not None and entry.kind in valid:
            total[entry.kind] += 1
            true[entry.kind] += entry.value in valid[entry.kind]
    return [counts[kind] for kind in WORD_KINDS for counts in (true, total)]
