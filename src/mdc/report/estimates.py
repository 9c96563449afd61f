"""Which interval stands beside a probing number (PROTOCOL "Statistics"), decided by the number of seeds.

One seed: bootstrap over test items, which speaks of this checkpoint only. Two seeds: the mean of both, bootstrap over
test items. Three or more: Student's t over one value a seed, paired by seed. All results are in per cent or points.

Every estimate starts from the same generator, so a number does not depend on which others were made before it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mdc.records import UserError
from mdc.report.items import ProbeItems
from mdc.statistics import intervals as statistics
from mdc.statistics.intervals import Interval

#: (scores (N, K), targets (N, K), counts (R, N)) -> mean average precision (R,), a share of 1
MeanAveragePrecision = Callable[[Any, Any, Any], Any]
#: one encoder a seed, each with its items by benchmark
Group = Sequence[Mapping[str, ProbeItems]]
#: a benchmark as bootstrap_average takes it: values (N,), or a statistic of counts (R, N) with N
Benchmark = NDArray[np.float64] | tuple[statistics.Statistic, int]


_ROWS = 128


def interval_label(seeds: int) -> str:
    """The kind of interval that goes with so many seeds, in the words of the tables."""
    if seeds == 1:
        return "bootstrap over test items, this checkpoint only"
    if seeds == 2:
        return "bootstrap over test items, mean of 2 seeds"
    return f"t over {seeds} seeds"


@dataclass
class Estimator:
    """``draws``: bootstrap resamples. ``seed``: of the resampling. ``mean_average_precision``: for multi-label probes;
    it is handed in because the evaluations stand on a higher floor."""

    draws: int = 2000
    seed: int = 0
    mean_average_precision: MeanAveragePrecision | None = None
    _memo: dict[tuple[ProbeItems, bytes], NDArray[np.float64]] = field(default_factory=dict, repr=False)

    def level(self, group: Group, benchmarks: Sequence[str]) -> Interval:
        """Per cent on one benchmark, or the plain mean over several (an Average resamples within each)."""
        if len(group) >= 3:
            return statistics.t_interval(self._seed_values(group, benchmarks)).times(100)
        parts = [self._benchmark([(1.0, member[name]) for member in group]) for name in _in_order(group, benchmarks)]
        return statistics.bootstrap_average(parts, self._rng(), self.draws).times(100)

    def difference(self, a: Group, b: Group, benchmarks: Sequence[str]) -> Interval:
        """Points of ``a`` above ``b`` with ``p``, paired by item (one or two seeds) or by seed (three or more).

        UserError if the two were not tested on the same items.
        """
        return self.combination([(1.0, a), (-1.0, b)], benchmarks)

    def combination(self, terms: Sequence[tuple[float, Group]], benchmarks: Sequence[str]) -> Interval:
        """Σ factor · level over ``terms`` [(factor, group)], in points, with ``p`` of its being 0.

        A difference has the factors 1 and -1; a least-squares slope those of :func:`mdc.statistics.trend.slope_weights`.
        Paired by item (one or two seeds: each group is the mean of its own) or by seed (three or more). UserError if
        the groups have unlike numbers of seeds or were not tested on the same items.
        """
        first = terms[0][1]
        for _, group in terms:
            if len(group) != len(first):
                raise UserError(f"a comparison needs as many seeds on both sides, not {len(first)} and {len(group)}")
        for name in benchmarks:
            if any(member[name].ids != first[0][name].ids for _, group in terms for member in group):
                raise UserError(f"benchmark {name}: the encoders to compare were not tested on the same items")
        if len(first) >= 3:
            values = np.zeros(len(first))
            for factor, group in terms:
                values += factor * np.array(self._seed_values(group, benchmarks))
            # against nothing: Student's interval with the p of its being 0
            return statistics.t_interval_paired(values, np.zeros(len(values))).times(100)
        parts = [
            self._benchmark([(factor, member[name]) for factor, group in terms for member in group], len(first))
            for name in _in_order(first, benchmarks)
        ]
        return statistics.bootstrap_average(parts, self._rng(), self.draws, contrast=True).times(100)

    def value(self, items: ProbeItems) -> float:
        """One encoder's share of 1 on one benchmark."""
        if items.value is not None:
            return float(items.value.mean())
        return float(self._average_precision(items, np.ones((1, items.n)))[0])

    def _rng(self) -> np.random.Generator:
        return np.random.default_rng(self.seed)

    def _seed_values(self, group: Group, benchmarks: Sequence[str]) -> list[float]:
        return [float(np.mean([self.value(member[name]) for name in benchmarks])) for member in group]

    def _benchmark(self, weighted: list[tuple[float, ProbeItems]], seeds: int | None = None) -> Benchmark:
        """The weighted sum over encoders, divided by ``seeds``, as a thing that can be resampled."""
        divisor = seeds or len(weighted)
        if weighted[0][1].value is not None:
            total = np.zeros(weighted[0][1].n)
            for factor, items in weighted:
                total += factor * np.asarray(items.value)
            return total / divisor

        def statistic(counts: NDArray[np.float64]) -> NDArray[np.float64]:
            total = np.zeros(len(counts))
            for factor, items in weighted:
                total += factor * self._average_precision(items, counts)
            return total / divisor

        return statistic, weighted[0][1].n

    def _average_precision(self, items: ProbeItems, counts: NDArray[np.float64]) -> NDArray[np.float64]:
        if self.mean_average_precision is None:
            raise UserError("a multi-label probe needs mean average precision, and none was given")
        # the same resamples come back for every comparison that an encoder takes part in, and scoring them is slow
        key = (items, hashlib.blake2b(counts.tobytes(), digest_size=16).digest())
        if key not in self._memo:
            # a few resamples at a time stay in the processor's cache
            parts = [
                self.mean_average_precision(items.scores, items.targets, counts[start : start + _ROWS])
                for start in range(0, len(counts), _ROWS)
            ]
            self._memo[key] = np.concatenate(parts).astype(np.float64)
        return self._memo[key]


def _in_order(group: Group, benchmarks: Sequence[str]) -> list[str]:
    """Multi-label first: their resamples then start from a fresh generator whatever the others draw (see the memo)."""
    return sorted(benchmarks, key=lambda name: group[0][name].value is not None)
