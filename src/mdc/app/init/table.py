"""What a table of captions is like: its format, its delimiter, which column is what. No image is opened."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from mdc.data.formats.folders import inside
from mdc.data.formats.samples import IMAGE_ENDINGS, texts_of
from mdc.data.formats.split_words import USUAL, SplitWords
from mdc.data.formats.table_rows import Column, table_rows
from mdc.data.sources.corpora.caption_table import image_name, own_kind
from mdc.plan.records import UserError

Rows = list[Mapping[Column, Any]]
_LOOKED_AT = 200  # rows that tell which column is what

#: what a column of captions is called; several that differ by a number at the end are an image's several captions
_CAPTION = re.compile(r"(captions?|alt[_ -]?text|text|texts|sentences?|description|raw)([_ -]?\d+)?", re.IGNORECASE)
#: (format, delimiter) that a file of each kind can have, the likeliest first; "txt" is any text file
_FORMS: dict[str, tuple[tuple[str, str | None], ...]] = {
    "csv": (("csv", None), ("csv", ";"), ("csv", "|"), ("tsv", None)),
    "tsv": (("tsv", None), ("csv", None), ("csv", ";"), ("csv", "|")),
    "txt": (("tsv", None), ("csv", None), ("csv", ";"), ("csv", "|")),
}


#: the folder that a table's image names start from, and what a scale says of its format and its columns: nothing where the file's
#: name or a column's usual name tells it; ``splits``: ours → the table's own word, or words, for it
Table = tuple[Path, dict[str, Any]]


def look_at_table(path: Path, folders: Sequence[Path]) -> Table:
    """The columns of a table whose image names start from one of ``folders``, the first that fits.

    The column of images is the one whose names are files there, the captions' goes by its name or is the only one of
    several words. UserError if the file has none of one, or is no such table.
    """
    kind = own_kind(path) or "txt"
    form, delimiter, folder, image, rows = _first_that_fits(path, kind, [folder.resolve() for folder in folders])
    named = form in ("jsonl", "json")
    header = named
    if not named and not _is_file(folder, rows[0][image]):
        # a first image that is missing is still named as one
        header = posixpath.splitext(image_name(rows[0][image]))[1].lower().lstrip(".") not in IMAGE_ENDINGS
        if header:
            called = {column: str(cell).strip() for column, cell in rows[0].items()}
            rows = [{called[column]: cell for column, cell in row.items()} for row in rows[1:]]
            image = called[image]
    others = [column for column in dict.fromkeys(column for row in rows for column in row) if column != image]
    captions = _caption_columns(path, others, rows, header)
    split = next((name for name in others if header and str(name).lower() == "split"), None)
    columns: dict[str, Any] = {} if form == kind else {"format": form}
    columns |= {"delimiter": delimiter} if delimiter else {}
    columns |= {} if header else {"header": False}
    columns |= {} if image == "image" else {"image_column": image}
    columns |= {} if captions == ["caption"] else {"caption_column": captions[0] if len(captions) == 1 else captions}
    if split is not None:
        words = (
            row.get(split)
            for _, row, wrong in table_rows(path, form, header, [split], "strict", delimiter)
            if not wrong
        )
        splits = splits_of_words(path, split, list(dict.fromkeys(str(word) for word in words if word)))
        columns |= {"split_column": split, "splits": splits} if splits else {}
    return next(one for one in folders if one.resolve() == folder), columns


def _first_that_fits(path: Path, kind: str, folders: Sequence[Path]) -> tuple[str, str | None, Path, Column, Rows]:
    """(format, delimiter, folder, column of images, rows) of the first way to read the file by which it names images."""
    own: UserError | None = None  # what is wrong with the file read as it is called
    first: Rows = []
    for form, delimiter in _FORMS.get(kind, ((kind, None),)):
        try:
            raw = islice(table_rows(path, form, False, [], "strict", delimiter), _LOOKED_AT)
            rows: Rows = [row for _, row, complaint in raw if not complaint]
        except UserError as error:
            own = error if not first else own
            continue
        first = first or rows
        columns = list(dict.fromkeys(column for row in rows for column in row))
        for folder in folders:
            files = {column: sum(_is_file(folder, row.get(column)) for row in rows) for column in columns}
            image = max(columns, key=lambda column: files[column], default=None)
            if image is not None and files[image] and len(columns) > 1:
                return form, delimiter, folder, image, rows
            if image is not None and files[image]:
                raise UserError(f"{path}: no column of captions; it has no other column beside the image names")
    if own is not None:
        raise own
    if not first:
        raise UserError(f"{path}: contains no rows; needed: image names and captions")
    shown = ", ".join(repr(str(cell)[:40]) for cell in list(first[-1].values())[:4])
    raise UserError(
        f"{path}: none of its first {len(first)} rows names a file in {folders[0]}; a row holds {shown}; name the "
        "folder that image names start from beside the table"
    )


def _is_file(root: Path, cell: Any) -> bool:
    if not isinstance(cell, str) or not cell.strip():
        return False
    place = inside(root, image_name(cell))
    try:
        return place is not None and place.is_file()
    except (OSError, ValueError):  # a name too long, a NUL in it
        return False


def _caption_columns(path: Path, others: list[Column], rows: Rows, named: bool) -> list[Column]:
    texts = {column: [text for row in rows for text in texts_of(row.get(column)) if text.strip()] for column in others}
    called: dict[str, list[Column]] = {}
    for column in others if named else ():
        if texts[column] and (match := _CAPTION.fullmatch(str(column))):
            called.setdefault(match[1].lower(), []).append(column)
    if len(called) == 1:
        return next(iter(called.values()))
    if "caption" in called or "captions" in called:
        return called.get("caption") or called["captions"]
    worded = [column for column in others if 2 * sum(map(_several_words, texts[column])) > len(rows)]
    if len(worded) == 1:
        return worded
    has = ", ".join(map(str, others))[:200] or "no other column"
    why = f"{', '.join(map(str, worded))} could each be the captions" if worded else "no column of captions"
    raise UserError(f"{path}: {why}; it has {has} beside the image names; name one column caption")


def _several_words(text: str) -> bool:
    return len(text.split()) > 1 and any(character.isalpha() for character in text)


def splits_of_words(path: Path, column: Column, words: list[str]) -> dict[str, str | list[str]]:
    """Ours → theirs; without a split to hold out, the one to test on is held out. Empty if all rows are to train on."""
    usual = SplitWords({})
    known: dict[str, list[str]] = {name: [word for word in words if usual.of(word) == name] for name in USUAL}
    unknown = [word for word in words if usual.of(word) is None]
    if unknown or not known["train"]:
        has = ", ".join(map(repr, unknown or words[:5]))
        raise UserError(f"{path}: its column {column} holds {has}; known are {', '.join(sum(USUAL.values(), ()))}")
    if not known["val"]:
        known["val"] = known.pop("test")
    if not known["val"]:
        return {}
    return {ours: theirs[0] if len(theirs) == 1 else theirs for ours, theirs in known.items() if theirs}
