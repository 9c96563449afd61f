"""Lists of web images with captions: TSV, CSV, JSON lines (gzipped or not) or parquet, a file or a folder of them, streamed.

The columns go by name, or by number from 0 where a TSV or CSV file has no header. A row that cannot be used is told
with its reason; what is wrong with a file as such is a UserError with its line.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

from mdc.data.formats.captions import clean_caption
from mdc.data.formats.gzipped import unzipped
from mdc.data.formats.parquet_file import open_parquet, readable
from mdc.data.formats.table_rows import ENDINGS, Column, json_rows, table_kind, table_rows
from mdc.data.obtain.reasons import NO_CAPTION_TEXT, NO_KEY, NO_TEXT, Failure
from mdc.data.obtain.transfers.web_url import web_url
from mdc.plan.records import UserError

_BATCH = 8192  # rows of a parquet file in memory
_SHA256 = re.compile("[0-9a-f]{64}")
_START = 1 << 20  # bytes of a text file from which the number of its lines is guessed


@dataclass(frozen=True)
class Columns:
    """Where a list keeps what; ``format`` None: as the files' names end; ``key`` None: a hash of url and caption; ``hash`` None:
    it has no sha256 of its images."""

    url: Column
    caption: Column
    key: Column | None = None
    format: str | None = None
    header: bool = True
    hash: Column | None = None

    def described(self) -> dict[str, Any]:
        """As a plan keeps it; without ``hash`` if there is none, as in plans that are older than this field."""
        return {key: value for key, value in asdict(self).items() if key != "hash" or value is not None}


class Row(NamedTuple):
    """A row that can be asked for: its number in the list (from 0), its key, its URL made fit, its caption as it is, and the
    sha256 that the list has for its image ("" if none)."""

    number: int
    key: str
    url: str
    caption: str
    sha256: str = ""


class BadRow(NamedTuple):
    """A row that is left out, and why."""

    number: int
    reason: str


def columns_of(described: Mapping[str, Any]) -> Columns:
    """From the scale's or the registry's description of a list; columns that it does not name are url and caption."""
    return Columns(
        url=described.get("url_column", "url"),
        caption=described.get("caption_column", "caption"),
        key=described.get("key_column"),
        format=described.get("format"),
        header=described.get("header", True),
        hash=described.get("hash_column"),
    )


def list_files(path: Path, columns: Columns) -> list[Path]:
    """The list's files in the order of their names; UserError if there is none, or if a name tells no format."""
    if path.is_dir():
        kinds = ((file, _kind(file)) for file in sorted(path.rglob("*")) if file.is_file())
        found = [file for file, kind in kinds if kind is not None and columns.format in (None, kind)]
        if not found:
            wanted = columns.format or f"{', '.join(ENDINGS)} or .parquet"
            raise UserError(f"{path}: contains no list ({wanted}); put it there, or set list.path")
        return found
    if not path.is_file():
        raise UserError(f"{path}: no such file or folder; put the list of URLs there, or set list.path")
    if columns.format is None and _kind(path) is None:
        raise UserError(f"{path}: unknown file extension; set list.format to tsv, csv, jsonl or parquet")
    return [path]


def pair_digest(url: str, caption: str) -> bytes:
    """128 bits that tell a pair."""
    text = f"{url}\0{caption}".encode()
    return hashlib.blake2b(text, digest_size=16).digest()


def rows_about(file: Path, columns: Columns) -> int:
    """How many rows a file has: what its footer tells of parquet, a guess from the first lines of a text."""
    if _format(file, columns) == "parquet":
        with open_parquet(file) as parquet:
            return int(parquet.metadata.num_rows)
    with unzipped(file) as text:
        start = text.read(_START)
        packed = getattr(text, "fileobj", text).tell()
        return round((start.count(b"\n") + 1) * max(1.0, file.stat().st_size / max(packed, 1)))


def read_rows(files: Sequence[Path], columns: Columns) -> Iterator[Row | BadRow]:
    """All rows of all files, numbered through."""
    number = -1
    for file in files:
        for cells, complaint in _cells(file, columns):
            number += 1
            yield BadRow(number, complaint) if complaint else _row(number, cells, columns)


def _row(number: int, cells: Mapping[Column, Any], columns: Columns) -> Row | BadRow:
    url, caption = cells.get(columns.url), cells.get(columns.caption)
    try:
        url = web_url(url if isinstance(url, str) else "")
        if not isinstance(caption, str) or not (caption[:1].isalnum() or clean_caption(caption)):
            raise Failure(NO_CAPTION_TEXT)
        if not caption.isascii():
            caption.encode()
        key = pair_digest(url, caption).hex() if columns.key is None else _key(cells.get(columns.key))
    except Failure as failure:
        return BadRow(number, str(failure))
    except UnicodeEncodeError:  # lone surrogates: broken bytes of a table, or \ud800 in JSON
        return BadRow(number, NO_TEXT)
    return Row(number, key, url, caption, "" if columns.hash is None else _sha256(cells.get(columns.hash)))


def _sha256(value: object) -> str:
    found = value.strip().lower() if isinstance(value, str) else ""
    return found if _SHA256.fullmatch(found) else ""


def _key(value: object) -> str:
    key = "" if value is None else str(value)
    if not key:
        raise Failure(NO_KEY)
    key.encode()
    return key


def _format(file: Path, columns: Columns) -> str:
    return columns.format or str(_kind(file))


def _kind(file: Path) -> str | None:
    return "parquet" if file.suffix.lower() == ".parquet" else table_kind(file)


def _cells(file: Path, columns: Columns) -> Iterator[tuple[Mapping[Column, Any], str]]:
    form = _format(file, columns)
    listed = (columns.url, columns.caption, columns.key, columns.hash)
    wanted = [column for column in listed if column is not None]
    if form == "parquet":
        yield from _parquet_cells(file, wanted)
        return
    # a list of millions of rows must not end with one broken byte
    rows = (
        json_rows(file, "surrogateescape")
        if form == "jsonl"
        else table_rows(file, form, columns.header, wanted, "surrogateescape")
    )
    for _, cells, complaint in rows:
        yield cells, complaint


def _parquet_cells(file: Path, wanted: list[Column]) -> Iterator[tuple[Mapping[Column, Any], str]]:
    with open_parquet(file) as parquet:
        names = parquet.schema_arrow.names
        for column in wanted:
            if column not in names:
                raise UserError(f"{file}: has no column {column!r}; it has {', '.join(names)[:200]}")
        batches = parquet.iter_batches(_BATCH, columns=wanted)
        while True:
            with readable(file, "its rows cannot be read"):
                batch = next(batches, None)
                if batch is None:
                    return
                values = [_values(batch.column(batch.schema.get_field_index(column))) for column in wanted]
            for cells in zip(*values, strict=True):
                yield dict(zip(wanted, cells, strict=True)), ""


def _values(column: Any) -> list[Any]:
    """A column's values; bytes that are no UTF-8 as lone surrogates, which leave out their own row alone."""
    import pyarrow

    try:
        return list(column.to_pylist())
    except UnicodeDecodeError:
        raw = column.cast(pyarrow.large_binary()).to_pylist()
        return [None if value is None else value.decode("utf-8", "surrogateescape") for value in raw]
