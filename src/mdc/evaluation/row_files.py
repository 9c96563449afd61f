"""The parquet files that evaluations leave: rows, in columns of known types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mdc.plan.records import atomic_path

#: column → its type as pyarrow names it; "word": a text that many rows share; [type]: lists of it
Columns = Mapping[str, str | list[str]]


def write_rows(path: Path, rows: Sequence[Mapping[str, Any]], columns: Columns) -> None:
    """The ``columns`` of ``rows``, each of which must have them all."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    def kind(name: str | list[str]) -> pa.DataType:
        if isinstance(name, list):
            return pa.list_(kind(name[0]))
        return pa.dictionary(pa.int32(), pa.string()) if name == "word" else pa.type_for_alias(name)

    schema = pa.schema([(column, kind(name)) for column, name in columns.items()])
    values = {column: [row[column] for row in rows] for column in columns}
    with atomic_path(path) as temporary:
        pq.write_table(pa.table(values, schema=schema), temporary, compression="zstd")
