"""Rows of scores as a file: csv, JSON lines or parquet, by its name."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

Row = dict[str, Any]


def write_rows(path: Path, rows: Sequence[Row], columns: Sequence[str]) -> None:
    """``path``: one of ``ENDINGS``. In a csv, ``tokens`` and ``unknown`` are JSON, and nothing where they are empty."""
    _WRITERS[path.suffix](path, rows, columns)


def _csv(path: Path, rows: Sequence[Row], columns: Sequence[str]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        written = csv.DictWriter(file, columns, lineterminator="\n")
        written.writeheader()
        for row in rows:
            lists = {name: row[name] for name in ("tokens", "unknown") if name in row}
            coded = {name: json.dumps(listed, ensure_ascii=False) if listed else "" for name, listed in lists.items()}
            written.writerow(row | coded)


def _jsonl(path: Path, rows: Sequence[Row], columns: Sequence[str]) -> None:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")


def _parquet(path: Path, rows: Sequence[Row], columns: Sequence[str]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    kinds: dict[str, Any] = dict.fromkeys(("score", "error", "blind", "blind_error"), pa.float64())
    kinds |= {"row": pa.int64(), "unknown": pa.list_(pa.string())}
    kinds["tokens"] = pa.list_(pa.struct([("token", pa.string()), ("value", pa.float64())]))
    schema = pa.schema([(name, kinds.get(name, pa.string())) for name in columns])
    pq.write_table(pa.Table.from_pylist(list(rows), schema=schema), path)


_WRITERS = {".csv": _csv, ".jsonl": _jsonl, ".parquet": _parquet}

#: of a name, what can be written
ENDINGS = tuple(_WRITERS)
