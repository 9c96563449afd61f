"""The rows of a list that will be requested, and their order: one file per shard, fixed before the first download.

``<folder>/plan/part-NNNNN.parquet`` has the rows of shard NNNNN: ``place`` (from 0, through all shards), ``row`` of the
list, ``source_key`` ("" if the list has no keys), ``url``, ``caption``, and ``listed_sha256`` if the list has a column of hashes.
The order is by rank (mdc.data.obtain.subset), so that a larger subset begins with the smaller one.

Exact duplicates (same url, as listed, and caption) are left out after the first. Rows that are not of the subset are not checked.

``plan/list/`` has the hash of each file of the list (mdc.data.obtain.seals), and stays. ``plan/reading/`` has the rows read so
far, and is removed when the plan is complete; a killed planning reads the list again. Parts that are right are not rewritten.
"""

import hashlib
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from mdc.data.formats.parquet_file import read_parquet
from mdc.data.obtain.reasons import left_out
from mdc.data.obtain.seals import seal_files
from mdc.data.obtain.subset import RANK, ranked_rows
from mdc.data.obtain.url_list import Columns
from mdc.plan.records import UserError, atomic_path, clear_leftovers, read_json, write_json

PLAN = "plan.json"
#: settings that shape a shard's content: they must be the same for the whole folder
SHAPING = (
    *("image_size", "rows_per_shard", "max_bytes", "min_image_size", "max_pixels", "max_aspect", "quality"),
    "respect_robots",
)
#: the sha256 that the list has for a row's image, "" if none: a column only of lists that have one
LISTED_SHA256 = "listed_sha256"


def part_file(folder: Path, shard: int) -> Path:
    return folder / "plan" / f"part-{shard:05d}.parquet"


def read_part(folder: Path, shard: int, part: Mapping[str, Any] | None = None) -> Any:
    """The rows of one shard as a pyarrow table. UserError if they are corrupt, or not those of the plan's ``part``."""
    path = part_file(folder, shard)
    table = read_parquet(path)
    if part is not None and rows_digest(table) != part["sha256"]:
        raise UserError(f"{path}: corrupt; delete {folder / 'plan'} and rerun")
    return table


def make_plan(
    folder: Path, files: Sequence[Path], columns: Columns, subset: Mapping[str, Any] | None, download: Mapping[str, Any]
) -> dict[str, Any]:
    """Plan ``folder`` unless that was done; the plan's record, which is ``plan/plan.json``.

    ``subset`` is {pairs, seed} or None for the whole list. UserError if the folder has another list or other ``SHAPING``
    settings, or if the list has fewer rows than the subset.
    """
    place = folder / "plan"
    existing = read_json(place / PLAN) if (place / PLAN).exists() else None
    seals = seal_files(place / "list", files)
    wanted = {
        "list": [
            {"file": file.name, "bytes": seal["bytes"], "sha256": seal["sha256"]}
            for file, seal in zip(files, seals, strict=True)
        ],
        "columns": asdict(columns),
        "subset": dict(subset) if subset else None,
        "rank": RANK,
        "shape": {name: download[name] for name in SHAPING},
    }
    if existing is not None:
        _same_pairs(folder, existing, wanted)
        whole = (_size(part_file(folder, shard)) == part["bytes"] for shard, part in enumerate(existing["parts"]))
        if existing["asked"] == wanted and all(whole):
            shutil.rmtree(place / "reading", ignore_errors=True)  # of a run that was killed right before
            return existing
    clear_leftovers(place)
    counts: Counter[str] = Counter()
    tables = ranked_rows(place / "reading", files, seals, columns, subset, counts)
    known = [] if existing is None else existing["parts"]
    parts = list(_write_parts(folder, tables, download["rows_per_shard"], columns.hash is not None, known))
    total = counts.pop("", 0)
    plan = {
        "kind": "plan",
        "asked": wanted,
        "rows": total,
        "left_out": dict(sorted(counts.items())),
        "chosen": sum(part["rows"] for part in parts),
        "parts": parts,
    }
    if not parts:
        raise UserError(f"{files[0].parent}: none of the list's {total} rows is usable{left_out(counts)}")
    write_json(place / PLAN, plan)
    shutil.rmtree(place / "reading", ignore_errors=True)
    return plan


def _same_pairs(folder: Path, existing: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
    """UserError if the list, its columns or settings differ from the folder's: only the size of its subset may grow."""
    old, remedy = existing["asked"], "use a different path for this dataset or delete the folder"
    if old["list"] != wanted["list"] or old["columns"] != wanted["columns"]:
        raise UserError(f"{folder}: was made from a different list or different columns; {remedy}")
    if old["rank"] != wanted["rank"]:
        raise UserError(f"{folder}: was planned by {old['rank']}, now it is {wanted['rank']}: another order; {remedy}")
    for name, value in wanted["shape"].items():
        if old["shape"].get(name) != value:
            raise UserError(f"{folder}: was made with {name} {old['shape'].get(name)}, now it is {value}; {remedy}")
    before, now = old["subset"], wanted["subset"]
    if (before is None) != (now is None) or (before and now and before["seed"] != now["seed"]):
        raise UserError(
            f"{folder}: was made with subset {before}, now it is {now}: different rows, or a different order; {remedy}"
        )
    if before and now and now["pairs"] < before["pairs"]:
        raise UserError(
            f"{folder}: contains a subset of {before['pairs']} pairs, {now['pairs']} are requested; keep the "
            f"larger and set pairs: {now['pairs']} in the corpus's source, or {remedy}"
        )


def _size(path: Path) -> int:
    return path.stat().st_size if path.is_file() else 0


# --- parts -----------------------------------------------------------------------------------------------------------


def _write_parts(
    folder: Path, tables: Iterator[Any], rows_per_shard: int, hashed: bool, known: Sequence[Mapping[str, Any]]
) -> Iterator[dict[str, Any]]:
    import pyarrow
    import pyarrow.parquet

    for shard, table in enumerate(_cut(tables, rows_per_shard)):
        places = np.arange(shard * rows_per_shard, shard * rows_per_shard + table.num_rows)
        columns = {"place": pyarrow.array(places), "row": table["row"], "source_key": table["key"]}
        columns |= {"url": table["url"], "caption": table["caption"]}
        planned = pyarrow.table(columns | ({LISTED_SHA256: table["hash"]} if hashed else {}))
        path, part = part_file(folder, shard), {"rows": planned.num_rows, "sha256": rows_digest(planned)}
        if {**part, "bytes": _size(path)} not in known[shard : shard + 1]:
            with atomic_path(path) as temporary:
                # texts hardly repeat
                pyarrow.parquet.write_table(planned, temporary, compression="lz4", use_dictionary=False)
        yield {**part, "bytes": path.stat().st_size}


def _cut(tables: Iterator[Any], rows: int) -> Iterator[Any]:
    """The tables' rows in tables of ``rows`` rows; the last may be shorter."""
    import pyarrow

    rest = None
    for table in tables:
        rest = table if rest is None else pyarrow.concat_tables([rest, table])
        whole = rest.num_rows // rows * rows
        yield from (rest.slice(first, rows) for first in range(0, whole, rows))
        rest = rest.slice(whole)
    if rest is not None and rest.num_rows:
        yield rest


def rows_digest(table: Any) -> str:
    """sha256 of a part's rows, independent of the file format."""
    import pyarrow.compute as pc

    digest = hashlib.sha256()
    for name, column in zip(table.column_names, table.columns, strict=True):
        digest.update(f"{name}\0".encode())
        if str(column.type) == "string":
            values = column.combine_chunks()
            digest.update(pc.binary_length(values).to_numpy().astype("<i8").tobytes())
            ends = np.frombuffer(values.buffers()[1], dtype="<i4")[values.offset : values.offset + len(values) + 1]
            digest.update(memoryview(values.buffers()[2] or b"")[ends[0] : ends[-1]])
        else:
            digest.update(column.to_numpy().astype("<i8").tobytes())
    return digest.hexdigest()
