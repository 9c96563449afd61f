"""Lists of web images with captions: TSV, CSV, JSON lines (gzipped or not) or parquet, a file or a folder of them, in batches.

The columns are named, or numbered from 0 where a TSV or CSV file has no header. PyArrow reads and checks whole batches. Rows
that it refuses, or that need normalisation, go through Python one by one, where they are normalised or counted by reason. A
malformed file is a UserError with its line.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from mdc.data.formats.captions import clean_caption
from mdc.data.formats.gzipped import unzipped
from mdc.data.formats.parquet_file import open_parquet, readable
from mdc.data.formats.table_rows import TABLES, Column, files_of, kind_of, table_rows
from mdc.data.obtain.reasons import NO_CAPTION_TEXT, NO_KEY, NO_TEXT, SCHEME, Failure
from mdc.data.obtain.transfers.web_url import web_url
from mdc.plan.host import usable_cores
from mdc.plan.records import UserError

#: ranks of a pyarrow array of URLs, and which of them are chosen
Choose = Callable[[Any], tuple[Any, Any]]
_BATCH = 1 << 16  # rows in memory
_START = 1 << 20  # bytes of a text file from which its number of lines is estimated
_SHORT = 2048  # bytes of a URL; longer ones go to web_url
_SHA256 = "^[0-9a-f]{64}$"
# most URLs: web_url would not change them
_PORT = "(?::[1-9][0-9]{3}|:[1-5][0-9]{4}|:6[0-4][0-9]{3})?"  # most non-default ports
_FIT = (
    r"^https?://(?:[a-z0-9_-]{1,63}\.)*[a-z0-9_-]{1,63}" + _PORT + r"/[\w.~!$%&'()*+,/:;=@\[\]|-]*"
    r"(?:\?[\w.~!$%&'()*+,/:;=?@\[\]|-]+)?$"
)
_FOREIGN = r"^(ftp|file|s3|data|blob):(//)?[\w./?=&%+,-]{0,200}$"  # web_url refuses the scheme
_LETTER_FIRST = r"^[\p{L}\p{Nd}]"  # such a caption is not empty after cleaning


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
    """Tables of the usable rows that are chosen: url (normalised), caption (unchanged), key and hash ("" if there is none), row
    (its number in the file, from 0) and rank.

    ``choose`` gives the ranks of URLs, and which of them are chosen. ``counts`` collects the number of all rows under "", and of
    unusable ones by reason.
    """
    cores = usable_cores()
    with ThreadPoolExecutor(cores) as pool:  # PyArrow releases the GIL
        ahead: deque[Future[tuple[list[Any], Counter[str]]]] = deque()
        for first, batch, complaints in _batches(file, columns):
            counts.update({**complaints, "": complaints.total()})
            ahead.append(pool.submit(_checked, batch, first, choose))
            if len(ahead) > cores:
                yield from _taken(ahead.popleft().result(), counts)
        while ahead:
            yield from _taken(ahead.popleft().result(), counts)


def _taken(checked: tuple[list[Any], Counter[str]], counts: Counter[str]) -> list[Any]:
    tables, checked_counts = checked
    counts.update(checked_counts)
    return tables


# --- checks ----------------------------------------------------------------------------------------------------------


def _checked(batch: Any, first: int, choose: Choose) -> tuple[list[Any], Counter[str]]:
    """The usable rows of a batch that are chosen; its number of rows (""), and of unusable ones by reason."""
    import pyarrow
    import pyarrow.compute as pc

    tables, counts = [], Counter({"": batch.num_rows})
    texts = {name: _text(batch[name]) for name in batch.column_names if name != "row"}
    plain: Any = np.zeros(batch.num_rows, dtype=bool)
    if None not in texts.values():
        checks = [
            pc.match_substring_regex(texts["url"], _FIT),
            pc.less_equal(pc.binary_length(texts["url"]), _SHORT),
            pc.match_substring_regex(texts["caption"], _LETTER_FIRST),
            *([pc.greater(pc.binary_length(texts["key"]), 0)] if "key" in texts else []),
        ]
        plain = np.logical_and.reduce([pc.fill_null(check, False).to_numpy(zero_copy_only=False) for check in checks])
    rows = batch["row"].to_numpy() if "row" in batch.column_names else np.arange(first, first + batch.num_rows)
    rest = np.flatnonzero(~plain)
    if None not in texts.values():
        foreign = pc.match_substring_regex(texts["url"].take(pyarrow.array(rest)), _FOREIGN)
        foreign = pc.fill_null(foreign, False).to_numpy(zero_copy_only=False)
        counts.update({SCHEME: int(foreign.sum())} if foreign.any() else {})
        rest = rest[~foreign]
    values = [_pythonic(batch[name].take(pyarrow.array(rest))) for name in texts]
    normalised: list[dict[str, Any]] = []
    for number, *row in zip(rows[rest].tolist(), *values, strict=True):
        result = _normalised(dict(zip(texts, row, strict=True)))
        if isinstance(result, str):
            counts[result] += 1
        else:
            normalised.append({**result, "row": number})
    if plain.any():
        ranks, chosen = choose(texts["url"])
        indices = np.flatnonzero(plain & chosen)
        taken = {name: text.take(pyarrow.array(indices)) for name, text in texts.items()}
        empty = pyarrow.array([""] * len(indices), pyarrow.string())
        columns = [taken["url"], taken["caption"], taken.get("key", empty), _hashes(taken.get("hash", empty))]
        tables.append(pyarrow.table([*columns, rows[indices], ranks[indices]], schema=row_schema()))
    if normalised:
        table = pyarrow.Table.from_pylist([{**row, "rank": 0} for row in normalised], row_schema())
        ranks, chosen = choose(table["url"])
        table = table.set_column(3, "hash", _hashes(table["hash"])).set_column(5, "rank", pyarrow.array(ranks))
        tables.append(table.filter(chosen))
    return tables, counts


def row_schema() -> Any:
    """The schema of the tables of ``good_rows``."""
    import pyarrow

    texts = [(name, pyarrow.string()) for name in ("url", "caption", "key", "hash")]
    return pyarrow.schema([*texts, ("row", pyarrow.int64()), ("rank", pyarrow.uint64())])


def _hashes(column: Any) -> Any:
    """A column's hashes in lower case; "" where a value is none."""
    import pyarrow.compute as pc

    listed = pc.fill_null(pc.utf8_lower(pc.utf8_trim_whitespace(column)), "")
    return pc.if_else(pc.match_substring_regex(listed, _SHA256), listed, "")


def _normalised(row: dict[str, Any]) -> dict[str, Any] | str:
    """The row with its URL normalised; or the reason why it is left out."""
    url, caption, key = row["url"], row["caption"], row.get("key", " ")
    try:
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
    listed = row.get("hash")
    listed = listed if isinstance(listed, str) and listed.isascii() else ""
    return {"url": url, "caption": caption, "key": str(row.get("key", "")), "hash": listed}


def _text(column: Any) -> Any:
    """The column as text; None if it is neither text nor integers, or not UTF-8: its rows are read one by one."""
    import pyarrow
    from pyarrow import types

    kind = column.type
    if types.is_null(kind) or types.is_integer(kind):
        return column.cast(pyarrow.string())
    if not any(test(kind) for test in (types.is_string, types.is_large_string, types.is_binary, types.is_large_binary)):
        return None
    with suppress(pyarrow.ArrowInvalid, UnicodeDecodeError):
        text = column.cast(pyarrow.string())
        text.validate(full=True)
        return text
    return None


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


def _batches(file: Path, columns: Columns) -> Iterator[tuple[int, Any, Counter[str]]]:
    """(number of the first row, rows, counts of the rows left out by reason)."""
    import pyarrow

    wanted, form, done = columns.names(), _format(file, columns), 0
    if form == "parquet":
        for batch in _parquet_batches(file, wanted):
            yield done, batch, Counter()
            done += batch.num_rows
        return
    # one invalid byte must not end a list of millions of rows
    rows = table_rows(file, form, columns.header, wanted.values(), "surrogateescape")
    while chunk := list(islice(rows, _BATCH)):
        complaints = Counter(complaint for _, _, complaint in chunk if complaint)
        good = [(done + n, cells) for n, (_, cells, complaint) in enumerate(chunk) if not complaint]
        values = {name: [cells.get(column) for _, cells in good] for name, column in wanted.items()}
        if "key" in values:
            values["key"] = [None if key is None else str(key) for key in values["key"]]
        texts = {name: _encoded(column) for name, column in values.items()}
        yield done, pyarrow.table({**texts, "row": pyarrow.array([n for n, _ in good], pyarrow.int64())}), complaints
        done += len(chunk)


def _encoded(values: list[Any]) -> Any:
    """Texts as bytes, invalid UTF-8 where a text has lone surrogates; None for other values."""
    import pyarrow

    coded = [value.encode("utf-8", "surrogatepass") if isinstance(value, str) else None for value in values]
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
