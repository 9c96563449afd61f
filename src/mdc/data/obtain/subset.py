"""The rows of a list, or the first N of them, in an order that depends only on a seed and their URLs.

A row's rank is a keyed hash of its URL as it is listed (pandas' variant of SipHash; the seed gives the key); ties are sorted by
URL, caption, key and hash. So the order is independent of the list's order and of other rows, a smaller subset is the beginning
of every larger one, and the captions of one image are adjacent.

The list is read once. Its number of rows is known or estimated, and gives a bound of the rank below which a few more than N
rows are expected. Those are kept on disk, split by ranges of the rank, and one range is sorted at a time. If too few are below
the bound, the list is read again for those above it. Memory: the rows of two ranges of 250,000 rows, or of a 512th of the rows
kept; disk: a quarter more rows than are chosen.
"""

import hashlib
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from mdc.data.obtain.reasons import NOT_CHOSEN, SAME_AGAIN, left_out
from mdc.data.obtain.seals import need_unchanged
from mdc.data.obtain.url_list import Choose, Columns, good_rows, row_schema, rows_about
from mdc.plan.progress import progress
from mdc.plan.records import UserError

RANK = "pandas.util.hash_array of the URL as listed"
_LAST = (1 << 64) - 1  # the largest rank
_SLACK, _SPARE = 1.25, 1000  # factor, and rows, that are kept beyond the requested ones
_RANGE, _RANGES = 250_000, 512  # rows of a range; ranges at most


def ranks_of(urls: Any, seed: int) -> Any:
    """The ranks of a pyarrow array of URLs, as uint64."""
    import pyarrow
    from pandas.util import hash_array

    key = hashlib.blake2b(str(seed).encode(), digest_size=8).hexdigest()
    values = urls.cast(pyarrow.large_binary()).to_numpy(zero_copy_only=False)  # bytes hash as text does, and faster
    return hash_array(values, hash_key=key, categorize=False)


def ranked_rows(
    place: Path,
    files: Sequence[Path],
    seals: Sequence[Mapping[str, Any]],
    columns: Columns,
    subset: Mapping[str, Any] | None,
    counts: Counter[str],
) -> Iterator[Any]:
    """Tables of the rows in order, as of ``good_rows`` (``row`` counted through all files), each pair of URL and caption once:
    those of the subset {pairs, seed}, or all. ``place`` is a folder for temporary files.

    ``counts`` collects the number of all rows under "", and of those left out by reason. UserError if the list has too few rows,
    or if a file changes while it is read.
    """
    about = max(sum(rows_about(file, columns) for file in files), 1)
    pairs, seed = (subset["pairs"], subset["seed"]) if subset else (1 << 62, 0)
    low, high, left, again = 0, _within((pairs * _SLACK + _SPARE) / about), pairs, 0
    bad: Counter[str] = Counter()
    while left and low <= high:
        read: Counter[str] = Counter()
        ranges = max(1, min(_RANGES, round(about * ((high - low + 1) / 2.0**64) / _RANGE)))
        rows = _read(files, seals, columns, about, read, partial(_choose, seed=seed, low=low, high=high))
        width = min((high - low) // ranges + 1, _LAST)
        for table in _by_range(place, rows, low, width):
            new = _first_of_each(table)
            if new.sum() > left:
                new = new[: np.flatnonzero(new)[left - 1] + 1]
            again += len(new) - int(new.sum())
            left -= int(new.sum())
            yield table.slice(0, len(new)).filter(new)
            if not left:
                break
        total = read.pop("")
        bad.update(read)
        low, high = high + 1, _within(max(_SLACK * pairs / max(pairs - left, 1), 1.125) * high / 2.0**64)
    counts.update({"": total, **bad, **({SAME_AGAIN: again} if again else {})})
    if not subset:
        return
    if left:
        message = f"a subset of {pairs} pairs is requested, the list has {pairs - left} usable rows{left_out(counts)}"
        raise UserError(f"{files[0].parent}: {message}")
    counts[NOT_CHOSEN] = total - pairs - again - bad.total()


def _choose(urls: Any, seed: int, low: int, high: int) -> tuple[Any, Any]:
    ranks = ranks_of(urls, seed)
    return ranks, (ranks >= np.uint64(low)) & (ranks <= np.uint64(high))


def _within(share: float) -> int:
    return _LAST if share >= 1 else int(share * 2.0**64)


def _read(
    files: Sequence[Path],
    seals: Sequence[Mapping[str, Any]],
    columns: Columns,
    about: int,
    read: Counter[str],
    choose: Choose,
) -> Iterator[Any]:
    """The chosen rows, numbered through the list."""
    with progress(desc="reading", unit="row", total=about) as bar:
        for file, seal in zip(files, seals, strict=True):
            for table in good_rows(file, columns, read, choose):
                yield table
                bar.update(read[""] - bar.n)
            need_unchanged(file, seal)


def _first_of_each(table: Any) -> Any:
    """Which rows of a sorted table differ from the row before in URL or caption."""
    import pyarrow.compute as pc

    new: Any = np.ones(table.num_rows, dtype=bool)
    for name in ("url", "caption"):
        column = table[name]
        same = pc.equal(column.slice(1), column.slice(0, max(len(column) - 1, 0))).to_numpy(zero_copy_only=False)
        new[1:] = same if name == "url" else ~(new[1:] & same)
    return new


def _by_range(place: Path, tables: Iterator[Any], low: int, width: int) -> Iterator[Any]:
    """The rows in order, a table for each non-empty range of ranks; kept in ``place`` meanwhile, one file per range."""
    import pyarrow
    import pyarrow.compute as pc
    from pyarrow import dataset

    def batches() -> Iterator[Any]:
        for table in tables:
            ranges = ((table["rank"].to_numpy() - np.uint64(low)) // np.uint64(width)).astype(np.int32)
            yield from table.append_column("range", pyarrow.array(ranges)).to_batches()

    shutil.rmtree(place, ignore_errors=True)  # of a killed planning
    place.mkdir(parents=True)
    form = dataset.IpcFileFormat()
    dataset.write_dataset(
        batches(),
        place,
        format=form,
        schema=row_schema().append(pyarrow.field("range", pyarrow.int32())),
        partitioning=dataset.partitioning(pyarrow.schema([("range", pyarrow.int32())])),
        max_partitions=_RANGES + 1,
        max_open_files=_RANGES + 1,
        min_rows_per_group=1 << 14,
        max_rows_per_group=1 << 18,
    )
    by = [(name, "ascending") for name in ("rank", "url", "caption", "key", "hash", "row")]
    for folder in sorted(place.iterdir(), key=lambda path: int(path.name)):
        (batch,) = dataset.dataset(folder, format=form).to_table().combine_chunks().to_batches()
        yield pyarrow.Table.from_batches([batch.take(pc.sort_indices(batch, by))])
