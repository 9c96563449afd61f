"""Lists of web images with captions: TSV, CSV, JSON lines (gzipped or not) or parquet, a file or a folder of them.

The columns are named, or numbered from 0 where a TSV or CSV file has no header. A row's rank is a keyed hash of its URL as it is
listed (pandas' variant of SipHash; the seed gives the key). Ranks are made a batch at a time; only the rows that are chosen by
their rank are checked, one by one: normalised, or counted by reason. A malformed file is a UserError with its line.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice, repeat
from pathlib import Path
from typing import Any

import numpy as np

from mdc.data.formats.captions import clean_caption
from mdc.data.formats.gzipped import unzipped
from mdc.data.formats.parquet_file import open_parquet, readable
from mdc.data.formats.table_rows import TABLES, Column, files_of, kind_of, table_rows
from mdc.data.obtain.reasons import NO_CAPTION_TEXT, NO_KEY, NO_TEXT, Failure
from mdc.data.obtain.transfers.web_url import web_url
from mdc.plan.records import UserError

RANK, LAST = "pandas.util.hash_array of the URL as listed", (1 << 64) - 1  # of all ranks the largest
_BATCH = 1 << 16  # rows in memory
_START = 1 << 20  # bytes of a text file from which its number of lines is estimated
_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Columns:
    """The columns of a list; ``format`` None: by the files' extension; ``key``, ``hash`` None: no keys, no sha256 of images."""

    url: Column = "url"
    caption: Column = "caption"
    key: Column | None = None
    format: str | None = None
    header: bool = True
    hash: Column | None = None


def columns_of(described: Mapping[str, Any]) -> Columns:
    """From the scale's or the registry's description of a list; url and caption are the default columns."""
    names = {name.removesuffix("_column"): value for name, value in described.items()}
    return Columns(**{name: names[name] for name in Columns.__dataclass_fields__ if name in names})


def list_files(path: Path, columns: Columns) -> list[Path]:
    """The list's files in the order of their names; UserError if there is none, or if an extension is unknown."""
    return files_of(path, TABLES, columns.format, "list.format")


def rows_about(file: Path, columns: Columns) -> int:
    """How many rows a file has: exact for parquet, estimated from the first lines of a text file."""
    if (columns.format or kind_of(file)) == "parquet":
        with open_parquet(file) as parquet:
            return int(parquet.metadata.num_rows)
    with unzipped(file) as text:
        start = text.read(_START)
        packed = getattr(text, "fileobj", text).tell()
        return round((start.count(b"\n") + 1) * max(1.0, file.stat().st_size / max(packed, 1)))


def good_rows(
    file: Path, columns: Columns, counts: Counter[str], seed: int, low: int = 0, high: int = LAST
) -> Iterator[list[tuple[Any, ...]]]:
    """The usable rows with a rank from ``low`` to ``high``, in batches: rank, url (normalised), caption (unchanged), key and hash
    ("" if there is none), and the row's number in the list, from 0.

    ``counts`` collects the number of all rows under "", and of unusable rows in this range by reason.
    """
    from pandas.util import hash_array

    keyed = columns.key is not None
    hash_key = hashlib.blake2b(str(seed).encode(), digest_size=8).hexdigest()
    for urls, rows_at in _batches(file, columns):
        ranks = hash_array(urls, hash_key=hash_key, categorize=False)  # bytes hash as text does, and faster
        picked = np.flatnonzero((ranks >= np.uint64(low)) & (ranks <= np.uint64(high)))
        good, numbers = [], (counts[""] + picked).tolist()
        for rank, number, row in zip(ranks[picked].tolist(), numbers, rows_at(picked.tolist()), strict=True):
            try:
                good.append((rank, *_normalised(row, keyed), number))
            except Failure as failure:
                counts[str(failure)] += 1
            except UnicodeEncodeError:  # lone surrogates: broken bytes of a table, or \ud800 in JSON
                counts[NO_TEXT] += 1
        counts[""] += len(urls)
        yield good


def _normalised(row: tuple[Any, ...], keyed: bool) -> tuple[str, str, str, str]:
    """A row with its URL normalised. Failure with the reason why it is left out."""
    url, caption, key, listed, complaint = row
    if complaint:
        raise Failure(complaint)
    url = web_url(url if isinstance(url, str) else "")
    if not isinstance(caption, str) or not (caption[:1].isalnum() or clean_caption(caption)):
        raise Failure(NO_CAPTION_TEXT)
    if keyed and key in (None, ""):
        raise Failure(NO_KEY)
    key, listed = str(key) if keyed else "", str(listed).strip().lower() if listed else ""
    f"{caption}{key}".encode()
    return url, caption, key, listed if listed and _SHA256.fullmatch(listed) else ""


# --- formats ---------------------------------------------------------------------------------------------------------

#: the URLs of some rows as bytes, and what gives rows by their numbers: url, caption, key, hash and the complaint about them
_Batch = tuple[Any, Callable[[list[int]], Iterable[tuple[Any, ...]]]]


def _batches(file: Path, columns: Columns) -> Iterator[_Batch]:
    wanted: tuple[Any, ...] = (columns.url, columns.caption, columns.key, columns.hash)
    form = columns.format or str(kind_of(file))
    if form == "parquet":
        yield from _parquet_batches(file, wanted)
        return
    # one invalid byte must not end a list of millions of rows
    rows = table_rows(file, form, columns.header, wanted, "surrogateescape")
    while chunk := [(*map(cells.get, wanted), complaint) for _, cells, complaint in islice(rows, _BATCH)]:
        urls = [row[0].encode("utf-8", "surrogatepass") if isinstance(row[0], str) else b"" for row in chunk]
        yield np.array(urls, dtype=object), lambda picked, chunk=chunk: map(chunk.__getitem__, picked)  # type: ignore[misc]


def _parquet_batches(file: Path, wanted: tuple[Column | None, ...]) -> Iterator[_Batch]:
    import pyarrow

    with open_parquet(file) as parquet:
        names = parquet.schema_arrow.names
        for column in wanted:
            if column is not None and column not in names:
                raise UserError(f"{file}: has no column {column!r}; it has {', '.join(names)[:200]}")
        batches = parquet.iter_batches(_BATCH, columns=list({column for column in wanted if column is not None}))
        while True:
            with readable(file, "its rows cannot be read"):
                batch = next(batches, None)
            if batch is None:
                return

            def rows_at(picked: list[int], batch: Any = batch) -> Iterable[tuple[Any, ...]]:
                rows = batch.take(pyarrow.array(picked, pyarrow.int64()))
                values = (_pythonic(rows[name]) if name in names else repeat(None) for name in wanted)
                return zip(*values, repeat("", len(picked)), strict=False)

            urls = _bytes(batch[wanted[0]])
            known = urls.type == pyarrow.large_binary()
            urls = urls.fill_null(b"") if known else pyarrow.array([b""] * len(urls), pyarrow.large_binary())
            yield urls.to_numpy(zero_copy_only=False), rows_at


def _bytes(column: Any) -> Any:
    """A column of texts as bytes, which may be invalid UTF-8; another column as it is."""
    from pyarrow import large_binary, types

    tests = (types.is_string, types.is_large_string, types.is_binary)
    return column.cast(large_binary()) if any(test(column.type) for test in tests) else column


def _pythonic(column: Any) -> list[Any]:
    """A column's values; invalid UTF-8 becomes lone surrogates, so that only its own row is left out."""
    values = _bytes(column).to_pylist()
    return [value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else value for value in values]
