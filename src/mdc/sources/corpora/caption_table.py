"""A folder of images and a table of captions: CSV, TSV or JSON lines, one row an image and caption.

Several rows of one image are its several captions. The table is read whole, then the images one by one in the order of
their first row. What is wrong with the file as such (no UTF-8, an unknown column, a broken quotation) is a UserError
with its line; a row that cannot be used is left out and counted.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mdc.formats.folders import inside
from mdc.formats.samples import Skipped, held_out, image_file, safe_key, texts_of
from mdc.formats.table_rows import ENDINGS, table_rows
from mdc.records import UserError
from mdc.sources.cleaned import CaptionedImages, Found


@dataclass
class _Image:
    """An image that the table names, with the captions of all of its rows."""

    key: str
    name: str
    line: int
    split: str
    captions: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class _Table:
    images: list[_Image]
    refused: list[tuple[str, int, str]]  # reason, line, what the row said


class CaptionTable(CaptionedImages):
    """The images of one split. Rows that name no image at all belong to no split and are counted with "train"."""

    def __init__(self, source: Mapping[str, Any], data_dir: Path) -> None:
        super().__init__(source)
        self._path, folder = _places(source, data_dir)
        self._root = folder.resolve()
        self._table = _read(source, self._path)

    def found(self, split: str, skipped: Skipped) -> Iterator[Found]:
        if split == "train":
            for reason, line, said in self._table.refused:
                skipped.add(reason, f"line {line}", self._path.name, said)
        for image in self._table.images:
            if image.split != split:
                continue
            place = inside(self._root, image.name)
            if place is None:
                skipped.add("image outside the folder", image.key, image.name, f"line {image.line}")
            elif (read := image_file(place, skipped, image.key, image.name)) is not None:
                yield Found(image.key, image.name, *read, image.captions)


def open_source(source: Mapping[str, Any], data_dir: Path) -> CaptionTable:
    """See mdc.sources.source."""
    return CaptionTable(source, data_dir)


def _places(source: Mapping[str, Any], data_dir: Path) -> tuple[Path, Path]:
    path = Path(data_dir) / source["path"]
    folder = path.parent if source["images"] is None else Path(data_dir) / source["images"]
    if not path.is_file():
        raise UserError(f"{path}: no such file; put the table there, or set MDC_DATA to the folder that has it")
    if not folder.is_dir():
        raise UserError(f"{folder}: no such folder; the table's image names start from there")
    return path, folder


def _read(source: Mapping[str, Any], path: Path) -> _Table:
    kind = source["format"] or ENDINGS.get(path.suffix.lower())
    if kind is None:
        raise UserError(f"{path}: the name's end tells no format; set source.format to csv, tsv or jsonl")
    found: dict[str, _Image] = {}
    refused: list[tuple[str, int, str]] = []
    values = {theirs: ours for ours, theirs in source["splits"].items()}
    share = source["val_share"]
    captions = source["caption_column"]
    wanted = [
        source["image_column"],
        *(captions if isinstance(captions, list) else [captions]),
        source["split_column"],
        source["key_column"],
    ]
    rows = table_rows(path, kind, source["header"], wanted)
    for number, (line, row, complaint) in enumerate(rows):
        if complaint:
            refused.append((complaint, line, ""))
            continue
        name = row.get(source["image_column"])
        if not isinstance(name, str) or not name.strip():
            refused.append(("row names no image", line, "" if name is None else repr(name)[:100]))
            continue
        name = posixpath.normpath(name.strip())
        if (split_column := source["split_column"]) is not None:
            split = values.get(row.get(split_column)) if isinstance(row.get(split_column), str) else None
        else:
            split = "val" if held_out(name, share) else "train"
        if split is None:
            continue
        image = found.get(name)
        if image is None:
            key_column = source["key_column"]
            key = f"{number:08d}" if key_column is None else safe_key(str(row.get(key_column)))
            image = found[name] = _Image(key, name, line, split)
        elif image.split != split:
            raise UserError(f"{path}, line {line}: {name!r} is in split {split}, in line {image.line} in {image.split}")
        for column in captions if isinstance(captions, list) else [captions]:
            image.captions += texts_of(row.get(column))
    return _Table(list(found.values()), refused)
