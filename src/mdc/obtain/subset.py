"""A random subset of a list that depends on nothing but a seed and the rows' keys.

The rows with the N least hashes of (seed, key) (mdc.formats.rank) are a subset of size N; for one seed a smaller one lies in
every larger one. Neither the order of the list, nor other rows, nor what could be downloaded moves a row in or out.
"""

from __future__ import annotations

from typing import Any

import numpy as np

_SPARE = 1 << 16  # hashes collected beyond 2 N before they are sorted


class Least:
    """The ``count`` least distinct of all numbers added (below 2^64), in memory for 2 · count of them."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._kept = np.empty(2 * count + _SPARE, dtype=np.uint64)
        self._used = 0
        self._threshold = (1 << 64) - 1

    def add(self, number: int) -> None:
        if number > self._threshold:
            return
        if self._used == len(self._kept):
            self._prune()
        self._kept[self._used] = number
        self._used += 1

    def threshold(self) -> int | None:
        """The largest of them; None if fewer than ``count`` distinct numbers were added."""
        self._prune()
        return self._threshold if self._used == self._count else None

    def found(self) -> int:
        """How many distinct numbers there are, at most ``count``."""
        self._prune()
        return self._used

    def _prune(self) -> None:
        least: Any = np.unique(self._kept[: self._used])[: self._count]
        self._used = len(least)
        self._kept[: self._used] = least
        if self._used == self._count:
            self._threshold = int(least[-1])
