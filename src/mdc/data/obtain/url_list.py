"""Lists of web images with captions: TSV, CSV, JSON lines (gzipped or not) or parquet, a file or a folder of them, in batches.

The columns are named, or numbered from 0 where a TSV or CSV file has no header. A batch's URLs are ranked together; only the rows
that are chosen by their rank are checked, one by one: normalised, or counted by reason. A malformed file is a UserError with its
line.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
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

#: ranks of a pyarrow array of URLs, and which of them are chosen
Choose = Callable[[Any], tuple[Any, Any]]
_BATCH = 1 << 16  # rows in memory
_START = 1 << 20  # bytes of a text file from which its number of lines is estimated
_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Columns:
    """The columns of a list; ``format`` None: by the files' extension; ``key``, ``hash`` None: no keys, no sha256 of images."""

    url: Column
    caption: Column
    key: Column | None = None
    format: str | None = None
    header: bool = True
    hash: Column | None = None

    def names(self) -> dict[str, Column]:
        """The columns that are read, by their role."""
        every = {"url": self.url, "caption": self.caption, "key": self.key, "hash": self.hash}
        return {name: column for name, column in every.items() if column is not None}


def columns_of(described: Mapping[str, Any]) -> Columns:
    """From the scale's or the registry's description of a list; url and caption are the default columns."""
    return Columns(
        url=described.get("url_column", "url"),
        caption=described.get("caption_column", "caption"),
        key=described.get("key_column"),
        format=described.get("format"),
        header=described.get("header", True),
        hash=described.get("hash_column"),
    )


def list_files(path: Path, columns: Columns) -> list[Path]:
    """The list's files in the order of their names; UserError if there is none, or if an extension is unknown."""
    return files_of(path, TABLES, columns.format, "list.format")


def rows_about(file: Path, columns: Columns) -> int:
    """How many rows a file has: exact for parquet, estimated from the first lines of a text file."""
    if _format(file, columns) == "parquet":
        with open_parquet(file) as parquet:
            return int(parquet.metadata.num_rows)
    with unzipped(file) as text:
        start = text.read(_START)
        packed = getattr(text, "fileobj", text).tell()
        return round((start.count(b"\n") + 1) * max(1.0, file.stat().st_size / max(packed, 1)))


def good_rows(file: Path, columns: Columns, counts: Counter[str], choose: Choose) -> Iterator[Any]:
    """Tables of the chosen rows that are usable: url (normalised), caption (unchanged), key and hash ("" if there is none), row
    (its number in the file, from 0) and rank.

    ``choose`` gives the ranks of URLs as listed, and which are chosen. ``counts`` collects the number of all rows under "", and
    of unusable chosen ones by reason.
    """
    import pyarrow

    for batch in _batches(file, columns):
        first, counts[""] = counts[""], counts[""] + batch.num_rows
        ranks, chosen = choose(_binary(batch["url"]))
        picked, good = np.flatnonzero(chosen), []
        values = [_pythonic(batch[name].take(pyarrow.array(picked))) for name in batch.column_names]
        for number, rank, *row in zip((first + picked).tolist(), ranks[picked].tolist(), *values, strict=True):
            result = _normalised(dict(zip(batch.column_names, row, strict=True)))
            if isinstance(result, str):
                counts[result] += 1
            else:
                good.append({**result, "row": number, "rank": rank})
        if good:
            yield pyarrow.Table.from_pylist(good, row_schema())


def row_schema() -> Any:
    """The schema of the tables of ``good_rows``."""
    import pyarrow

    texts = [(name, pyarrow.string()) for name in ("url", "caption", "key", "hash")]
    return pyarrow.schema([*texts, ("row", pyarrow.int64()), ("rank", pyarrow.uint64())])


def _normalised(row: dict[str, Any]) -> dict[str, Any] | str:
    """The row with its URL normalised; or the reason why it is left out."""
    url, caption, key = row["url"], row["caption"], row.get("key", " ")
    try:
        if row.get("complaint"):
            raise Failure(row["complaint"])
        url = web_url(url if isinstance(url, str) else "")
        if not isinstance(caption, str) or not (caption[:1].isalnum() or clean_caption(caption)):
            raise Failure(NO_CAPTION_TEXT)
        if key in (None, ""):
            raise Failure(NO_KEY)
        f"{caption}{key}".encode()
    except Failure as failure:
        return str(failure)
    except UnicodeEncodeError:  # lone surrogates: broken bytes of a table, or \ud800 in JSON
        return NO_TEXT
    listed = str(row.get("hash")).strip().lower()
    listed = listed if _SHA256.fullmatch(listed) else ""
    return {"url": url, "caption": caption, "key": str(row.get("key", "")), "hash": listed}


def _binary(column: Any) -> Any:
    """The bytes of a column of texts; empty for what is none."""
    import pyarrow
    from pyarrow import types

    kinds = (types.is_string, types.is_large_string, types.is_binary, types.is_large_binary)
    if not any(test(column.type) for test in kinds):
        return pyarrow.array([b""] * len(column))
    return column.cast(pyarrow.large_binary()).fill_null(b"")


def _pythonic(column: Any) -> list[Any]:
    """A column's values; invalid UTF-8 becomes lone surrogates, so that only its own row is left out."""
    import pyarrow
    from pyarrow import types

    if types.is_string(column.type) or types.is_large_string(column.type):
        column = column.cast(pyarrow.large_binary())
    return [
        value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else value for value in column.to_pylist()
    ]


# --- formats ---------------------------------------------------------------------------------------------------------


def _format(file: Path, columns: Columns) -> str:
    return columns.format or str(kind_of(file))


def _batches(file: Path, columns: Columns) -> Iterator[Any]:
    """All rows, the columns by role; of text files also the ``complaint`` about a malformed row."""
    import pyarrow

    wanted, form = columns.names(), _format(file, columns)
    if form == "parquet":
        yield from _parquet_batches(file, wanted)
        return
    # one invalid byte must not end a list of millions of rows
    rows = table_rows(file, form, columns.header, wanted.values(), "surrogateescape")
    while chunk := list(islice(rows, _BATCH)):
        values = {
            name: _encoded([cells.get(column) for _, cells, _ in chunk], name == "key")
            for name, column in wanted.items()
        }
        yield pyarrow.table({**values, "complaint": [complaint for _, _, complaint in chunk]})


def _encoded(values: list[Any], numbers: bool) -> Any:
    """Texts as bytes, invalid UTF-8 where a text has lone surrogates; None for other values, unless ``numbers`` are texts too."""
    import pyarrow

    texts = (str(value) if numbers and value is not None else value for value in values)
    coded = [text.encode("utf-8", "surrogatepass") if isinstance(text, str) else None for text in texts]
    return pyarrow.array(coded, pyarrow.large_binary())


def _parquet_batches(file: Path, wanted: Mapping[str, Column]) -> Iterator[Any]:
    with open_parquet(file) as parquet:
        names = parquet.schema_arrow.names
        for column in wanted.values():
            if column not in names:
                raise UserError(f"{file}: has no column {column!r}; it has {', '.join(names)[:200]}")
        batches = parquet.iter_batches(_BATCH, columns=list(set(wanted.values())))
        while True:
            with readable(file, "its rows cannot be read"):
                batch = next(batches, None)
                if batch is None:
                    return
            yield batch.select(list(wanted.values())).rename_columns(list(wanted))
