"""Weights that are drawn, where an architecture is asked for without training (``weights: random``)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def drawn() -> Iterator[None]:
    """What is built within has the same initial weights each time; the generator of the process is as it was afterwards."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        yield
