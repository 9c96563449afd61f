"""The lexicon of captions: the meaning of words and phrases, a caption's words, and the claims that it can make."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from mdc.data.scenes.world import (
    ARRANGEMENTS,
    COLOURS,
    PROBE_CLASSES,
    RELATIONS,
    SHAPES,
    SIZES,
    Description,
    Scene,
    arrangement,
    relation_between,
)

# synonyms of the names
_SYNONYMS: dict[str, tuple[str, ...]] = {
    **{"small": ("little", "tiny"), "large": ("big", "huge")},
    **{"red": ("crimson",), "yellow": ("golden",), "green": ("emerald",), "blue": ("azure",), "purple": ("violet",)},
    **{"circle": ("disc",), "square": ("box",), "cross": ("plus",), "ring": ("hoop",), "crescent": ("moon",)},
    **{side: (f"to the {side}", f"on the {side}") for side in ("left of", "right of")},
    **{"above": ("over",), "below": ("under", "beneath")},
    **{"side by side": ("next to each other",), "one above the other": ("one below the other",)},
}
_NAMED = {"size": SIZES, "colour": COLOURS, "shape": SHAPES, "relation": RELATIONS, "arrangement": ARRANGEMENTS}
#: {kind of word: {meaning: its words, the usual one first}}
WORDS: dict[str, dict[Any, tuple[str, ...]]] = {
    **{kind: {name: (name, *_SYNONYMS.get(name, ())) for name in names} for kind, names in _NAMED.items()},
    "count": {1: ("one", "1"), 2: ("two", "2"), 3: ("three", "3"), 4: ("four", "4")},
    "thing": {None: ("shape", "object", "figure", "thing")},  # an object without its shape
}
JUNK = (
    *("stock photo", "free download", "clip art", "vector icon", "hd wallpaper", "for sale", "buy now", "high quality"),
    *("logo design", "sticker pack", "click to enlarge", "royalty free", "new arrival", "best price", "home page"),
    "gift idea",
)


class Entry(NamedTuple):
    """A word or phrase: its kind (of `WORDS`, or "article"), what it means, and whether it is a plural."""

    kind: str
    value: Any
    several: bool = False


def plural(word: str) -> str:
    """The plural of a shape word."""
    return word + ("es" if word.endswith(("s", "x")) else "s")


def _lexicon() -> dict[str, Entry]:
    entries = {"a pair of": Entry("count", 2), "a single": Entry("count", 1)}
    entries |= dict.fromkeys(("a", "an"), Entry("article", 1))
    for kind, meanings in WORDS.items():
        for value, words in meanings.items():
            entries |= {word: Entry(kind, value) for word in words}
            if kind in ("shape", "thing"):
                entries |= {plural(word): Entry(kind, value, several=True) for word in words}
    return entries


LEXICON = _lexicon()
#: {first word of phrases: number of words of the longest}
_LONGEST: Counter[str] = Counter()
for _first, *_rest in map(str.split, LEXICON):
    _LONGEST[_first] = max(_LONGEST[_first], 1 + len(_rest))
#: words that occur only in phrases
_IN_PHRASES = dict.fromkeys(("left", "right", "side", "next"), "relation") | dict.fromkeys(("pair", "single"), "count")
_WORD = re.compile(r"[a-z0-9_]+|[^\sa-z0-9_]")


def words_of(caption: str) -> list[str]:
    """The words and marks of a lower-case caption; every capital letter is a mark."""
    return _WORD.findall(caption)


# words without a claim; like all words above, they do not mention the background
FILLERS = frozenset(words_of("there is are and with we see in all total this picture image shows also"))
JUNK_WORDS = frozenset(words_of(" ".join(JUNK)))


def text_of(words: Sequence[str]) -> str:
    """The caption of these words, with "a" or "an" to fit the next word."""
    pairs = zip(words, [*words[1:], ""], strict=True)
    fixed = [article(after) if word in ("a", "an") and after else word for word, after in pairs]
    return re.sub(r" ([.,:])", r"\1", " ".join(fixed))


def article(noun: str) -> str:
    """ "a" or "an"."""
    return "an" if noun[0] in "aeiou" else "a"


def tags_of(words: Sequence[str]) -> list[str]:
    """The grammar's own parts of speech, as Penn Treebank tags: nouns, adjectives, and all others as XX."""
    tags = {"shape": "NN", "thing": "NN", "colour": "JJ", "size": "JJ"}
    entries = [LEXICON.get(word, Entry("", None)) for word in words]
    return [tags.get(entry.kind, "XX") + ("S" if entry.several else "") for entry in entries]


def class_phrases(task: str) -> list[str] | None:
    """A phrase for each class of a probe (a key of `PROBE_CLASSES`), in their order; None if the language has none.

    A phrase is true of the scenes of its class and of no others of the probe.
    """
    classes = PROBE_CLASSES[task]
    match task:
        case "shape":
            return [f"{article(name)} {name}" for name in classes]
        case "colour":
            return [f"{article(name)} {name} shape" for name in classes]
        case "count":
            return [f"{name} {'shape' if name == 'one' else plural('shape')}" for name in classes]
        case "relation":
            return [f"a red shape {name} a blue shape" for name in classes]
    return None


def kind_of_word(word: str) -> str:
    """The kind of a caption's word: shape, colour, size, relation, count, or function for all others."""
    kind = LEXICON[word].kind if word in LEXICON else _IN_PHRASES.get(word, "")
    return kind if kind in ("shape", "colour", "size", "relation", "count") else "function"


def phrases_at(words: Sequence[str], at: int, *kinds: str) -> Iterator[tuple[Entry, int]]:
    """The phrases of these kinds that begin at ``at``, longest first, each with its end."""
    longest = _LONGEST[words[at]] if at < len(words) else 0
    for end in range(min(at + longest, len(words)), at, -1):
        entry = LEXICON.get(" ".join(words[at:end]))
        if entry is not None and entry.kind in kinds:
            yield entry, end


@dataclass(frozen=True)
class Number:
    """Exactly so many objects fit the description or, if not ``exact``, at least so many."""

    description: Description
    count: int
    exact: bool

    def holds(self, scene: Scene) -> bool:
        """Whether the claim is true of the scene."""
        count = len(self.description.among(scene))
        return count == self.count if self.exact else count >= self.count

    def __str__(self) -> str:
        return f"{'exactly' if self.exact else 'at least'} {self.count} {self.description}"


@dataclass(frozen=True)
class Relation:
    """Every object that fits ``first`` has the relation to every object that fits ``second``, and there is one of each."""

    first: Description
    name: str
    second: Description

    def holds(self, scene: Scene) -> bool:
        """Whether the claim is true of the scene."""
        return relation_between(self.first.among(scene), self.second.among(scene)) == self.name

    def __str__(self) -> str:
        return f"{self.first} {self.name} {self.second}"


@dataclass(frozen=True)
class Arrangement:
    """Exactly two objects fit, and they are side by side or one above the other."""

    description: Description
    name: str

    def holds(self, scene: Scene) -> bool:
        """Whether the claim is true of the scene."""
        return arrangement(self.description.among(scene)) == self.name

    def __str__(self) -> str:
        return f"{self.description} {self.name}"


Claim = Number | Relation | Arrangement
