"""Parquet files from any writer; corrupt bytes give an error of one line."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mdc.data.formats.lfs import lfs_hint
from mdc.plan.records import UserError

_BUFFER = 1 << 20  # bytes of a column that are read from the file at once


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
