"""Detect a caption table's format, delimiter and columns. No image is opened."""

import posixpath
import re
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from mdc.data.formats.folders import inside
from mdc.data.formats.samples import IMAGE_ENDINGS, texts_of
from mdc.data.formats.split_words import USUAL, SplitWords
from mdc.data.formats.table_rows import TEXTS, Column, kind_of, table_rows
from mdc.data.sources.corpora.caption_table import image_name
from mdc.plan.records import UserError

Rows = list[Mapping[Column, Any]]
_LOOKED_AT = 200  # rows that tell which column is what

#: names of caption columns; several with numbers at the end are several captions per image
_CAPTION = re.compile(r"(captions?|alt[_ -]?text|text|texts|sentences?|description|raw)([_ -]?\d+)?", re.IGNORECASE)
#: (format, delimiter) that a file of each kind can have, the likeliest first; "txt" is any text file
_FORMS: dict[str, tuple[tuple[str, str | None], ...]] = {
    "csv": (("csv", None), ("csv", ";"), ("csv", "|"), ("tsv", None)),
    "tsv": (("tsv", None), ("csv", None), ("csv", ";"), ("csv", "|")),
    "txt": (("tsv", None), ("csv", None), ("csv", ";"), ("csv", "|")),
}


#: the root of a table's image names, and the options of its source that differ from defaults; ``splits``: ours → the table's
#: word, or words, for it
Table = tuple[Path, dict[str, Any]]


def look_at_table(path: Path, folders: Sequence[Path]) -> Table:
    """The columns of a table, with the first of ``folders`` that contains its images.

    The image column is the one with names of files there; the caption column is known by its name, or is the only one with
    several words. UserError if one is missing, or for no such table.
    """
    kind = kind_of(path, TEXTS) or "txt"
    form, delimiter, folder, image, rows = _first_that_fits(path, kind, [folder.resolve() for folder in folders])
    named = form in ("jsonl", "json")
    header = named
    if not named and not _is_file(folder, rows[0][image]):
        # a missing first image still has an image's extension
        header = posixpath.splitext(image_name(rows[0][image]))[1].lower().lstrip(".") not in IMAGE_ENDINGS
        if header:
            names = {column: str(cell).strip() for column, cell in rows[0].items()}
            rows = [{names[column]: cell for column, cell in row.items()} for row in rows[1:]]
            image = names[image]
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
    return next(candidate for candidate in folders if candidate.resolve() == folder), columns


def _first_that_fits(path: Path, kind: str, folders: Sequence[Path]) -> tuple[str, str | None, Path, Column, Rows]:
    """(format, delimiter, folder, column of images, rows) of the first way of reading the file that gives names of images."""
    first_error: UserError | None = None  # error of the format of its extension
    first: Rows = []
    for form, delimiter in _FORMS.get(kind, ((kind, None),)):
        try:
            raw = islice(table_rows(path, form, False, [], "strict", delimiter), _LOOKED_AT)
            rows: Rows = [row for _, row, complaint in raw if not complaint]
        except UserError as error:
            first_error = error if not first else first_error
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
    if first_error is not None:
        raise first_error
    if not first:
        raise UserError(f"{path}: contains no rows; needed: image names and captions")
    cells = ", ".join(repr(str(cell)[:40]) for cell in list(first[-1].values())[:4])
    raise UserError(
        f"{path}: none of its first {len(first)} rows names a file in {folders[0]}; a row holds {cells}; name the "
        "folder that image names start from beside the table"
    )


def _is_file(root: Path, cell: Any) -> bool:
    if not isinstance(cell, str) or not cell.strip():
        return False
    place = inside(root, image_name(cell), follow=True)
    try:
        return place is not None and place.is_file()
    except (OSError, ValueError):  # a name too long, a NUL in it
        return False


def _caption_columns(path: Path, others: list[Column], rows: Rows, named: bool) -> list[Column]:
    texts = {column: [text for row in rows for text in texts_of(row.get(column)) if text.strip()] for column in others}
    by_name: dict[str, list[Column]] = {}
    for column in others if named else ():
        if texts[column] and (match := _CAPTION.fullmatch(str(column))):
            by_name.setdefault(match[1].lower(), []).append(column)
    if len(by_name) == 1:
        return next(iter(by_name.values()))
    if "caption" in by_name or "captions" in by_name:
        return by_name.get("caption") or by_name["captions"]
    worded = [column for column in others if 2 * sum(map(_several_words, texts[column])) > len(rows)]
    if len(worded) == 1:
        return worded
    has = ", ".join(map(str, others))[:200] or "no other column"
    problem = f"{', '.join(map(str, worded))} could each be the captions" if worded else "no column of captions"
    raise UserError(f"{path}: {problem}; it has {has} beside the image names; name one column caption")


def _several_words(text: str) -> bool:
    return len(text.split()) > 1 and any(character.isalpha() for character in text)


def splits_of_words(path: Path, column: Column, words: list[str]) -> dict[str, str | list[str]]:
    """Our splits → the table's; without a validation split the test split is used. Empty if all rows are for training."""
    usual = SplitWords({})
    splits: dict[str, list[str]] = {name: [word for word in words if usual.of(word) == name] for name in USUAL}
    unknown = [word for word in words if usual.of(word) is None]
    if unknown or not splits["train"]:
        has = ", ".join(map(repr, unknown or words[:5]))
        raise UserError(f"{path}: its column {column} holds {has}; known are {', '.join(sum(USUAL.values(), ()))}")
    if not splits["val"]:
        splits["val"] = splits.pop("test")
    if not splits["val"]:
        return {}
    return {ours: theirs[0] if len(theirs) == 1 else theirs for ours, theirs in splits.items() if theirs}
