"""A whole list in its own order, each pair of url and caption once.

It is read twice: the first reading keeps 8 bytes of each row's hash, by file, and is not done again after a kill; the
second yields the rows. Memory holds the hashes of one file, then 17 bytes for each hash that occurs twice.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from mdc.data.obtain.reading import Keeper, Kept, read_files
from mdc.data.obtain.reasons import SAME_AGAIN
from mdc.data.obtain.seals import need_unchanged
from mdc.data.obtain.url_list import Columns, Row, pair_digest, read_rows
from mdc.plan.progress import progress

_SORTED = 4_000_000  # hashes that are compared at once
_CHUNK = 8192  # rows that are looked up at once


def all_rows(
    place: Path,
    files: Sequence[Path],
    seals: Sequence[Mapping[str, Any]],
    columns: Columns,
    counts: Counter[str],
) -> Iterator[Row]:
    """The good rows of the list; what was read of it lies in ``place``.

    ``counts`` takes all rows under "", those that cannot be used by reason, and duplicates. UserError if a file changes.
    """
    kept = read_files(place, files, seals, columns, Keeper("hashes of pairs", 0, ".npy", _keep))
    for one in kept:
        counts.update({"": one.rows, **one.bad})
    repeats = _Repeats(_repeated(kept))
    rows = (row for row in progress(read_rows(files, columns), "planning", unit="row") if isinstance(row, Row))
    while chunk := list(islice(rows, _CHUNK)):
        again = repeats.again(chunk)
        counts.update({SAME_AGAIN: len(again)} if again else {})
        yield from (row for n, row in enumerate(chunk) if n not in again)
    for file, seal in zip(files, seals, strict=True):
        need_unchanged(file, seal)


class _Repeats:
    """Tells which rows were there before; the hashes given to it are those that occur more than once, in order."""

    def __init__(self, hashes: Any) -> None:
        self._hashes = hashes
        self._met = np.zeros(len(hashes), dtype=bool)
        self._rest = np.zeros(len(hashes), dtype=np.uint64)  # the other half of the digest that was met first
        self._others: set[bytes] = set()  # digests that share half of theirs with another one

    def again(self, rows: Sequence[Row]) -> set[int]:
        """Which of the next rows of the list stood there already."""
        if not len(self._hashes):
            return set()
        digests = [pair_digest(row.url, row.caption) for row in rows]
        halves = np.frombuffer(b"".join(digests), dtype=">u8").astype(np.uint64).reshape(-1, 2)
        places = np.minimum(np.searchsorted(self._hashes, halves[:, 0]), len(self._hashes) - 1)
        candidates = np.flatnonzero(self._hashes[places] == halves[:, 0])
        return {int(n) for n in candidates if not self._first(int(places[n]), halves[n, 1], digests[n])}

    def _first(self, place: int, rest: np.uint64, digest: bytes) -> bool:
        if not self._met[place]:
            self._met[place], self._rest[place] = True, rest
            return True
        if self._rest[place] == rest or digest in self._others:
            return False
        self._others.add(digest)
        return True


def _keep(rows: Iterator[Row], path: Path) -> None:
    """The first halves of the rows' digests, sorted."""
    found = array("Q", (int.from_bytes(pair_digest(row.url, row.caption)[:8]) for row in rows))
    hashes: Any = np.frombuffer(found, dtype=np.uint64) if found else np.empty(0, dtype=np.uint64)
    hashes.sort()
    with path.open("wb") as file:
        np.save(file, hashes, allow_pickle=False)


def _repeated(kept: Sequence[Kept]) -> Any:
    """The hashes that occur more than once in all files together, in order."""
    there = [one for one in kept if one.good]
    number = max(1, round(sum(one.good for one in there) / _SORTED))
    found = [np.empty(0, dtype=np.uint64)]
    for n in range(number):
        first, last = (np.uint64((1 << 64) * n // number), np.uint64((1 << 64) * (n + 1) // number - 1))
        parts = []
        for one in there:
            hashes = np.load(one.path, mmap_mode="r", allow_pickle=False)
            parts.append(np.array(hashes[np.searchsorted(hashes, first) : np.searchsorted(hashes, last, "right")]))
        ordered = np.sort(np.concatenate(parts)) if parts else np.empty(0, dtype=np.uint64)
        found.append(np.unique(ordered[1:][ordered[1:] == ordered[:-1]]))
    return np.concatenate(found)
