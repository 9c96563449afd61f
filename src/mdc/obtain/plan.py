"""What will be asked for, in which order: the rows of a list, one file a shard, fixed before the first download.

``<folder>/plan/part-NNNNN.parquet`` holds the rows of shard NNNNN: ``place`` (from 0, through all shards), ``row`` of the
list, ``source_key``, ``url``, ``caption``. Without a subset the order is the list's; with one it is the order of rank, so
that the first rows of a larger subset are a smaller one, and a larger one goes on where a smaller one ended.

Exact duplicates (same url and caption) are left out after the first; in a subset, those of the same key too.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from tqdm import tqdm

from mdc.formats.rank import rank_hash
from mdc.obtain.reasons import SAME_AGAIN
from mdc.obtain.subset import Least
from mdc.obtain.url_list import BadRow, Columns, Row, pair_digest, read_rows
from mdc.records import UserError, atomic_path, clear_leftovers, read_json, sha256_file, write_json

PLAN = "plan.json"
NOT_CHOSEN = "not in the subset"
#: settings that decide what a shard holds: one folder, one value
SHAPING = (
    *("image_size", "rows_per_shard", "max_bytes", "min_image_size", "max_pixels", "max_aspect", "quality"),
    "respect_robots",
)
_BUCKET = 250_000  # rows of a subset that are sorted at once
_BUFFERED = 50_000  # rows that wait for their buckets


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
    from mdc.formats.parquet_file import open_parquet, readable

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
    wanted = {
        "list": [
            {"file": file.name, "bytes": file.stat().st_size, "sha256": sha256_file(file)}
            for file in tqdm(files, "list", unit="file", disable=None)
        ],
        "columns": asdict(columns),
        "subset": dict(subset) if subset else None,
        "shape": {name: download[name] for name in SHAPING},
    }
    place = folder / "plan" / PLAN
    if place.exists():
        there = read_json(place)
        _same_pairs(folder, there, wanted)
        if there["asked"] == wanted and _is_whole(folder, there):
            return there
    clear_leftovers(place.parent)
    counts: Counter[str] = Counter()
    rows = _all_rows(files, columns, counts) if subset is None else _subset(folder, files, columns, subset, counts)
    try:
        parts = list(_write_parts(folder, rows, download["rows_per_shard"]))
    finally:
        shutil.rmtree(_buckets(folder), ignore_errors=True)
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
        raise UserError(f"{files[0].parent}: none of the list's {total} rows can be used{_left_out(counts)}")
    write_json(place, plan)
    return plan


def _same_pairs(folder: Path, there: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
    """A folder keeps its list, its columns and its settings; only the size of its subset may grow."""
    old, mend = there["asked"], "take another path for this data set, or remove that folder"
    if old["list"] != wanted["list"] or old["columns"] != wanted["columns"]:
        raise UserError(f"{folder}: was made from another list or other columns of it; {mend}")
    for name, value in wanted["shape"].items():
        if old["shape"].get(name) != value:
            raise UserError(f"{folder}: was made with {name} {old['shape'].get(name)}, now it is {value}; {mend}")
    before, now = old["subset"], wanted["subset"]
    if (before is None) != (now is None) or (before and now and before["seed"] != now["seed"]):
        raise UserError(
            f"{folder}: was made with subset {before}, now it is {now}: other rows, or another order; {mend}"
        )
    if before and now and now["pairs"] < before["pairs"]:
        raise UserError(
            f"{folder}: holds a subset of {before['pairs']} pairs, now {now['pairs']} are asked for; keep the "
            f"larger and set pairs: {now['pairs']} in the corpus's source, or {mend}"
        )


def _is_whole(folder: Path, plan: Mapping[str, Any]) -> bool:
    def there(shard: int, part: Mapping[str, Any]) -> bool:
        path = part_file(folder, shard)
        return path.is_file() and path.stat().st_size == part["bytes"]

    return all(there(shard, part) for shard, part in enumerate(plan["parts"]))


# --- rows ------------------------------------------------------------------------------------------------------------


def _counted(rows: Iterable[Row | BadRow], counts: Counter[str], what: str) -> Iterator[Row]:
    """The good rows; all of them counted under "", the bad ones under their reasons too."""
    for row in tqdm(rows, what, unit="row", disable=None):
        counts[""] += 1
        if isinstance(row, BadRow):
            counts[row.reason] += 1
        else:
            yield row


def _pair_hash(row: Row) -> int:
    return int.from_bytes(pair_digest(row.url, row.caption)[:8])


def _all_rows(files: Sequence[Path], columns: Columns, counts: Counter[str]) -> Iterator[Row]:
    # 8 bytes a row tell which hashes occur twice; whole digests are kept of those rows alone
    hashes = array("Q", (_pair_hash(row) for row in _counted(read_rows(files, columns), Counter(), "reading")))
    ordered = np.sort(np.frombuffer(hashes, dtype=np.uint64))
    twice = set(ordered[1:][ordered[1:] == ordered[:-1]].tolist())
    del hashes, ordered
    seen: set[bytes] = set()
    for row in _counted(read_rows(files, columns), counts, "planning"):
        if _pair_hash(row) in twice:
            digest = pair_digest(row.url, row.caption)
            if digest in seen:
                counts[SAME_AGAIN] += 1
                continue
            seen.add(digest)
        yield row


def _subset(
    folder: Path, files: Sequence[Path], columns: Columns, subset: Mapping[str, Any], counts: Counter[str]
) -> Iterator[Row]:
    pairs, seed = subset["pairs"], subset["seed"]
    least = Least(pairs)
    for row in _counted(read_rows(files, columns), counts, "reading"):
        least.add(rank_hash(seed, row.key))
    threshold = least.threshold()
    if threshold is None:
        raise UserError(
            f"{files[0].parent}: a subset of {pairs} pairs is asked for, the list has {least.found()} rows that can be "
            f"used{_left_out(counts)}"
        )
    del least
    good = counts[""] - sum(count for reason, count in counts.items() if reason)
    number = -(-pairs // _BUCKET)
    _fill_buckets(_buckets(folder), files, columns, seed, threshold, number)
    left = pairs
    for bucket in range(number):
        rows = sorted(_bucket_rows(_buckets(folder), bucket, seed))
        before = None
        for _, key, url, caption, place in rows:
            if (key, url, caption) == before:
                counts[SAME_AGAIN] += 1
                continue
            before = (key, url, caption)
            if left:
                left -= 1
                yield Row(place, key, url, caption)
    counts[NOT_CHOSEN] = good - pairs - counts[SAME_AGAIN]


def _left_out(counts: Mapping[str, int]) -> str:
    told = [f"{count} {reason}" for reason, count in sorted(counts.items()) if reason]
    return f" (left out: {', '.join(told)})" if told else ""


def _buckets(folder: Path) -> Path:
    return folder / "plan" / "buckets"


def _fill_buckets(place: Path, files: Sequence[Path], columns: Columns, seed: int, threshold: int, number: int) -> None:
    """Spread the rows up to the threshold over files by rank, so that each can be sorted in memory."""
    import pyarrow
    from pyarrow import ipc

    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    schema = pyarrow.schema(
        [("number", pyarrow.int64()), *((name, pyarrow.string()) for name in ("key", "url", "caption"))]
    )
    with ExitStack() as stack:
        writers = [
            stack.enter_context(ipc.new_stream(stack.enter_context((place / str(n)).open("wb")), schema))
            for n in range(number)
        ]

        def flush(waiting: list[list[Row]]) -> None:
            for writer, rows in zip(writers, waiting, strict=True):
                if rows:
                    columns_of_rows = [pyarrow.array(list(values)) for values in zip(*rows, strict=True)]
                    writer.write_batch(pyarrow.record_batch(columns_of_rows, schema=schema))
                    rows.clear()

        waiting: list[list[Row]] = [[] for _ in range(number)]
        rows = read_rows(files, columns, only=lambda key: rank_hash(seed, key) <= threshold)
        for count, row in enumerate(_counted(rows, Counter(), "choosing"), 1):
            waiting[rank_hash(seed, row.key) * number // (threshold + 1)].append(row)
            if count % _BUFFERED == 0:
                flush(waiting)
        flush(waiting)


def _bucket_rows(place: Path, bucket: int, seed: int) -> Iterator[tuple[int, str, str, str, int]]:
    """(rank, key, url, caption, number in the list): sorted, their order does not depend on the list's."""
    from pyarrow import ipc

    with (place / str(bucket)).open("rb") as file, ipc.open_stream(file) as stream:
        for batch in stream:
            for number, key, url, caption in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                yield rank_hash(seed, key), key, url, caption, number


# --- parts -----------------------------------------------------------------------------------------------------------


def _write_parts(folder: Path, rows: Iterator[Row], rows_per_shard: int) -> Iterator[dict[str, Any]]:
    import pyarrow
    import pyarrow.parquet

    shard = 0
    while chunk := list(islice(rows, rows_per_shard)):
        first = shard * rows_per_shard
        planned = [Planned(first + n, row.number, row.key, row.url, row.caption) for n, row in enumerate(chunk)]
        table = pyarrow.table(
            {name: list(values) for name, values in zip(Planned._fields, zip(*planned, strict=True), strict=True)}
        )
        path = part_file(folder, shard)
        with atomic_path(path) as temporary:
            pyarrow.parquet.write_table(table, temporary)
        yield {"rows": len(planned), "bytes": path.stat().st_size, "sha256": rows_digest(planned)}
        shard += 1


def rows_digest(rows: Iterable[Sequence[Any]]) -> str:
    """sha256 of planned rows, whatever file format holds them."""
    digest = hashlib.sha256()
    for row in rows:
        digest.update(json.dumps(list(row)).encode() + b"\n")
    return digest.hexdigest()
