"""Parquet files from any writer; corrupt bytes give an error of one line."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import repeat
from pathlib import Path
from typing import Any

from mdc.data.formats.lfs import lfs_hint
from mdc.plan.records import UserError

_BUFFER = 1 << 20  # bytes of a column that are read from the file at once
_IMAGES, _ROWS = 64, 1024  # rows in memory at once, with images and without


@contextmanager
def readable(path: Path, trouble: str) -> Iterator[None]:
    """Turn PyArrow's exceptions on corrupt bytes into a UserError: file, ``trouble``, PyArrow's message."""
    import pyarrow

    try:
        yield
    except (OSError, pyarrow.ArrowException, ValueError, OverflowError) as error:  # ValueError: text that is not UTF-8
        raise UserError(f"{path}: {trouble} ({str(error)[:200]}){lfs_hint(path)}") from None


def read_parquet(path: Path, columns: list[str] | None = None) -> Any:
    """Some columns of a file, or all, as a pyarrow table; UserError if they cannot be read."""
    with open_parquet(path) as file, readable(path, "its rows cannot be read"):
        return file.read(columns=columns)


@contextmanager
def open_parquet(path: Path) -> Iterator[Any]:
    """The file as a ``pyarrow.parquet.ParquetFile`` whose schema can be read; UserError otherwise.

    Batches of it are read page by page: without a buffer size, or with a buffer ahead (pyarrow's default), all of a row
    group's column is in memory at once.
    """
    import pyarrow.parquet

    with readable(path, "not a readable parquet file"):
        file = pyarrow.parquet.ParquetFile(path, buffer_size=_BUFFER, pre_buffer=False)
        _ = file.schema_arrow  # a schema can be corrupt although the footer is good
    with file:
        yield file


def is_text(kind: Any) -> bool:
    """Whether a pyarrow type is one of texts, however they are stored."""
    import pyarrow.types as types

    kind = kind.value_type if types.is_dictionary(kind) else kind
    return types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind)


def holds_bytes(kind: Any) -> bool:
    """Whether a pyarrow type can hold images: bytes, or a struct with bytes, as in the hub's datasets."""
    import pyarrow.types as types

    if types.is_struct(kind):
        place = kind.get_field_index("bytes")
        return place >= 0 and holds_bytes(kind.field(place).type)
    inner = kind.value_type if types.is_dictionary(kind) else kind
    return any(test(inner) for test in (types.is_binary, types.is_large_binary, types.is_binary_view, types.is_null))


def need_columns(path: Path, names: Sequence[str], *columns: str | None) -> None:
    """UserError that names the first of ``columns`` that is missing from ``names``, or a duplicate there."""
    for column in columns:
        if column is None:
            continue
        if column not in names:
            raise UserError(f"{path}: has no column {column!r}; it has {', '.join(sorted(names))}")
        if names.count(column) > 1:
            raise UserError(f"{path}: duplicate column {column!r}")


def parquet_rows(path: Path, file: Any, columns: Iterable[Any]) -> Iterator[dict[Any, Any]]:
    """The rows of an open file as dictionaries of ``columns``, without None; of a row group, a few are in memory at once."""
    wanted = sorted({*columns} - {None}, key=str)
    need_columns(path, file.schema_arrow.names, *wanted)
    if not wanted:
        yield from repeat({}, file.metadata.num_rows)
        return
    images = any(holds_bytes(file.schema_arrow.field(column).type) for column in wanted)
    for group in range(file.num_row_groups):
        with readable(path, f"row group {group} cannot be read"):
            batches = file.iter_batches(_IMAGES if images else _ROWS, row_groups=[group], columns=wanted)
        while True:
            with readable(path, f"row group {group} cannot be read"):
                if (batch := next(batches, None)) is None:
                    break
                rows = batch.to_pylist()
            yield from rows
