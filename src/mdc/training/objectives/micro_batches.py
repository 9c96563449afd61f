"""Micro-batches, trimmed to their longest caption."""

from collections.abc import Iterator
from itertools import pairwise


def trimmed(longest: int, available: int) -> int:
    """The longest caption's length, rounded up to a multiple of 8 so that few shapes occur, at most ``available``."""
    return min(-(-longest // 8) * 8, available)


def slices(size: int, parts: int) -> Iterator[slice]:
    """``parts`` slices of nearly equal length that cover range(size)."""
    edges = [size * i // parts for i in range(parts + 1)]
    return (slice(a, b) for a, b in pairwise(edges))
