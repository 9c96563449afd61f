"""What a table of captions holds: which column is what, and which images it names. No image is opened."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from mdc.data.formats.folders import inside, listed_name
from mdc.data.formats.samples import IMAGE_ENDINGS, texts_of
from mdc.data.formats.split_words import USUAL, SplitWords, listed
from mdc.data.formats.table_rows import ENDINGS, Column, table_kind, table_rows
from mdc.plan.records import UserError

_LOOKED_AT = 200  # rows that tell which column is what

#: what a column of captions is called; several that differ by a number at the end are an image's several captions
_CAPTION = re.compile(r"(captions?|alt[_ -]?text|text|texts|sentences?|description|raw)([_ -]?\d+)?", re.IGNORECASE)


@dataclass(frozen=True)
class Table:
    """``names``: for each split the images that have a caption there, as the table names them; without a split column
    all are "train". ``captions``: how many texts they have. ``splits``: ours → the table's own word for it."""

    header: bool
    image: Column
    caption: Column | list[Column]
    split: Column | None
    splits: dict[str, str | list[str]]
    captions: int = 0
    names: dict[str, list[str]] = field(default_factory=dict)


def look_at_table(path: Path, folder: Path) -> Table:
    """The columns and images of a CSV, TSV or JSON-lines file whose image names start from ``folder``.

    The column of images is the one whose names are files there, the captions' goes by its name or is the only one of
    several words. UserError if the file has none of one, or is no such table.
    """
    kind = table_kind(path)
    if kind is None:
        raise UserError(f"{path}: unknown file extension; allowed: {', '.join(ENDINGS)}")
    columns, rows, header = _first_rows(path, kind, folder.resolve())
    image, captions = columns[0], _caption_columns(path, columns[1:], rows, header or kind == "jsonl")
    split = next((name for name in columns if header and str(name).lower() == "split"), None)
    found = _images(path, kind, header, image, captions, split)
    splits: dict[str, str | list[str]] = {"train": ""}
    if split is not None:
        splits = _splits(path, split, list(found))
    names = {ours: [name for word in listed(words) for name in found.get(word, {})] for ours, words in splits.items()}
    number = sum(sum(images.values()) for images in found.values())
    caption = captions[0] if len(captions) == 1 else captions
    return Table(header, image, caption, split, splits if split is not None else {}, number, names)


def _first_rows(path: Path, kind: str, root: Path) -> tuple[list[Column], list[Mapping[Column, Any]], bool]:
    """(columns, that of images first; rows; whether columns have names)."""
    raw = islice(table_rows(path, kind, False, []), _LOOKED_AT)
    rows: list[Mapping[Column, Any]] = [row for _, row, complaint in raw if not complaint]
    if not rows:
        raise UserError(f"{path}: contains no rows; needed: image names and captions")
    columns = list(dict.fromkeys(column for row in rows for column in row))
    files = {column: sum(_is_file(root, row.get(column)) for row in rows) for column in columns}
    image = max(columns, key=lambda column: files[column])
    if not files[image]:
        shown = ", ".join(repr(str(cell)[:40]) for cell in list(rows[-1].values())[:4])
        raise UserError(
            f"{path}: none of its first {len(rows)} rows names a file in {root}; a row holds {shown}; image names start from "
            "the folder of --images"
        )
    header = kind == "jsonl"
    if not header and not _is_file(root, rows[0][image]):
        # a first image that is missing is still named as one
        header = posixpath.splitext(rows[0][image])[1].lower().lstrip(".") not in IMAGE_ENDINGS
        if header:
            called = {column: str(cell).strip() for column, cell in rows[0].items()}
            rows = [{called[column]: cell for column, cell in row.items()} for row in rows[1:]]
            columns, image = [called[column] for column in columns], called[image]
    return [image, *(column for column in columns if column != image)], rows, header


def _is_file(root: Path, cell: Any) -> bool:
    if not isinstance(cell, str) or not cell.strip():
        return False
    place = inside(root, listed_name(cell))
    try:
        return place is not None and place.is_file()
    except (OSError, ValueError):  # a name too long, a NUL in it
        return False


def _caption_columns(path: Path, others: list[Column], rows: list[Mapping[Column, Any]], named: bool) -> list[Column]:
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


def _images(
    path: Path, kind: str, header: bool, image: Column, captions: list[Column], split: Column | None
) -> dict[str, dict[str, int]]:
    """{the table's word for a split: {image with a caption: how many}} of all rows; '' without a split column."""
    found: dict[str, dict[str, int]] = {}
    for _, row, complaint in table_rows(path, kind, header, [image, *captions, split]):
        name = row.get(image)
        if complaint or not isinstance(name, str) or not name.strip():
            continue
        number = sum(bool(text.strip()) for column in captions for text in texts_of(row.get(column)))
        if number:
            images = found.setdefault(str(row.get(split)) if split is not None else "", {})
            name = listed_name(name)
            images[name] = images.get(name, 0) + number
    return found


def _splits(path: Path, column: Column, words: list[str]) -> dict[str, str | list[str]]:
    usual = SplitWords({})
    known: dict[str, list[str]] = {name: [word for word in words if usual.of(word) == name] for name in USUAL}
    unknown = [word for word in words if usual.of(word) is None]
    if unknown or not known["train"]:
        has = ", ".join(map(repr, unknown or words[:5]))
        raise UserError(f"{path}: its column {column} holds {has}; known are {', '.join(sum(USUAL.values(), ()))}")
    return {ours: theirs[0] if len(theirs) == 1 else theirs for ours, theirs in known.items() if theirs}
