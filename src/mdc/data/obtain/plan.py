"""What will be asked for, in which order: the rows of a list, one file a shard, fixed before the first download.

``<folder>/plan/part-NNNNN.parquet`` holds the rows of shard NNNNN: ``place`` (from 0, through all shards), ``row`` of the
list, ``source_key``, ``url``, ``caption``, and ``listed_sha256`` if the list has a column of hashes. Without a subset the order
is the list's; with one it is the order of rank, so that the first rows of a larger subset are a smaller one, and a larger one
continues after a smaller one.

Exact duplicates (same url and caption) are left out after the first; in a subset, those of the same key too.

A planning that was killed goes on: ``plan/list/`` keeps what each file of the list hashes to (mdc.data.obtain.seals), and stays;
``plan/reading/`` what was read of it (mdc.data.obtain.reading), and is removed when the plan is made, for it can be larger than
the plan. A subset that grows therefore reads the list again, without hashing it. Parts that are right are not written again.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from mdc.data.obtain.reasons import left_out
from mdc.data.obtain.seals import seal_files
from mdc.data.obtain.subset import chosen_rows
from mdc.data.obtain.url_list import Columns, Row
from mdc.data.obtain.whole import all_rows
from mdc.plan.records import UserError, atomic_path, clear_leftovers, read_json, write_json

PLAN = "plan.json"
#: settings that decide what a shard holds: one folder, one value
SHAPING = (
    *("image_size", "rows_per_shard", "max_bytes", "min_image_size", "max_pixels", "max_aspect", "quality"),
    "respect_robots",
)


#: the sha256 that the list has for a row's image, "" if none: a column only of lists that have one
LISTED_SHA256 = "listed_sha256"


class Planned(NamedTuple):
    """A row of the plan."""

    place: int
    row: int
    source_key: str
    url: str
    caption: str


def part_file(folder: Path, shard: int) -> Path:
    return folder / "plan" / f"part-{shard:05d}.parquet"


def read_part(folder: Path, shard: int) -> Any:
    """The rows of one shard as a pyarrow table."""
    from mdc.data.formats.parquet_file import open_parquet, readable

    path = part_file(folder, shard)
    with open_parquet(path) as file, readable(path, "its rows cannot be read"):
        return file.read()


def make_plan(
    folder: Path, files: Sequence[Path], columns: Columns, subset: Mapping[str, Any] | None, download: Mapping[str, Any]
) -> dict[str, Any]:
    """The plan of ``folder``, made if it is not there; its record, which is ``plan/plan.json``.

    ``subset`` is {pairs, seed} or None for the whole list. UserError if the folder belongs to another list or to
    settings that shape its shards in another way, or if the list has fewer rows than the subset is to have.
    """
    place = folder / "plan"
    there = read_json(place / PLAN) if (place / PLAN).exists() else None
    if there is not None and "hash" not in there["asked"]["columns"]:
        columns = replace(columns, hash=None)  # planned before its hashes were read: it goes on as it began
    seals = seal_files(place / "list", files)
    wanted = {
        "list": [
            {"file": file.name, "bytes": seal["bytes"], "sha256": seal["sha256"]}
            for file, seal in zip(files, seals, strict=True)
        ],
        "columns": columns.described(),
        "subset": dict(subset) if subset else None,
        "shape": {name: download[name] for name in SHAPING},
    }
    if there is not None:
        _same_pairs(folder, there, wanted)
        if there["asked"] == wanted and _is_whole(folder, there):
            shutil.rmtree(place / "reading", ignore_errors=True)  # of a run that was killed right before
            return there
    clear_leftovers(place)
    counts: Counter[str] = Counter()
    rows = (
        all_rows(place / "reading", files, seals, columns, counts)
        if subset is None
        else chosen_rows(place / "reading", files, seals, columns, subset, counts)
    )
    parts = list(_write_parts(folder, rows, download["rows_per_shard"], columns.hash is not None))
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


def _same_pairs(folder: Path, there: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
    """A folder keeps its list, its columns and its settings; only the size of its subset may grow."""
    old, mend = there["asked"], "use a different path for this dataset or delete the folder"
    if old["list"] != wanted["list"] or old["columns"] != wanted["columns"]:
        raise UserError(f"{folder}: was made from a different list or different columns; {mend}")
    for name, value in wanted["shape"].items():
        if old["shape"].get(name) != value:
            raise UserError(f"{folder}: was made with {name} {old['shape'].get(name)}, now it is {value}; {mend}")
    before, now = old["subset"], wanted["subset"]
    if (before is None) != (now is None) or (before and now and before["seed"] != now["seed"]):
        raise UserError(
            f"{folder}: was made with subset {before}, now it is {now}: different rows, or a different order; {mend}"
        )
    if before and now and now["pairs"] < before["pairs"]:
        raise UserError(
            f"{folder}: contains a subset of {before['pairs']} pairs, {now['pairs']} are requested; keep the "
            f"larger and set pairs: {now['pairs']} in the corpus's source, or {mend}"
        )


def _is_whole(folder: Path, plan: Mapping[str, Any]) -> bool:
    def there(shard: int, part: Mapping[str, Any]) -> bool:
        path = part_file(folder, shard)
        return path.is_file() and path.stat().st_size == part["bytes"]

    return all(there(shard, part) for shard, part in enumerate(plan["parts"]))


# --- parts -----------------------------------------------------------------------------------------------------------


def _write_parts(folder: Path, rows: Iterator[Row], rows_per_shard: int, hashed: bool) -> Iterator[dict[str, Any]]:
    import pyarrow
    import pyarrow.parquet

    shard, names = 0, [*Planned._fields, *([LISTED_SHA256] if hashed else [])]
    while chunk := list(islice(rows, rows_per_shard)):
        first = shard * rows_per_shard
        planned: list[tuple[Any, ...]] = [
            (*Planned(first + n, row.number, row.key, row.url, row.caption), *([row.sha256] if hashed else []))
            for n, row in enumerate(chunk)
        ]
        table = pyarrow.table(
            {name: list(values) for name, values in zip(names, zip(*planned, strict=True), strict=True)}
        )
        path = part_file(folder, shard)
        if not _holds(folder, shard, table):
            with atomic_path(path) as temporary:
                pyarrow.parquet.write_table(table, temporary)
        yield {"rows": len(planned), "bytes": path.stat().st_size, "sha256": rows_digest(planned)}
        shard += 1


def _holds(folder: Path, shard: int, table: Any) -> bool:
    """Whether the part is there with these rows: one that a killed planning, or that of a smaller subset, wrote."""
    try:
        return part_file(folder, shard).is_file() and bool(read_part(folder, shard).equals(table))
    except UserError:
        return False


def rows_digest(rows: Iterable[Sequence[Any]]) -> str:
    """sha256 of planned rows, whatever file format holds them."""
    digest = hashlib.sha256()
    for row in rows:
        digest.update(json.dumps(list(row)).encode() + b"\n")
    return digest.hexdigest()
