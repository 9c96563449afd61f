"""Which split a word means in a column, or in the name of a file or folder."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from mdc.plan.records import UserError

#: usual names of splits, in any case (those of Hugging Face's datasets, and a few more)
USUAL = {
    "train": ("train", "training"),
    "val": ("val", "valid", "validation", "dev", "eval", "evaluation", "held", "heldout", "held_out", "held-out"),
    "test": ("test", "testing"),
}
#: in ``splits``: the words of rows that are left out on purpose
UNUSED = "unused"
_EDGE = r"[-._= 0-9]"  # what may be next to a word in a name


class SplitWords:
    """The words of a source: those of its ``splits`` {our name: its word or words}, and the usual ones. A usual word of a split
    for which the source has another word is unused: ImageNet's test split, with ``test: validation``."""

    def __init__(self, splits: Mapping[str, str | Sequence[str]]) -> None:
        # a split that is also the ``vocabulary``, which is read by its words, keeps its own name
        self._named = {word: ours for ours in sorted(splits, reverse=True) for word in listed(splits[ours])}
        self._usual = {
            word: name if name in listed(splits.get(name, name)) else UNUSED
            for name, words in USUAL.items()
            for word in words
        }

    def of(self, word: object) -> str | None:
        """Our name for the split ``word``; None if it is unknown."""
        if isinstance(word, int):
            word = str(word)  # a class label's number
        if not isinstance(word, str):
            return None
        return self._named.get(word) or self._usual.get(word.strip().casefold())

    def of_name(self, name: Path) -> str | None:
        """Our name for the split in a file's name, or else in the nearest folder's; None if none has one. A word counts
        if no letter is next to it."""
        words = sorted({**self._usual, **self._named}, key=len, reverse=True)
        for part in (name.stem, *reversed(name.parts[:-1])):
            if (split := self.of(part)) is not None:
                return split
            matches = [
                (match.start(1), word)
                for word in words
                if (match := re.search(rf"(?:^|{_EDGE})({re.escape(word)})(?:$|{_EDGE})", part, re.IGNORECASE))
            ]
            if matches:
                return self.of(min(matches, key=lambda match: match[0])[1])
        return None


def listed(words: str | Sequence[str]) -> list[str]:
    """One word or several, as a list."""
    return [words] if isinstance(words, str) else list(words)


def unknown_word(where: str, word: object, rows: int | None = None) -> UserError:
    """The error for a word that means no split; ``where``: the file, and the column or line."""
    many = f" ({rows} rows)" if rows else ""
    if word is None:
        return UserError(f"{where}: no split is given{many}; fill the column in, or drop the rows")
    written = f'"{word}"' if isinstance(word, int) else word
    return UserError(
        f"{where}: split {word!r}{many} is not known; say which it is in source.splits (`val: {written}`), or leave it out "
        f"(`unused: {written}`)"
    )
