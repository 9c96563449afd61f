"""A random subset of a list that depends on nothing but a seed and the rows' keys.

The rows with the N least hashes of (seed, key) are a subset of size N; for one seed a smaller one lies in every larger one.
Neither the order of the list, nor other rows, nor what could be downloaded moves a row in or out.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

_SPARE = 1 << 16  # hashes collected beyond 2 N before they are sorted


def rank_hash(seed: int, key: str) -> int:
    """64 bits (BLAKE2b) that decide the rank of ``key``."""
    # a key that is no text is asked for too, before its row is left out for it
    text = f"{seed}\0{key}".encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest())


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
