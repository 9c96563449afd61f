"""A random subset of a list that depends on nothing but a seed and the rows' keys.

The rows with the N least hashes of (seed, key) (mdc.data.formats.rank) are a subset of size N; for one seed a smaller one lies in
every larger one. Neither the order of the list, nor other rows, nor what could be downloaded moves a row in or out.

The list is read once. How many rows it has is known before, or can be guessed, and so is a bound of the hash that a few
more than N rows lie below: those are kept, by file, in sorted runs, and merged range by range of the hash. If too few lie
below the bound (many keys stand there twice, say), it is raised and the list is read again. Memory holds a run or a range
(100,000 rows, some 100 MB), however long the list and the subset are; on disk lie, until the plan is made, a quarter
more rows than the subset has, with their texts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from mdc.data.formats.rank import rank_hash
from mdc.data.obtain.reading import Keeper, Kept, read_files
from mdc.data.obtain.reasons import NOT_CHOSEN, SAME_AGAIN, left_out
from mdc.data.obtain.url_list import Columns, Row, rows_about
from mdc.plan.records import UserError

_LAST = (1 << 64) - 1  # the largest hash
_SLACK, _SPARE = 1.25, 1000  # that many times the rows, and rows more, are kept at first
_SORTED = 100_000  # rows that are sorted at once
_LONG = 1 << 26  # characters of text in a run


def chosen_rows(
    place: Path,
    files: Sequence[Path],
    seals: Sequence[Mapping[str, Any]],
    columns: Columns,
    subset: Mapping[str, Any],
    counts: Counter[str],
) -> Iterator[Row]:
    """The rows of the subset {pairs, seed} in the order of rank; what was read lies in ``place``.

    ``counts`` takes all rows under "", those that cannot be used by reason, and those that were not chosen. Of rows that
    are alike in key, url and caption the first is taken. UserError if there are not as many.
    """
    pairs, seed = subset["pairs"], subset["seed"]
    bound = _within((pairs * _SLACK + _SPARE) / max(sum(rows_about(file, columns) for file in files), 1) * 2.0**64)
    while True:
        keeper = Keeper(f"ranks and hashes of seed {seed}", bound, ".arrow", partial(_keep, seed=seed, bound=bound))
        kept = read_files(place, files, seals, columns, keeper)
        threshold, found = _threshold(kept, bound, pairs)
        if threshold is not None or bound == _LAST:
            break
        bound = _within(bound * max(_SLACK * pairs / max(found, 1), 1.0 + 1 / 8))
    for one in kept:
        counts.update({"": one.rows, **one.bad})
    if threshold is None:
        raise UserError(
            f"{files[0].parent}: a subset of {pairs} pairs is requested, the list has {found} usable rows{left_out(counts)}"
        )
    left = pairs
    for row in _different(kept, bound, threshold, counts):
        if left:
            left -= 1
            yield row
    counts[NOT_CHOSEN] = sum(one.good for one in kept) - pairs - counts[SAME_AGAIN]


def _within(bound: float) -> int:
    return _LAST if bound >= 2.0**64 else int(bound)


def _keep(rows: Iterator[Row], path: Path, seed: int, bound: int) -> None:
    """The rows up to the bound with their ranks, sorted run by run: an arrow file, a record batch a run."""
    import pyarrow
    from pyarrow import ipc

    texts = [(name, pyarrow.string()) for name in ("key", "url", "caption", "sha256")]
    schema = pyarrow.schema([("rank", pyarrow.uint64()), *texts, ("number", pyarrow.int64())])
    run: list[tuple[int, str, str, str, str, int]] = []
    length = 0
    with path.open("wb") as file, ipc.new_file(file, schema) as writer:

        def flush() -> None:
            run.sort()
            listed = map(list, zip(*run, strict=True))
            values = [pyarrow.array(column, kind) for column, kind in zip(listed, schema.types, strict=True)]
            writer.write_batch(pyarrow.record_batch(values, schema=schema))
            run.clear()

        for number, key, url, caption, sha256 in rows:
            rank = rank_hash(seed, key)
            if rank <= bound:
                run.append((rank, key, url, caption, sha256, number))
                length += len(key) + len(url) + len(caption)
                if len(run) == _SORTED or length > _LONG:
                    flush()
                    length = 0
        if run:
            flush()


def _ranges(kept: Sequence[Kept], bound: int) -> Iterator[tuple[int, int]]:
    """(first, last) of ranges of the hash up to the bound that hold about ``_SORTED`` rows each."""
    number = max(1, round(sum(one.good for one in kept) * (bound / _LAST) / _SORTED))
    bounds = [(bound + 1) * n // number for n in range(number + 1)]
    return ((low, high - 1) for low, high in pairwise(bounds))


def _between(kept: Sequence[Kept], first: int, last: int) -> Iterator[tuple[Kept, Any]]:
    """What each run holds of a range, as a record batch over the mapped file: it ends with the step."""
    import pyarrow
    from pyarrow import ipc

    ends = np.array([first, last], dtype=np.uint64)
    for one in kept:
        # opened for each range anew: what stays mapped counts as this process's memory
        with pyarrow.memory_map(str(one.path)) as file, ipc.open_file(file) as runs:
            for number in range(runs.num_record_batches):
                run = runs.get_batch(number)
                ranks = run.column(0).to_numpy()
                begin, end = (int(np.searchsorted(ranks, ends[i], "left" if i == 0 else "right")) for i in (0, 1))
                if begin < end:
                    yield one, run.slice(begin, end - begin)


def _threshold(kept: Sequence[Kept], bound: int, pairs: int) -> tuple[int | None, int]:
    """The rank that ``pairs`` different ranks do not exceed, None if there are fewer; how many were found."""
    found = 0
    for first, last in _ranges(kept, bound):
        parts = [np.array(part.column(0).to_numpy()) for _, part in _between(kept, first, last)]
        ranks = np.unique(np.concatenate(parts)) if parts else np.empty(0, dtype=np.uint64)
        if found + len(ranks) >= pairs:
            return int(ranks[pairs - found - 1]), pairs
        found += len(ranks)
    return None, found


def _different(kept: Sequence[Kept], bound: int, threshold: int, counts: Counter[str]) -> Iterator[Row]:
    """All rows up to the threshold by (rank, key, url, caption, sha256), which no order of the list changes; each once."""
    for first, last in _ranges(kept, bound):
        if first > threshold:
            return
        rows = [
            (*texts, one.first + number)
            for one, part in _between(kept, first, min(last, threshold))
            for *texts, number in zip(*(column.to_pylist() for column in part.columns), strict=True)
        ]
        rows.sort()
        before = None
        for _, key, url, caption, sha256, number in rows:
            if (key, url, caption) == before:
                counts[SAME_AGAIN] += 1
                continue
            before = (key, url, caption)
            yield Row(number, key, url, caption, sha256)
