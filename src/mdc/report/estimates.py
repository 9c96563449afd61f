"""Which interval stands beside a number (docs/statistics.md), decided by its seeds and its items.

One seed, or the mean of two: percentile bootstrap over test items, which speaks of these checkpoints only; instead, the
exact interval for one seed's right or wrong answers on one column whose items share nothing. Three seeds or more:
Student's t that counts seeds and test items (see :mod:`mdc.report.statistics.seeds`). All results are in per cent or points.

Every estimate starts from the same generator, so a number does not depend on which others were made before it.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from mdc.plan.records import UserError
from mdc.report.items import ProbeItems
from mdc.report.statistics.bootstrap import Column, level_over_items, percentile, replicate
from mdc.report.statistics.interval import DRAWS, LEVEL, Interval
from mdc.report.statistics.metrics import mean_average_precision
from mdc.report.statistics.seeds import student

#: one encoder a seed, each with its items by column
Group = Sequence[Mapping[str, ProbeItems]]
#: factor and group; their sum is estimated
Terms = Sequence[tuple[float, Group]]

_ROWS = 128
_KEPT = 1024  # scored blocks of resamples, the latest ones: at most 16 MB where 2,000 resamples are drawn


def interval_label(interval: Interval) -> str:
    """How an interval was made, in the words of the tables."""
    only = "this checkpoint only" if interval.seeds == 1 else f"mean of {interval.seeds} seeds"
    match interval.kind:
        case "exact":
            return f"exact (Clopper-Pearson) over test items, {only}"
        case "bootstrap":
            return f"bootstrap over test items, {only}"
        case _:
            return f"t over {interval.seeds} seeds and test items"


class Estimator:
    """``draws``: bootstrap resamples. ``level``: of the intervals."""

    def __init__(self, draws: int = DRAWS, level: float = LEVEL) -> None:
        self._draws, self._level = draws, level
        self._memo: OrderedDict[tuple[ProbeItems, bytes], NDArray[np.float64]] = OrderedDict()

    def level(self, group: Group, columns: Sequence[str]) -> Interval:
        """Per cent on one column, or the plain mean over several (an Average resamples within each)."""
        terms = [(1.0, group)]
        parts = self._columns(terms, columns)
        if len(group) >= 3:
            return self._over_seeds(terms, columns, parts, contrast=False)
        return level_over_items(parts, self._rng(), self._draws, self._level, len(group)).times(100)

    def difference(self, a: Group, b: Group, columns: Sequence[str]) -> Interval:
        """Points of ``a`` above ``b`` with ``p``, paired by item, and by seed.

        UserError if the two were not tested on the same items.
        """
        return self.combination([(1.0, a), (-1.0, b)], columns)

    def combination(self, terms: Terms, columns: Sequence[str]) -> Interval:
        """Σ factor · level over ``terms`` [(factor, group)], in points, with ``p`` of its being 0.

        A difference has the factors 1 and -1; a least-squares slope those of :func:`mdc.report.statistics.trend.slope_weights`.
        Paired by item, and by seed (the i-th member of each group). UserError if the groups have unlike numbers of seeds
        or were not tested on the same items.
        """
        seeds = len(terms[0][1])
        parts = self._columns(terms, columns)
        if seeds >= 3:
            return self._over_seeds(terms, columns, parts, contrast=True)
        found = replicate(parts, self._rng(), self._draws)
        return percentile(found, self._level, contrast=True, seeds=seeds).times(100)

    def value(self, items: ProbeItems) -> float:
        """One encoder's share of 1 on one column."""
        if items.value is not None:
            return Column(items.value, items.n, items.groups, items.parts).value
        return float(self._resampled(items, np.ones((1, items.n)))[0])

    def _rng(self) -> np.random.Generator:
        return np.random.default_rng(0)

    def _over_seeds(self, terms: Terms, columns: Sequence[str], parts: Sequence[Column], contrast: bool) -> Interval:
        per_seed = np.zeros(len(terms[0][1]))
        for factor, group in terms:
            per_seed += [factor * np.mean([self.value(member[name]) for name in columns]) for member in group]
        items = replicate(parts, self._rng(), self._draws)
        return student(per_seed, items.components(), items.n, self._level, contrast, draws=len(items.whole)).times(100)

    def _columns(self, terms: Terms, names: Sequence[str]) -> list[Column]:
        """The sum over ``terms``, averaged over seeds, by column: multi-label ones first, so that their resamples start
        from a fresh generator whatever the others draw (see the memo)."""
        first = terms[0][1]
        for _, group in terms:
            if len(group) != len(first):
                raise UserError(f"a comparison needs as many seeds on both sides, not {len(first)} and {len(group)}")
        for name in names:
            one = first[0][name]
            same = (one.ids, one.groups, one.parts)
            if any((m[name].ids, m[name].groups, m[name].parts) != same for _, group in terms for m in group):
                raise UserError(f"benchmark {name}: the encoders to compare were not tested on the same items")
        return [
            self._column([(factor, member[name]) for factor, group in terms for member in group], len(first))
            for name in sorted(names, key=lambda name: first[0][name].value is not None)
        ]

    def _column(self, weighted: Sequence[tuple[float, ProbeItems]], seeds: int) -> Column:
        first = weighted[0][1]
        if first.value is not None:
            values = np.zeros(first.n)
            for factor, items in weighted:
                values += factor * np.asarray(items.value)
            return Column(values / seeds, first.n, first.groups, first.parts)

        def statistic(counts: NDArray[np.float64]) -> NDArray[np.float64]:
            total = np.zeros(len(counts))
            for factor, items in weighted:
                total += factor * self._resampled(items, counts)
            return total / seeds

        return Column(statistic, first.n, first.groups)

    def _resampled(self, items: ProbeItems, counts: NDArray[np.float64]) -> NDArray[np.float64]:
        """What is no mean over items on resamples ``counts`` (R, N): (R,)."""
        return self._average_precision(items, counts) if items.statistic is None else items.statistic(counts)

    def _average_precision(self, items: ProbeItems, counts: NDArray[np.float64]) -> NDArray[np.float64]:
        """Mean average precision (R,) on resamples ``counts`` (R, N).

        The same resamples come back for every comparison that an encoder takes part in, and scoring them is slow, so the
        latest ``_KEPT`` results are kept.
        """
        key = (items, hashlib.blake2b(counts.tobytes(), digest_size=16).digest())
        if key in self._memo:
            self._memo.move_to_end(key)
            return self._memo[key]
        scores, targets = np.asarray(items.scores), np.asarray(items.targets)
        # a few resamples at a time stay in the processor's cache
        parts = [
            mean_average_precision(scores, targets, counts[start : start + _ROWS])
            for start in range(0, len(counts), _ROWS)
        ]
        self._memo[key] = np.concatenate(parts).astype(np.float64)
        if len(self._memo) > _KEPT:
            self._memo.popitem(last=False)
        return self._memo[key]
