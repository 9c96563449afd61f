"""A folder of images and a table of captions: CSV, TSV, JSON lines or JSON, one row per image and caption.

Several rows of one image are its several captions; images are in the order of their first row. The table is read once, into a
temporary SQLite database (under TMPDIR), so that memory holds little of it. A malformed file (no UTF-8, an unknown column, a
broken quotation) is a UserError with its line; an unusable row is left out and counted.
"""

import json
import re
import sqlite3
from collections.abc import Iterator, Mapping
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

from mdc.data.formats.folders import listed_name, needed, read_named
from mdc.data.formats.reading import SourceItem
from mdc.data.formats.samples import LeftOut, drawn_split, safe_key, texts_of
from mdc.data.formats.split_words import UNUSED, SplitWords
from mdc.data.formats.table_rows import TEXTS, kind_of, table_rows
from mdc.data.sources.cleaned import CaptionedImages
from mdc.plan.records import UserError

_NUMBERED = re.compile(r"(\.[A-Za-z0-9]+)#\d+$")
#: texts are JSON, since SQLite refuses lone surrogates; a row that is left out has no ``name``, and its reason as ``key``
_ROWS = "CREATE TABLE rows (number INTEGER PRIMARY KEY, line INTEGER, name TEXT, split TEXT, key TEXT, captions TEXT)"
#: ``first``: the number of an image's first row
_FIRSTS = "CREATE TABLE firsts AS SELECT name, MIN(number) AS first FROM rows WHERE name IS NOT NULL GROUP BY name"
_JOINED = "rows JOIN firsts USING (name) JOIN rows AS begin ON begin.number = first"


class CaptionTable(CaptionedImages):
    """The images of one split. Rows that name no image are counted as skipped with "train"."""

    named = True

    def __init__(self, source: Mapping[str, Any], data_dir: Path) -> None:
        super().__init__(source)
        self._path = needed(data_dir / source["path"], "file")
        folder = self._path.parent if source["images"] is None else data_dir / source["images"]
        self._root = needed(folder).resolve()
        self._table = sqlite3.connect("")  # a temporary file
        self._table.execute(_ROWS)
        self._table.executemany("INSERT INTO rows VALUES (?, ?, ?, ?, ?, ?)", self._rows())
        self._table.execute(_FIRSTS)
        conflicts = self._table.execute(
            f"SELECT rows.line, begin.name, rows.split, begin.line, begin.split FROM {_JOINED}"
            " WHERE rows.split != begin.split ORDER BY rows.number LIMIT 1"
        )
        for line, name, split, first, first_split in conflicts:
            raise UserError(
                f"{self._path}, line {line}: {json.loads(name)!r} is in split {split}, in line {first} in {first_split}"
            )

    def items(self, split: str) -> Iterator[SourceItem]:
        if split == "train":
            for line, reason, detail in self._table.execute(
                "SELECT line, key, captions FROM rows WHERE name IS NULL ORDER BY number"
            ):
                yield SourceItem(f"line {line}", self._path.name, LeftOut(reason, json.loads(detail)))
        listed = self._table.execute(
            f"SELECT first, begin.key, begin.name, rows.captions FROM {_JOINED} WHERE rows.split = ? ORDER BY first, rows.number",
            [split],
        )
        for (_, key, coded), rows in groupby(listed, lambda row: row[:3]):
            name, captions = json.loads(coded), [text for row in rows for text in json.loads(row[3])]
            yield SourceItem(key, name, partial(read_named, self._root, name, follow=True), captions)

    def _rows(self) -> Iterator[tuple[Any, ...]]:
        """The table's rows in order, see ``_ROWS``, without those of unused splits."""
        source, path = self.config, self._path
        if (kind := source["format"] or kind_of(path, TEXTS)) is None:
            raise UserError(f"{path}: unknown file extension; set source.format to csv, tsv, jsonl or json")
        words, column = SplitWords(source["splits"]), source["caption_column"]
        captions = column if isinstance(column, list) else [column]
        key_column, split_column = source["key_column"], source["split_column"]
        wanted = [source["image_column"], *captions, split_column, key_column]
        rows = table_rows(path, kind, source["header"], wanted, delimiter=source.get("delimiter"))
        for number, (line, row, problem) in enumerate(rows):
            name, word, detail = row.get(source["image_column"]), row.get(split_column), ""
            if not problem and not (isinstance(name, str) and name.strip()):
                problem, detail = "row names no image", "" if name is None else repr(name)[:100]
            elif not problem and split_column is not None and word in (None, ""):
                problem = "row names no split"
            if problem:
                yield number, line, None, "", problem, json.dumps(detail)
                continue
            name = image_name(str(name))
            drawn = drawn_split(name, source["val_fraction"])
            split = drawn if split_column is None else words.known(word, f"{path}, line {line}")
            if split != UNUSED:
                key = f"{number:08d}" if key_column is None else safe_key(str(row.get(key_column)))
                texts = [text for column in captions for text in texts_of(row.get(column))]
                yield number, line, json.dumps(name), split, key, json.dumps(texts)


open_source = CaptionTable  # see mdc.data.sources.source


def image_name(name: str) -> str:
    """An image's name in a table, without the caption number of Flickr8k's tables (x.jpg#0)."""
    return listed_name(_NUMBERED.sub(r"\1", name.strip()))
