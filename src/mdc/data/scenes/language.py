"""The words of captions and the claims that they make, for the writer of captions and for the reader that checks them."""

from __future__ import annotations

from dataclasses import dataclass

from mdc.data.scenes.world import RELATIONS, Scene, SceneObject, relation, relation_between

# The first word of each entry is the usual one.
SHAPE_WORDS: dict[str, tuple[str, ...]] = {
    "circle": ("circle", "disc"),
    "square": ("square", "box"),
    "triangle": ("triangle",),
    "star": ("star",),
    "cross": ("cross", "plus"),
    "heart": ("heart",),
    "ring": ("ring", "hoop"),
    "crescent": ("crescent", "moon"),
}
COLOUR_WORDS: dict[str, tuple[str, ...]] = {
    "red": ("red", "crimson"),
    "orange": ("orange",),
    "yellow": ("yellow", "golden"),
    "green": ("green", "emerald"),
    "blue": ("blue", "azure"),
    "purple": ("purple", "violet"),
    "pink": ("pink",),
    "white": ("white",),
}
SIZE_WORDS: dict[str, tuple[str, ...]] = {"small": ("small", "little", "tiny"), "large": ("large", "big", "huge")}
ANY_SHAPE = ("shape", "object", "figure", "thing")
RELATION_WORDS: dict[str, tuple[str, ...]] = {
    "left of": ("left of", "to the left of", "on the left of"),
    "right of": ("right of", "to the right of", "on the right of"),
    "above": ("above", "over"),
    "below": ("below", "under", "beneath"),
}
ARRANGEMENT_WORDS: dict[str, tuple[str, ...]] = {
    "side by side": ("side by side", "next to each other"),
    "one above the other": ("one above the other", "one below the other"),
}
NUMBER_WORDS = {1: "one", 2: "two", 3: "three", 4: "four"}
# Words that claim nothing. None of them, nor any word above, says anything about the background.
FILLERS = frozenset(
    [
        "there",
        "is",
        "are",
        "and",
        "with",
        "we",
        "see",
        "in",
        "all",
        "total",
        "this",
        "picture",
        "image",
        "shows",
        "also",
    ]
)
JUNK = (
    "stock photo",
    "free download",
    "clip art",
    "vector icon",
    "hd wallpaper",
    "for sale",
    "buy now",
    "high quality",
    "logo design",
    "sticker pack",
    "click to enlarge",
    "royalty free",
    "new arrival",
    "best price",
    "home page",
    "gift idea",
)
JUNK_WORDS = frozenset(word for phrase in JUNK for word in phrase.split())


def kind_of_word(word: str) -> str:
    """What a word of a caption is about: shape, colour, size, relation, count, or function for all others."""
    singular = {plural(noun): noun for nouns in SHAPE_WORDS.values() for noun in nouns}
    for kind, told in (
        ("shape", [noun for nouns in SHAPE_WORDS.values() for noun in nouns]),
        ("colour", [one for words in COLOUR_WORDS.values() for one in words]),
        ("size", [one for words in SIZE_WORDS.values() for one in words]),
        ("relation", _PLACE_WORDS),
        ("count", [*NUMBER_WORDS.values(), *map(str, NUMBER_WORDS), "pair", "single"]),
    ):
        if singular.get(word, word) in told:
            return kind
    return "function"


_PLACE_WORDS = ("left", "right", "above", "over", "below", "under", "beneath", "side", "next")


def plural(word: str) -> str:
    """The plural of a shape word."""
    return word + ("es" if word.endswith(("s", "x")) else "s")


@dataclass(frozen=True)
class Description:
    """The attributes that a noun phrase names; None where it names none."""

    size: str | None = None
    colour: str | None = None
    shape: str | None = None

    def fits(self, one: SceneObject) -> bool:
        """Whether the object fits the description."""
        return (
            self.size in (None, one.size_word) and self.colour in (None, one.colour) and self.shape in (None, one.shape)
        )

    def among(self, scene: Scene) -> list[SceneObject]:
        """The scene's objects that fit the description."""
        return [one for one in scene.objects if self.fits(one)]

    def __str__(self) -> str:
        return " ".join(word for word in (self.size, self.colour, self.shape or "shape") if word)


@dataclass(frozen=True)
class Number:
    """Exactly so many objects fit the description or, if not ``exact``, at least so many."""

    what: Description
    count: int
    exact: bool

    def holds(self, scene: Scene) -> bool:
        """Whether the scene makes the claim true."""
        found = len(self.what.among(scene))
        return found == self.count if self.exact else found >= self.count

    def __str__(self) -> str:
        return f"{'exactly' if self.exact else 'at least'} {self.count} {self.what}"


@dataclass(frozen=True)
class Relation:
    """Every object that fits ``first`` has the relation to every object that fits ``second``, and there is one of each."""

    first: Description
    name: str
    second: Description

    def holds(self, scene: Scene) -> bool:
        """Whether the scene makes the claim true."""
        assert self.name in RELATIONS
        return relation_between(self.first.among(scene), self.second.among(scene)) == self.name

    def __str__(self) -> str:
        return f"{self.first} {self.name} {self.second}"


@dataclass(frozen=True)
class Arrangement:
    """Exactly two objects fit, and they stand side by side or one above the other."""

    what: Description
    name: str

    def holds(self, scene: Scene) -> bool:
        """Whether the scene makes the claim true."""
        return arrangement(self.what.among(scene)) == self.name

    def __str__(self) -> str:
        return f"{self.what} {self.name}"


Claim = Number | Relation | Arrangement


def arrangement(pair: list[SceneObject] | tuple[SceneObject, ...]) -> str | None:
    """How two objects stand to each other; None if this is unclear, or if there are not exactly two."""
    if len(pair) != 2 or (name := relation(pair[0], pair[1])) is None:
        return None
    return "side by side" if name in ("left of", "right of") else "one above the other"
