"""A folder of images and a table of captions: CSV, TSV, JSON lines or JSON, one row an image and caption.

Several rows of one image are its several captions; the images come one by one in the order of their first row. The table
is read through when it is opened, and again for each split: memory holds 8 bytes for each image. Images whose rows stand
apart in the table are noted in a temporary file (under TMPDIR). What is wrong with the file as such (no UTF-8, an unknown
column, a broken quotation) is a UserError with its line; a row that cannot be used is left out and counted.
"""

from __future__ import annotations

import hashlib
import json
import re
import tempfile
from array import array
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from mdc.data.formats.folders import inside, listed_name
from mdc.data.formats.samples import Skipped, held_out, image_file, safe_key, texts_of
from mdc.data.formats.split_words import UNUSED, SplitWords, unknown_word
from mdc.data.formats.table_rows import table_kind, table_rows
from mdc.data.sources.cleaned import CaptionedImages, Found
from mdc.plan.records import UserError

_NUMBERED = re.compile(r"(\.[A-Za-z0-9]+)#\d+$")


@dataclass
class _Image:
    """An image that the table names, with the captions of its rows."""

    key: str
    name: str
    line: int
    split: str
    captions: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class _Refused:
    reason: str
    line: int
    said: str


class CaptionTable(CaptionedImages):
    """The images of one split. Rows that name no image at all belong to no split and are counted with "train"."""

    def __init__(self, source: Mapping[str, Any], data_dir: Path) -> None:
        super().__init__(source)
        self._path, folder = _places(source, data_dir)
        self._root = folder.resolve()
        hashes = array("Q")
        self._refused = 0
        for one in _runs(source, self._path):
            if isinstance(one, _Image):
                hashes.append(_name_hash(one.name))
            else:
                self._refused += 1
        self._apart = _Apart(source, self._path, hashes)

    def found(self, split: str, skipped: Skipped) -> Iterator[Found]:
        if split == "train" and self._refused:
            for one in _runs(self.config, self._path):
                if isinstance(one, _Refused):
                    skipped.add(one.reason, f"line {one.line}", self._path.name, one.said)
        for run in _runs(self.config, self._path):
            image = self._apart.whole(run) if isinstance(run, _Image) and run.split == split else None
            if image is None:
                continue
            place = _place(self._root, image.name)
            if place is None:
                skipped.add("image outside the folder", image.key, image.name, f"line {image.line}")
            else:
                yield Found(image.key, image.name, partial(image_file, place), image.captions)


class _Apart:
    """The images whose rows do not follow one another; ``hashes``: of the name of each run of rows of one image."""

    def __init__(self, source: Mapping[str, Any], path: Path, hashes: array[int]) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115  (lives as long as this object)
        ordered = np.sort(np.frombuffer(hashes, dtype=np.uint64)) if hashes else np.empty(0, dtype=np.uint64)
        repeated = np.unique(ordered[1:][ordered[1:] == ordered[:-1]])
        del ordered
        which, places = array("Q"), array("q")
        for run in _runs(source, path) if len(repeated) else ():
            if isinstance(run, _Image) and _has(repeated, value := _name_hash(run.name)):
                which.append(value)
                places.append(self._file.tell())
                self._file.write(json.dumps(asdict(run)).encode() + b"\n")
        order = np.argsort(np.array(which, dtype=np.uint64), kind="stable")
        self._hashes, self._places = np.array(which, dtype=np.uint64)[order], np.array(places, dtype=np.int64)[order]
        if source["split_column"] is not None:
            _one_split(path, filter(None, map(self._noted, range(len(order)))))

    def whole(self, run: _Image) -> _Image | None:
        """The image that starts with this run, with the captions of all of its rows; None if it starts before."""
        value = np.uint64(_name_hash(run.name))
        first, last = (int(np.searchsorted(self._hashes, value, side)) for side in ("left", "right"))
        runs = [one for one in map(self._run, range(first, last)) if one.name == run.name]  # a hash may be of two names
        if not runs:
            return run
        if runs[0].line != run.line:
            return None
        return replace(run, captions=[text for one in runs for text in one.captions])

    def _run(self, number: int) -> _Image:
        self._file.seek(int(self._places[number]))
        return _Image(**json.loads(self._file.readline()))

    def _noted(self, number: int) -> tuple[_Image, _Image] | None:
        """A run that is in another split than the first of its image, and that first one."""
        run = self._run(number)
        begin = int(np.searchsorted(self._hashes, self._hashes[number], "left"))
        first = next(one for one in map(self._run, range(begin, number + 1)) if one.name == run.name)
        return (run, first) if run.split != first.split else None


def open_source(source: Mapping[str, Any], data_dir: Path) -> CaptionTable:
    """See mdc.data.sources.source."""
    return CaptionTable(source, data_dir)


def _places(source: Mapping[str, Any], data_dir: Path) -> tuple[Path, Path]:
    path = Path(data_dir) / source["path"]
    folder = path.parent if source["images"] is None else Path(data_dir) / source["images"]
    if not path.is_file():
        raise UserError(f"{path}: no such file; put the table there, or set MDC_DATA to the folder that has it")
    if not folder.is_dir():
        raise UserError(f"{folder}: no such folder; the table's image names start from there")
    return path, folder


def own_kind(path: Path) -> str | None:
    """The kind of table that a file's name tells, JSON among them; None: none."""
    name = path.with_suffix("") if path.suffix.lower() == ".gz" else path
    return "json" if name.suffix.lower() == ".json" else table_kind(path)


def image_name(name: str) -> str:
    """An image's name as a table has it, without the caption's number that Flickr8k's writes behind it (x.jpg#0)."""
    return listed_name(_NUMBERED.sub(r"\1", name.strip()))


def _place(root: Path, name: str) -> Path | None:
    """Where an image lies, see ``inside``; a name that Windows wrote has backslashes for slashes."""
    place = inside(root, name)
    return inside(root, name.replace("\\", "/")) if "\\" in name and not (place and place.exists()) else place


def _name_hash(name: str) -> int:
    return int.from_bytes(hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=8).digest())


def _has(ordered: Any, value: int) -> bool:
    place = int(np.searchsorted(ordered, np.uint64(value)))
    return place < len(ordered) and int(ordered[place]) == value


def _one_split(path: Path, wrong: Iterable[tuple[_Image, _Image]]) -> None:
    """UserError for the first image in the table that is in two splits."""
    if (pair := min(wrong, key=lambda pair: pair[0].line, default=None)) is not None:
        run, first = pair
        raise UserError(
            f"{path}, line {run.line}: {run.name!r} is in split {run.split}, in line {first.line} in {first.split}"
        )


def _runs(source: Mapping[str, Any], path: Path) -> Iterator[_Image | _Refused]:
    """The table's rows in order, those of one image that follow one another as one; rows of no split are left out."""
    run: _Image | None = None
    for row in _rows(source, path):
        if isinstance(row, _Refused):
            yield row
        elif run is not None and row.name == run.name:
            _one_split(path, [(row, run)] if row.split != run.split else [])
            run.captions += row.captions
        else:
            if run is not None:
                yield run
            run = row
    if run is not None:
        yield run


def _rows(source: Mapping[str, Any], path: Path) -> Iterator[_Image | _Refused]:
    kind = source["format"] or own_kind(path)
    if kind is None:
        raise UserError(f"{path}: unknown file extension; set source.format to csv, tsv, jsonl or json")
    words = SplitWords(source["splits"])
    captions = source["caption_column"] if isinstance(source["caption_column"], list) else [source["caption_column"]]
    key_column, split_column = source["key_column"], source["split_column"]
    wanted = [source["image_column"], *captions, split_column, key_column]
    rows = table_rows(path, kind, source["header"], wanted, delimiter=source.get("delimiter"))
    for number, (line, row, complaint) in enumerate(rows):
        if complaint:
            yield _Refused(complaint, line, "")
            continue
        name = row.get(source["image_column"])
        if not isinstance(name, str) or not name.strip():
            yield _Refused("row names no image", line, "" if name is None else repr(name)[:100])
            continue
        name = image_name(name)
        if split_column is None:
            split = "val" if held_out(name, source["val_share"]) else "train"
        elif not (word := row.get(split_column)):
            yield _Refused("row names no split", line, "")
            continue
        elif (known := words.of(word)) is None:
            raise unknown_word(f"{path}, line {line}", word)
        elif (split := known) == UNUSED:
            continue
        key = f"{number:08d}" if key_column is None else safe_key(str(row.get(key_column)))
        yield _Image(key, name, line, split, [text for column in captions for text in texts_of(row.get(column))])
