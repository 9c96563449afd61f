"""Parses a caption and compares it with the scene: which claims are false, and which kinds of object they link.

It shares the lexicon and the meaning of claims with the code that composes captions, but not the grammar: only the text is read.
"""

import re
from collections.abc import Iterable, Sequence

from mdc.data.scenes.language import (
    FILLERS,
    JUNK_WORDS,
    Arrangement,
    Claim,
    Entry,
    Number,
    Relation,
    phrases_at,
    words_of,
)
from mdc.data.scenes.world import Description, Scene

_JUNK_WORD = re.compile(r"(img|dsc)_\d{4}|20\d\d")


def _noun_phrase(words: Sequence[str], at: int) -> tuple[Number, int] | None:
    """The noun phrase that starts at ``at``, as a claim about a number of objects, and where it ends."""
    definite = words[at] == "the"
    at += definite
    entries: dict[str, Entry] = {}
    for kinds in (("count", "article"), ("size",), ("colour",), ("shape", "thing")):
        entry, at = next(phrases_at(words, at, *kinds), (None, at))
        if entry is not None:
            entries[entry.kind] = entry
    noun = entries.get("shape") or entries.get("thing")
    number = entries.get("count") or entries.get("article")
    if noun is None or (number is not None and noun.several != (number.value > 1)):
        return None  # "a circles", "two circle"
    desc = Description(**{kind: entry.value for kind, entry in entries.items() if kind in Description._fields})
    if "count" in entries:
        return Number(desc, entries["count"].value, exact=True), at
    # "the circle": there is no other
    return Number(desc, 2 if noun.several else 1, exact=definite and not noun.several), at


def read(caption: str) -> tuple[list[Claim], list[str]]:
    """The caption's claims, in order, and its unknown words."""
    words = words_of(caption)
    claims: list[Claim] = []
    unknown: list[str] = []
    last: Description | None = None  # the clause's latest noun phrase
    name: str | None = None  # a relation that waits for its second noun phrase
    subject: Description | None = None  # the relation's first phrase; None if the relation comes first
    anchor: Description | None = None  # of "left of the star is ...": the star
    at = 0
    while at < len(words):
        if last is not None and (stand := next(phrases_at(words, at, "arrangement"), None)) is not None:
            claims.append(Arrangement(last, stand[0].value))
            at = stand[1]
        elif (related := next(phrases_at(words, at, "relation"), None)) is not None:
            name, at, subject = related[0].value, related[1], last
        elif (phrase := _noun_phrase(words, at)) is not None:
            number, at = phrase
            claims.append(number)
            last = number.description
            if name is not None and subject is None and anchor is None:
                anchor = last
            elif name is not None:
                claims.append(Relation(subject, name, last) if subject else Relation(last, name, anchor or last))
                name = subject = anchor = None
        else:
            word = words[at]
            if word in (".", ",", ":", "-", "and"):
                if name is not None:
                    unknown.append(name)  # a relation without its second half
                last = name = subject = anchor = None
            elif word not in FILLERS and word not in JUNK_WORDS and not _JUNK_WORD.fullmatch(word):
                unknown.append(word)
            at += 1
    return claims, unknown if name is None else [*unknown, name]


def false_claims(scene: Scene, caption: str) -> tuple[list[Claim], list[str]]:
    """The caption's false claims, in order, and its unknown words."""
    claims, unknown = read(caption)
    return [claim for claim in claims if not claim.holds(scene)], unknown


def check_caption(scene: Scene, caption: str) -> list[str]:
    """The caption's false claims as text, in order, each once; an unknown word counts as one."""
    false, unknown = false_claims(scene, caption)
    return list(dict.fromkeys([*map(str, false), *(f"cannot read {word!r}" for word in unknown)]))


def linked_kinds(scene: Scene, claims: Iterable[Claim]) -> tuple[int, int]:
    """How many links between the scene's kinds the true stated relations make, and how many all clear relations make.

    A link joins two unconnected groups of kinds; relations that follow from others add none.
    """
    true = [claim for claim in claims if claim.holds(scene)]
    stated, possible = (
        len(scene.kinds) - len(set(components(scene, links).values()))
        for links in (stated_links(scene, true), scene.relations)
    )
    return stated, possible


def stated_links(scene: Scene, claims: Iterable[Claim]) -> list[tuple[Description, Description]]:
    """The pairs of kinds in the relations among ``claims``."""
    kinds = {members: kind for kind, members in scene.kinds.items()}
    stated = [[kinds.get(desc.among(scene)) for desc in (c.first, c.second)] for c in claims if isinstance(c, Relation)]
    return [(a, b) for a, b in stated if a is not None and b is not None]


def components(scene: Scene, edges: Iterable[tuple[Description, Description]]) -> dict[Description, int]:
    """The number of the connected component of each kind."""
    label = {kind: i for i, kind in enumerate(scene.kinds)}
    for a, b in edges:
        old, new = label[a], label[b]
        label = {kind: new if value == old else value for kind, value in label.items()}
    return label
