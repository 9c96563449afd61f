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
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from mdc.data.scenes.check import linked_kinds, read
from mdc.data.scenes.language import Arrangement, Claim, Description, Number, arrangement
from mdc.data.scenes.world import Scene

KINDS = ("objects", "attributes", "counts", "relations")
#: what a Tally counts, in this order
COUNTS = ("true", "stated", "told", "facts")


@dataclass(frozen=True)
class Tally:
    """Of one kind of statement: ``true`` of the ``stated`` ones, and of the ``facts`` those that are ``told``."""

    true: int = 0
    stated: int = 0
    told: int = 0
    facts: int = 0

    def __add__(self, other: Tally) -> Tally:
        return Tally(
            self.true + other.true, self.stated + other.stated, self.told + other.told, self.facts + other.facts
        )


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
    stated = _stated(claims)
    told = _told(scene, claims)
    kinds = {}
    for kind in KINDS:
        truths = [claim.holds(scene) for claim in stated[kind]]
        reached, facts = told[kind]
        kinds[kind] = Tally(sum(truths), len(truths), reached, facts)
    return Verdict(kinds, len(unreadable))


def _stated(claims: Iterable[Claim]) -> dict[str, list[Claim]]:
    """The single statements of each kind, each once, as claims that are true or false alone."""
    found: dict[str, dict[Claim, None]] = {kind: {} for kind in KINDS}
    for claim in claims:
        if isinstance(claim, Number):
            what = claim.what
            if what.shape is not None:
                found["objects"][_there(Description(shape=what.shape))] = None
            for attribute in _attributes(what):
                found["attributes"][_there(attribute)] = None
            if claim.exact:
                found["counts"][claim] = None
        else:
            found["relations"][claim] = None
    return {kind: list(some) for kind, some in found.items()}


def _there(what: Description) -> Number:
    return Number(what, 1, exact=False)


def _attributes(what: Description) -> list[Description]:
    """The description's colour and size, each with the shape alone."""
    alone = Description(shape=what.shape)
    found = [replace(alone, colour=what.colour)] if what.colour else []
    return [*found, replace(alone, size=what.size)] if what.size else found


def _told(scene: Scene, claims: Iterable[Claim]) -> dict[str, tuple[int, int]]:
    """Of each kind of fact how many are told, and how many there are."""
    claims = list(claims)
    kinds = [Description(*kind) for kind in scene.kinds]
    numbers = [claim for claim in claims if isinstance(claim, Number)]
    shapes = {claim.what.shape for claim in numbers}
    attributes = [(kind, one) for kind in kinds for one in _attributes(kind)]
    counted = [
        any(
            claim.count == len(members) and (claim.exact or claim.count == 1) and claim.what.among(scene) == members
            for claim in numbers
        )
        for members in (kind.among(scene) for kind in kinds)
    ]
    links, all_links = linked_kinds(scene, claims)
    standing = [(kind, name) for kind in kinds if (name := arrangement(kind.among(scene))) is not None]
    arranged = [
        any(
            isinstance(one, Arrangement) and one.name == name and one.what.among(scene) == kind.among(scene)
            for one in claims
        )
        for kind, name in standing
    ]
    return {
        "objects": (sum(kind.shape in shapes for kind in kinds), len(kinds)),
        "attributes": (
            sum(_is_told(kind, one, [claim.what for claim in numbers]) for kind, one in attributes),
            len(attributes),
        ),
        "counts": (sum(counted), len(kinds)),
        "relations": (links + sum(arranged), all_links + len(standing)),
    }


def _is_told(kind: Description, attribute: Description, phrases: Iterable[Description]) -> bool:
    """Whether a phrase that fits objects of this kind names this attribute of it."""
    for what in phrases:
        fits = all(value in (None, of_kind) for value, of_kind in zip(_values(what), _values(kind), strict=True))
        names = what.colour == kind.colour if attribute.colour else what.size == kind.size
        if fits and names:
            return True
    return False


def _values(what: Description) -> tuple[str | None, str | None, str | None]:
    return what.size, what.colour, what.shape
