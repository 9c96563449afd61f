"""Which split a word means in a column, or in the name of a file or folder."""

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from mdc.plan.records import UserError

File = TypeVar("File", str, Path)
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

    def known(self, word: object, where: str, rows: int = 0) -> str:
        """As ``of``; UserError for a word that means no split. ``where``: the file, and the column or line; ``rows`` have it."""
        if (split := self.of(word)) is not None:
            return split
        many = f" ({rows} rows)" if rows else ""
        if word is None:
            raise UserError(f"{where}: no split is given{many}; fill the column in, or drop the rows")
        written = f'"{word}"' if isinstance(word, int) else word
        raise UserError(
            f"{where}: split {word!r}{many} is not known; say which it is in source.splits (`val: {written}`), or leave it out "
            f"(`unused: {written}`)"
        )

    def of_name(self, name: Path, root: Path = Path()) -> str | None:
        """Our name for the split in a file's name, or else in the nearest folder's below ``root``; None if none has one, and for
        ``root`` itself. A word counts if no letter is next to it."""
        if name == root:
            return None
        name = name.relative_to(root)
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


def named_splits(
    root: Path, files: Iterable[File], of: Callable[[File], str | None], drawn: bool = False
) -> dict[File, str | None]:
    """The split that each of the ``files`` in ``root`` is named after, by ``of``; None for all if none is named.

    ``drawn``: val can be held out of train's samples. Then names of one split alone distinguish none, and without a file of val
    those of train are None. UserError if only some files are named: those of test must not be drawn for training.
    """
    named = {file: of(file) for file in files}
    splits = set(named.values())
    if splits <= {None} or (drawn and (splits <= {None, "train"} or len(splits) == 1)):
        return dict.fromkeys(named)
    if nameless := [file for file, split in named.items() if split is None]:
        more = f" and {len(nameless) - 1} more" * (len(nameless) > 1)
        raise UserError(
            f"{root / min(nameless)}{more}: named after no split, as other files are; rename it, or move it into a folder "
            "train/, val/ or test/ (parquet files and tars: or name theirs in source.splits)"
        )
    if drawn and "val" not in splits:
        return {file: None if split == "train" else split for file, split in named.items()}
    return named


def no_val(files: Collection[Path]) -> None:
    """UserError if there are ``files`` of val, because ``val_fraction`` holds samples out."""
    if files:
        raise UserError(
            f"{min(files)}: named after a split, but val_fraction holds samples out; move it, or leave val_fraction out"
        )


def listed(words: str | Sequence[str]) -> list[str]:
    """One word or several, as a list."""
    return [words] if isinstance(words, str) else list(words)
