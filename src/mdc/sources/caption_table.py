"""A folder of images and a table of captions: CSV, TSV or JSON lines, one row an image and caption.

Several rows of one image are its several captions. The table is read whole, then the images one by one in the order of
their first row. What is wrong with the file as such (no UTF-8, an unknown column, a broken quotation) is a UserError
with its line; a row that cannot be used is left out and counted.
"""

from __future__ import annotations

import json
import posixpath
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from mdc.formats.captions import texts_of
from mdc.formats.folders import inside
from mdc.formats.samples import Skipped, held_out, image_file, safe_key
from mdc.formats.table_rows import ENDINGS, table_rows
from mdc.records import UserError

Source = Mapping[str, Any]


@dataclass
class TableImage:
    """An image that the table names, with the captions of all of its rows."""

    key: str
    name: str
    line: int
    split: str
    captions: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class _Table:
    images: list[TableImage]
    refused: list[tuple[str, int, str]]  # reason, line, what the row said


def images(source: Source, split: str, data_dir: Path, skipped: Skipped) -> Iterator[tuple[TableImage, bytes, str]]:
    """(image's rows, encoded bytes, extension) of one split.

    Rows that name no image at all belong to no split and are counted with "train".
    """
    path, folder = _places(source, data_dir)
    table = _read(json.dumps(dict(source), sort_keys=True), str(path), path.stat().st_mtime_ns)
    if split == "train":
        for reason, line, said in table.refused:
            skipped.add(reason, f"line {line}", path.name, said)
    root = folder.resolve()
    for image in table.images:
        if image.split != split:
            continue
        place = inside(root, image.name)
        if place is None:
            skipped.add("image outside the folder", image.key, image.name, f"line {image.line}")
        elif (found := image_file(place, skipped, image.key, image.name)) is not None:
            yield image, *found


def _places(source: Source, data_dir: Path) -> tuple[Path, Path]:
    path = Path(data_dir) / source["path"]
    folder = path.parent if source.get("images") is None else Path(data_dir) / source["images"]
    if not path.is_file():
        raise UserError(f"{path}: no such file; put the table there, or set MDC_DATA to the folder that has it")
    if not folder.is_dir():
        raise UserError(f"{folder}: no such folder; the table's image names start from there")
    return path, folder


@lru_cache(maxsize=1)  # every split asks for the same table
def _read(source_json: str, path_text: str, written: int) -> _Table:
    source, path = json.loads(source_json), Path(path_text)
    kind = source.get("format") or ENDINGS.get(path.suffix.lower())
    if kind is None:
        raise UserError(f"{path}: the name's end tells no format; set source.format to csv, tsv or jsonl")
    found: dict[str, TableImage] = {}
    refused: list[tuple[str, int, str]] = []
    values = {theirs: ours for ours, theirs in source.get("splits", {"train": "train", "val": "val"}).items()}
    share = source.get("val_share", 0.0)
    captions = source.get("caption_column", "caption")
    wanted = [
        source.get("image_column", "image"),
        *(captions if isinstance(captions, list) else [captions]),
        source.get("split_column"),
        source.get("key_column"),
    ]
    rows = table_rows(path, kind, source.get("header", True), wanted)
    for number, (line, row, complaint) in enumerate(rows):
        if complaint:
            refused.append((complaint, line, ""))
            continue
        name = row.get(source.get("image_column", "image"))
        if not isinstance(name, str) or not name.strip():
            refused.append(("row names no image", line, "" if name is None else repr(name)[:100]))
            continue
        name = posixpath.normpath(name.strip())
        if (split_column := source.get("split_column")) is not None:
            split = values.get(row.get(split_column)) if isinstance(row.get(split_column), str) else None
        else:
            split = "val" if held_out(name, share) else "train"
        if split is None:
            continue
        image = found.get(name)
        if image is None:
            key_column = source.get("key_column")
            key = f"{number:08d}" if key_column is None else safe_key(str(row.get(key_column)))
            image = found[name] = TableImage(key, name, line, split)
        elif image.split != split:
            raise UserError(f"{path}, line {line}: {name!r} is in split {split}, in line {image.line} in {image.split}")
        for column in captions if isinstance(captions, list) else [captions]:
            image.captions += texts_of(row.get(column))
    return _Table(list(found.values()), refused)
