"""A batch in parts, each no longer than its own captions need."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise


def trimmed(longest: int, available: int, multiple: int = 8) -> int:
    """A length that holds the longest caption, rounded up so that few shapes occur, within what is there."""
    return min(-(-longest // multiple) * multiple, available)


def slices(size: int, parts: int) -> Iterator[slice]:
    """``parts`` slices of nearly equal length that cover range(size)."""
    edges = [size * i // parts for i in range(parts + 1)]
    return (slice(a, b) for a, b in pairwise(edges))
