"""Resamples of test items in which the items of one group, such as those of one image, are always drawn together.

G groups are drawn G times with replacement, each with the same chance (Efron & Tibshirani, An Introduction to the
Bootstrap, 1993, sections 6 and 8; for groups: Davison & Hinkley, Bootstrap Methods and their Application, 1997, section 3.8).
Without labels every item is a group of its own.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterator, Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from mdc.plan.records import UserError

Floats = NDArray[np.float64]

_CELLS = 4_000_000  # numbers drawn at once: 32 MB


class Resampler:
    """``draws`` resamples of items whose labels are ``groups`` (N,), or of ``items`` items without labels (groups None).

    Columns that share images give one resampler the labels of all of them and take their own counts with :meth:`places`.
    UserError with fewer than two groups: they have no variance to resample.
    """

    def __init__(
        self,
        groups: Sequence[Hashable] | None,
        draws: int,
        rng: np.random.Generator,
        items: int | None = None,
    ) -> None:
        if (groups is None) == (items is None):
            raise UserError("resampling: give the items' groups, or their number")
        if draws < 1:
            raise UserError(f"draws: {draws}, must be 1 or more")
        labels: Sequence[Hashable] = range(items or 0) if groups is None else groups
        self._place = {label: place for place, label in enumerate(dict.fromkeys(labels))}
        self._rng = rng
        self.draws = draws
        if self.units < 2:
            raise UserError(f"resampling: {len(labels)} items in {self.units} group; two groups are needed")

    @property
    def units(self) -> int:
        """How many groups are drawn, each time anew: G."""
        return len(self._place)

    def places(self, groups: Sequence[Hashable]) -> NDArray[np.intp]:
        """Where the group of each item stands in a row of :meth:`drawn`, (N,)."""
        return np.array([self._place[label] for label in groups], dtype=np.intp)

    def drawn(self, width: int = 0) -> Iterator[Floats]:
        """How often each group occurs in each resample: blocks (r, G) of together ``draws`` rows.

        ``r`` is such that a block (r, max(G, ``width``)) fits in memory; it decides nothing about the numbers.
        """
        for rows in chunks(self.draws, max(width, self.units)):
            counts, after = _counts(json.dumps(self._rng.bit_generator.state), self.units, rows)
            self._rng.bit_generator.state = json.loads(after)
            yield counts


@lru_cache(maxsize=4)  # every estimate starts from the same generator, so the same draw is asked for again and again
def _counts(state: str, units: int, rows: int) -> tuple[Floats, str]:
    """How often each of ``units`` groups occurs in ``rows`` resamples by a generator in this ``state``, and its state after."""
    before = json.loads(state)
    rng = np.random.Generator(getattr(np.random, before["bit_generator"])())
    rng.bit_generator.state = before
    # rows * G picks, counted by row
    picks = rng.integers(0, units, size=(rows, units))
    picks += units * np.arange(rows)[:, None]
    counts = np.bincount(picks.ravel(), minlength=picks.size).reshape(picks.shape).astype(np.float64)
    counts.flags.writeable = False
    return counts, json.dumps(rng.bit_generator.state)


def chunks(draws: int, width: int) -> Iterator[int]:
    """Row counts that add up to ``draws``, each of at most ``_CELLS`` cells (or one row)."""
    most = max(1, _CELLS // width)
    for start in range(0, draws, most):
        yield min(most, draws - start)
