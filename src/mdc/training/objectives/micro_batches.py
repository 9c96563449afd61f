"""Micro-batches, trimmed to their longest caption, and functions over all their tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import fields, is_dataclass
from itertools import pairwise
from typing import Any, TypeVar

from torch import Tensor

T = TypeVar("T")


def trimmed(longest: int, available: int, multiple: int = 8) -> int:
    """The longest caption's length, rounded up to a ``multiple`` so that few shapes occur, at most ``available``."""
    return min(-(-longest // multiple) * multiple, available)


def slices(size: int, parts: int) -> Iterator[slice]:
    """``parts`` slices of nearly equal length that cover range(size)."""
    edges = [size * i // parts for i in range(parts + 1)]
    return (slice(a, b) for a, b in pairwise(edges))


def each_tensor(value: T, change: Callable[[Tensor], Tensor]) -> T:
    """``value`` with ``change`` applied to every tensor in it: itself, or in lists, dictionaries, named tuples and
    dataclasses."""
    changed: Any = value
    if isinstance(value, Tensor):
        changed = change(value)
    elif isinstance(value, dict):
        changed = {name: each_tensor(item, change) for name, item in value.items()}
    elif isinstance(value, list):
        changed = [each_tensor(item, change) for item in value]
    elif isinstance(value, tuple):  # a named one
        changed = type(value)(*(each_tensor(item, change) for item in value))
    elif is_dataclass(value):
        changed = copy(value)
        for field in fields(value):
            object.__setattr__(changed, field.name, each_tensor(getattr(value, field.name), change))
    return changed
