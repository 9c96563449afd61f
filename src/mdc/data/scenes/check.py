"""Reads a caption and compares it with the scene: which claims are false, and what a complete caption would add.

It shares the word lists and the meaning of a claim with the writer of captions, but not the grammar: it reads a caption
from its text alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from mdc.data.scenes.language import (
    ANY_SHAPE,
    ARRANGEMENT_WORDS,
    COLOUR_WORDS,
    FILLERS,
    JUNK_WORDS,
    NUMBER_WORDS,
    RELATION_WORDS,
    SHAPE_WORDS,
    SIZE_WORDS,
    Arrangement,
    Claim,
    Description,
    Number,
    Relation,
    arrangement,
    plural,
)
from mdc.data.scenes.world import Kind, Scene


def _inverse(table: dict[str, tuple[str, ...]]) -> dict[str, str]:
    return {word: meaning for meaning, words in table.items() for word in words}


_SIZE, _COLOUR, _SHAPE = _inverse(SIZE_WORDS), _inverse(COLOUR_WORDS), _inverse(SHAPE_WORDS)
_NUMBER = {word: n for n, word in NUMBER_WORDS.items()} | {str(n): n for n in NUMBER_WORDS}
_PLURAL = {plural(word): word for word in [*_SHAPE, *ANY_SHAPE]}


def _phrases(table: dict[str, tuple[str, ...]]) -> list[tuple[list[str], str]]:
    found = [(phrase.split(), meaning) for meaning, phrases in table.items() for phrase in phrases]
    return sorted(found, key=lambda entry: -len(entry[0]))


_RELATIONS, _ARRANGEMENTS = _phrases(RELATION_WORDS), _phrases(ARRANGEMENT_WORDS)
_TOKEN = re.compile(r"[a-z0-9_]+|[^\sa-z0-9_]")
_JUNK_TOKEN = re.compile(r"(img|dsc)_\d{4}|20\d\d")


def _starts(tokens: list[str], at: int, table: list[tuple[list[str], str]]) -> tuple[str, int] | None:
    for words, meaning in table:
        if tokens[at : at + len(words)] == words:
            return meaning, at + len(words)
    return None


def _noun_phrase(tokens: list[str], at: int) -> tuple[Number, int] | None:
    """The noun phrase that starts at ``at``, as a claim about a number of objects, and where it ends."""
    definite, number, article = False, None, False
    rest = [*tokens, "", "", ""]  # so that looking ahead needs no guard
    if rest[at] == "the":
        definite, at = True, at + 1
    if rest[at : at + 3] == ["a", "pair", "of"]:
        number, at = 2, at + 3
    elif rest[at : at + 2] == ["a", "single"]:
        number, at = 1, at + 2
    elif rest[at] in _NUMBER:
        number, at = _NUMBER[rest[at]], at + 1
    elif rest[at] in ("a", "an"):
        article, at = True, at + 1
    size = colour = None
    if rest[at] in _SIZE:
        size, at = _SIZE[rest[at]], at + 1
    if rest[at] in _COLOUR:
        colour, at = _COLOUR[rest[at]], at + 1
    several = rest[at] in _PLURAL
    noun = _PLURAL.get(rest[at], rest[at])
    if noun not in _SHAPE and noun not in ANY_SHAPE:
        return None
    if (several and (article or number == 1)) or (not several and number not in (None, 1)):
        return None  # "a circles", "two circle"
    what = Description(size, colour, _SHAPE.get(noun))
    if number is not None:
        claim = Number(what, number, exact=True)
    elif several:
        claim = Number(what, 2, exact=False)
    else:
        claim = Number(what, 1, exact=definite)  # "the circle": there is no other
    return claim, at + 1


def read(caption: str) -> tuple[list[Claim], list[str]]:
    """What the caption claims, in order, and the words in it that mean nothing here."""
    tokens = _TOKEN.findall(caption)
    claims: list[Claim] = []
    unknown: list[str] = []
    last: Description | None = None  # the clause's latest noun phrase
    name: str | None = None  # a relation that waits for its second noun phrase
    subject: Description | None = None  # what stands in it; None while the relation came first
    anchor: Description | None = None  # "left of the star is ...": what the next noun phrase is left of
    at = 0
    while at < len(tokens):
        if (stand := _starts(tokens, at, _ARRANGEMENTS)) is not None and last is not None:
            claims.append(Arrangement(last, stand[0]))
            at = stand[1]
        elif (related := _starts(tokens, at, _RELATIONS)) is not None:
            name, at = related
            subject = last
        elif (phrase := _noun_phrase(tokens, at)) is not None:
            number, at = phrase
            claims.append(number)
            here = number.what
            if name is not None and subject is not None:
                claims.append(Relation(subject, name, here))
                name = subject = None
            elif name is not None and anchor is None:
                anchor = here
            elif name is not None and anchor is not None:
                claims.append(Relation(here, name, anchor))
                name = anchor = None
            last = here
        else:
            token = tokens[at]
            if token in (".", ",", ":", "-", "and"):
                if name is not None:
                    unknown.append(name)  # a relation without its second half
                last = name = subject = anchor = None
            elif token not in FILLERS and token not in JUNK_WORDS and not _JUNK_TOKEN.fullmatch(token):
                unknown.append(token)
            at += 1
    if name is not None:
        unknown.append(name)
    return claims, unknown


def check_caption(scene: Scene, caption: str) -> list[str]:
    """The caption's false claims as text, in order, each once; a word that cannot be read is reported as one."""
    claims, unknown = read(caption)
    false = [str(claim) for claim in claims if not claim.holds(scene)] + [f"cannot read {word!r}" for word in unknown]
    return list(dict.fromkeys(false))


def missing_from(scene: Scene, caption: str) -> list[str]:
    """What a complete account would have to add. Complete means:

    every kind of object with its number, size, colour and shape; how two like objects stand, where that is clear;
    and so many relations that all kinds which are linked by clear relations are linked by stated ones.
    """
    claims, _ = read(caption)
    kinds = scene.kinds
    missing = []
    for kind, members in kinds.items():
        what, count = Description(*kind), len(members)
        if not any(isinstance(c, Number) and c.what == what and c.count == count for c in claims):
            missing.append(str(Number(what, count, exact=True)))
        stand = arrangement(members)
        if stand is not None and Arrangement(what, stand) not in claims:
            missing.append(str(Arrangement(what, stand)))

    linked = _components(list(kinds), _stated_links(scene, claims))
    for (a, b), name in scene.relations.items():
        if linked[a] != linked[b]:
            missing.append(str(Relation(Description(*a), name, Description(*b))))
    return missing


def linked_kinds(scene: Scene, claims: Iterable[Claim]) -> tuple[int, int]:
    """How many links between the scene's kinds the true ones of the stated relations make, and how many clear relations can.

    A link joins two groups of kinds that were apart; relations that follow from others are none.
    """
    kinds = list(scene.kinds)
    true = [claim for claim in claims if claim.holds(scene)]
    groups = [
        len(set(_components(kinds, links).values())) for links in (_stated_links(scene, true), list(scene.relations))
    ]
    return len(kinds) - groups[0], len(kinds) - groups[1]


def _stated_links(scene: Scene, claims: Iterable[Claim]) -> list[tuple[Kind, Kind]]:
    """The pairs of kinds that relations among ``claims`` speak of."""

    def kind_of(what: Description) -> Kind | None:
        return next((kind for kind, members in scene.kinds.items() if what.among(scene) == list(members)), None)

    stated = [(kind_of(c.first), kind_of(c.second)) for c in claims if isinstance(c, Relation)]
    return [(a, b) for a, b in stated if a is not None and b is not None]


def _components(nodes: list[Kind], edges: list[tuple[Kind, Kind]]) -> dict[Kind, int]:
    """The number of the connected component of each node."""
    label = {node: i for i, node in enumerate(nodes)}
    for a, b in edges:
        old, new = label[a], label[b]
        label = {node: new if value == old else value for node, value in label.items()}
    return label
