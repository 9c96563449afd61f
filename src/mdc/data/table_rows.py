"""Rows of a table of text: CSV (with quotations), TSV (without: there a quotation mark is a character), JSON lines.

What is wrong with the file as such (no UTF-8, an unknown column, a broken quotation) is a UserError with its line; a
row that cannot be used is told beside it, and the reader goes on.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from mdc.records import UserError

Column = str | int
Row = tuple[int, dict[Column, Any], str]  # line, values by column, complaint or ""
ENDINGS = {".csv": "csv", ".tsv": "tsv", ".tab": "tsv", ".jsonl": "jsonl", ".ndjson": "jsonl"}
_LONGEST_LINE = 1 << 24  # bytes
_LONGEST_FIELD = 1 << 20  # characters


def table_rows(path: Path, kind: str, header: bool, wanted: Iterable[Column | None]) -> Iterator[Row]:
    """Rows of a file of ``kind`` csv, tsv or jsonl in order, streamed.

    Without a ``header`` columns are numbered from 0. ``wanted`` are columns that the file must have (None: no demand;
    a JSON line may lack them, which is for the caller to count).
    """
    return _json_rows(path) if kind == "jsonl" else _cells(path, kind, header, list(wanted))


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    try:
        with path.open("rb") as file:
            number = 0
            while line := file.readline(_LONGEST_LINE + 1):
                number += 1
                if len(line) > _LONGEST_LINE:
                    raise UserError(f"{path}, line {number}: longer than {_LONGEST_LINE} bytes; is it a table?")
                try:
                    yield number, line.decode("utf-8-sig" if number == 1 else "utf-8")
                except UnicodeDecodeError as error:
                    raise UserError(f"{path}, line {number}: not UTF-8 ({error.reason}); convert the file") from None
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror})") from None


def _json_rows(path: Path) -> Iterator[Row]:
    for number, text in _lines(path):
        if not text.strip():
            continue
        try:
            row = json.loads(text)
        except (ValueError, RecursionError):
            row = None
        yield (number, row, "") if isinstance(row, dict) else (number, {}, "row is no JSON object")


def _cells(path: Path, kind: str, header: bool, wanted: list[Column | None]) -> Iterator[Row]:
    csv.field_size_limit(_LONGEST_FIELD)
    text = (line for _, line in _lines(path))
    reader = csv.reader(text, strict=True) if kind == "csv" else csv.reader(text, "excel-tab", quoting=csv.QUOTE_NONE)
    names: list[Column] = []
    try:
        for cells in reader:
            if not cells:
                continue
            if not names:
                names = [cell.strip() for cell in cells] if header else list(range(len(cells)))
                _known_columns(path, names, wanted)
                if header:
                    continue
            if len(cells) == len(names):
                yield reader.line_num, dict(zip(names, cells, strict=True)), ""
            else:
                yield reader.line_num, {}, "row has another number of columns"
    except csv.Error as error:
        raise UserError(f"{path}, line {reader.line_num}: {error}; is a quotation left open?") from None


def _known_columns(path: Path, names: list[Column], wanted: list[Column | None]) -> None:
    for column in wanted:
        if column is not None and column not in names:
            has = ", ".join(map(str, names))[:200]
            raise UserError(f"{path}: has no column {column!r}; it has {has}; header: false counts columns from 0")
    if len(set(names)) != len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise UserError(f"{path}: column {twice!r} stands twice")
