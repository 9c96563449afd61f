"""The rows of a list that will be requested, and their order: one file per shard, fixed before the first download.

``<folder>/plan/part-NNNNN.parquet`` has the rows of shard NNNNN: ``place`` (from 0, through all shards), ``row`` of the
list, ``source_key`` ("" if the list has no keys), ``url``, ``caption``, and ``listed_sha256`` if the list has a column of hashes.

The order depends only on a seed and the URLs: by rank (mdc.data.obtain.url_list), then URL, caption, key and hash. So it is
independent of the list's order and of other rows, a smaller subset is the beginning of every larger one, and the captions of one
image are adjacent. Exact duplicates (same url, as listed, and caption) are left out after the first.

The list is read once. Its number of rows is known or estimated, and gives a bound of the rank below which a few more rows are
expected than are requested. These are kept on disk, split by ranges of the rank, and one range is sorted at a time. If too few
are below the bound, the list is read again for those above it. Rows that are not of the subset are not checked. Memory: the rows
of two ranges of 250,000 rows, or of a 512th of the rows kept; disk: a quarter more rows than are chosen.

``plan/list/`` has the hash of each file of the list (mdc.data.obtain.seals), and stays. ``plan/reading/`` has the rows read so
far, and is removed when the plan is complete; a killed planning reads the list again. Parts that are right are not rewritten.
"""

import hashlib
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from mdc.data.formats.parquet_file import read_parquet
from mdc.data.obtain.reasons import NOT_CHOSEN, SAME_AGAIN, left_out
from mdc.data.obtain.seals import need_unchanged, seal_files
from mdc.data.obtain.url_list import LAST, RANK, Columns, good_rows, rows_about
from mdc.plan.progress import progress
from mdc.plan.records import UserError, atomic_path, clear_leftovers, read_json, write_json

PLAN = "plan.json"
#: settings that shape a shard's content: they must be the same for the whole folder
SHAPING = (
    *("image_size", "rows_per_shard", "max_bytes", "min_image_size", "max_pixels", "max_aspect", "quality"),
    "respect_robots",
)
#: the sha256 that the list has for a row's image, "" if none: a column only of lists that have one
LISTED_SHA256 = "listed_sha256"
_SLACK, _SPARE = 1.25, 1000  # factor, and rows, that are kept beyond the requested ones
_RANGE, _RANGES = 250_000, 512  # rows of a range; ranges at most


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
    settings, if the list has fewer rows than the subset, or if a file changes while it is read.
    """
    place = folder / "plan"
    existing = read_json(place / PLAN) if (place / PLAN).exists() else None
    seals = seal_files(place / "list", files)
    listed = [
        {"file": file.name, **{key: seal[key] for key in ("bytes", "sha256")}}
        for file, seal in zip(files, seals, strict=True)
    ]
    wanted = {
        **{"list": listed, "columns": asdict(columns), "subset": dict(subset) if subset else None, "rank": RANK},
        "shape": {name: download[name] for name in SHAPING},
    }
    if existing is not None:
        _same_pairs(folder, existing["asked"], wanted)
        whole = (_size(part_file(folder, shard)) == part["bytes"] for shard, part in enumerate(existing["parts"]))
        if existing["asked"] == wanted and all(whole):
            shutil.rmtree(place / "reading", ignore_errors=True)  # of a run that was killed right before
            return existing
    clear_leftovers(place)
    counts: Counter[str] = Counter()
    tables = _ordered_rows(place / "reading", dict(zip(files, seals, strict=True)), columns, subset, counts)
    known = existing["parts"] if existing else []
    parts = list(_write_parts(folder, tables, download["rows_per_shard"], columns.hash is not None, known))
    total = counts.pop("", 0)
    if not parts:
        raise UserError(f"{files[0].parent}: none of the list's {total} rows is usable{left_out(counts)}")
    plan = {
        **{"kind": "plan", "asked": wanted, "rows": total, "left_out": dict(sorted(counts.items()))},
        **{"chosen": sum(part["rows"] for part in parts), "parts": parts},
    }
    write_json(place / PLAN, plan)
    shutil.rmtree(place / "reading", ignore_errors=True)
    return plan


def _same_pairs(folder: Path, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
    """UserError if the list, its columns or settings differ from the folder's: only the size of its subset may grow."""
    before, now = old["subset"] or {}, new["subset"] or {}
    shape = [name for name, value in new["shape"].items() if old["shape"].get(name) != value]
    if old["list"] != new["list"] or old["columns"] != new["columns"]:
        problem = "was made from a different list or different columns"
    elif old["rank"] != new["rank"]:
        problem = f"was planned by {old['rank']}, now it is {new['rank']}: another order"
    elif shape:
        problem = f"was made with {shape[0]} {old['shape'].get(shape[0])}, now it is {new['shape'][shape[0]]}"
    elif before.get("seed") != now.get("seed"):
        problem = f"was made with subset {before}, now it is {now}: different rows, or a different order"
    elif before and now["pairs"] < before["pairs"]:
        problem = (
            f"contains a subset of {before['pairs']} pairs, {now['pairs']} are requested; keep the larger and set "
        )
        problem += f"pairs: {now['pairs']} in the corpus's source"
    else:
        return
    raise UserError(f"{folder}: {problem}; use a different path for this dataset or delete the folder")


def _size(path: Path) -> int:
    return path.stat().st_size if path.is_file() else 0


# --- order -----------------------------------------------------------------------------------------------------------


def _ordered_rows(
    place: Path, files: Mapping[Path, Any], columns: Columns, subset: Mapping[str, Any] | None, counts: Counter[str]
) -> Iterator[Any]:
    """Tables of the subset's rows, or of all, in order. ``files`` have their seals.

    ``counts`` collects the number of all rows under "", and of those left out by reason.
    """
    about = max(sum(rows_about(file, columns) for file in files), 1)
    pairs, seed = (subset["pairs"], subset["seed"]) if subset else (1 << 62, 0)
    low, high, left = 0, _within((pairs * _SLACK + _SPARE) / about), pairs
    while left and low <= high:
        counts[""] = 0
        ranges = max(1, min(_RANGES, round(about * ((high - low + 1) / 2.0**64) / _RANGE)))
        batches = (good_rows(file, columns, counts, seed, low, high) for file in files)
        rows = _read(zip(files.items(), batches, strict=True), counts, about)
        for table in _by_range(place, rows, low, min((high - low) // ranges + 1, LAST)):
            new = _first_of_each(table)
            if new.sum() > left:
                new = new[: np.flatnonzero(new)[left - 1] + 1]
            left -= int(new.sum())
            counts[SAME_AGAIN] += int((~new).sum())
            yield table.slice(0, len(new)).filter(new)
            if not left:
                break
        low, high = high + 1, _within(max(_SLACK * pairs / max(pairs - left, 1), 1.125) * high / 2.0**64)
    counts += Counter()  # without zeros
    if subset and left:
        message = f"a subset of {pairs} pairs is requested, the list has {pairs - left} usable rows{left_out(counts)}"
        raise UserError(f"{next(iter(files)).parent}: {message}")
    if subset:
        counts[NOT_CHOSEN] = 2 * counts[""] - counts.total() - pairs


def _within(share: float) -> int:
    return LAST if share >= 1 else int(share * 2.0**64)


def _read(read: Iterable[Any], counts: Counter[str], about: int) -> Iterator[list[tuple[Any, ...]]]:
    """The batches of each file's rows. UserError if a file changes meanwhile."""
    with progress(desc="reading", unit="row", total=about) as bar:
        for (file, seal), batches in read:
            for rows in batches:
                yield rows
                bar.update(counts[""] - bar.n)
            need_unchanged(file, seal)


def _first_of_each(table: Any) -> Any:
    """Which rows of a sorted table differ from the row before in URL or caption."""
    import pyarrow.compute as pc

    new: Any = np.zeros(table.num_rows, dtype=bool)
    new[:1] = True
    for name in ("url", "caption"):
        column = table[name]
        new[1:] |= pc.not_equal(column.slice(1), column.slice(0, max(len(column) - 1, 0))).to_numpy()
    return new


def _by_range(place: Path, batches: Iterable[list[tuple[Any, ...]]], low: int, width: int) -> Iterator[Any]:
    """The rows in order, a table for each non-empty range of ranks; kept in ``place`` meanwhile, one file per range."""
    import pyarrow
    import pyarrow.compute as pc
    from pyarrow import dataset

    texts = [(name, pyarrow.string()) for name in ("url", "caption", "key", "hash")]
    schema = pyarrow.schema([("rank", pyarrow.uint64()), *texts, ("row", pyarrow.int64()), ("range", pyarrow.int32())])

    def tables() -> Iterator[Any]:
        for rows in filter(None, batches):
            values = dict(zip(schema.names, zip(*rows, strict=True), strict=False))
            ranges = [(rank - low) // width for rank in values["rank"]]
            yield from pyarrow.Table.from_pydict(values | {"range": ranges}, schema).to_batches()

    shutil.rmtree(place, ignore_errors=True)  # of a killed planning
    place.mkdir(parents=True)
    form, by = dataset.IpcFileFormat(), dataset.partitioning(pyarrow.schema([schema.field("range")]))
    sizes = {"min_rows_per_group": 1 << 14, "max_rows_per_group": 1 << 18, "max_partitions": _RANGES + 1}
    sizes["max_open_files"] = _RANGES + 1
    dataset.write_dataset(tables(), place, format=form, schema=schema, partitioning=by, **sizes)
    order = [(name, "ascending") for name in ("rank", "url", "caption", "key", "hash", "row")]
    for folder in sorted(place.iterdir(), key=lambda path: int(path.name)):
        (batch,) = dataset.dataset(folder, format=form).to_table().combine_chunks().to_batches()
        yield pyarrow.Table.from_batches([batch.take(pc.sort_indices(batch, order))])


# --- parts -----------------------------------------------------------------------------------------------------------


def _write_parts(
    folder: Path, tables: Iterator[Any], rows_per_shard: int, hashed: bool, known: Sequence[Mapping[str, Any]]
) -> Iterator[dict[str, Any]]:
    """The plan's parts, whose files are written unless they are the ``known`` ones."""
    import pyarrow.parquet

    for shard, table in enumerate(_cut(tables, rows_per_shard)):
        first = shard * rows_per_shard
        places = pyarrow.array(range(first, first + table.num_rows))
        columns = {"place": places, "row": table["row"], "source_key": table["key"], "url": table["url"]}
        columns |= {"caption": table["caption"]} | ({LISTED_SHA256: table["hash"]} if hashed else {})
        planned = pyarrow.table(columns)
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
        texts = str(column.type) == "string"
        numbers = (pc.binary_length(column) if texts else column).to_numpy()
        digest.update(f"{name}\0".encode() + numbers.astype("<i8").tobytes())
        digest.update("".join(column.to_pylist()).encode() if texts else b"")
    return digest.hexdigest()
