"""Output files of evaluations: rows in parquet files with typed columns, and a record."""

from collections.abc import Mapping, Sequence
from typing import Any

from mdc.plan.jobs.call import Call, record
from mdc.plan.records import atomic_path, clear_leftovers, write_json

Row = dict[str, Any]
#: column → its type as pyarrow names it; "word": a string that many rows share; [type]: lists of it
Columns = Mapping[str, str | list[str]]


def write_results(
    call: Call, kind: str, files: Mapping[str, tuple[Sequence[Row], Columns]], metadata: Mapping[str, Any]
) -> None:
    """Write the job's ``files``, {name: (rows, columns)}, and last its record with ``metadata``."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    def type_of(name: str | list[str]) -> pa.DataType:
        if isinstance(name, list):
            return pa.list_(type_of(name[0]))
        return pa.dictionary(pa.int32(), pa.string()) if name == "word" else pa.type_for_alias(name)

    clear_leftovers(call.out)
    for file, (rows, columns) in files.items():
        schema = pa.schema([(column, type_of(name)) for column, name in columns.items()])
        values = {column: [row[column] for row in rows] for column in columns}
        with atomic_path(call.out / file) as temporary:
            pq.write_table(pa.table(values, schema=schema), temporary, compression="zstd")
    write_json(call.out / f"{kind}.json", record(call, kind, [call.out / file for file in files]) | dict(metadata))
