"""Intervals, tests and verdicts (PROTOCOL "Statistics").

One seed: percentile bootstrap over test items, which speaks of this checkpoint only. Three seeds or more: Student's t
over one value a seed, paired by seed. Everything keeps the unit of what it is given (``Interval.times(100)`` turns
shares into points); all intervals are two-sided at 95 % unless ``level`` says otherwise.

A bootstrap resample of N items enters a mean only through how often each distinct value occurs, and those frequencies
are multinomial over the distinct values: drawing them instead of N items is the same distribution exactly, and for
right-or-wrong items costs two numbers a resample.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mdc.records import UserError

Floats = NDArray[np.float64]
#: counts (R, N) of each item in each resample -> the statistic of each resample (R,)
Statistic = Callable[[Floats], Floats]
Verdict = Literal["held", "comparable", "cannot be told"]

_CELLS = 4_000_000  # numbers drawn at once: 32 MB


@dataclass(frozen=True)
class Interval:
    """A value with its interval.

    ``n``: the items or seeds behind it; ``p``: for contrasts, two-sided p-value of the value being 0, else None.
    """

    value: float
    low: float
    high: float
    n: int
    kind: Literal["items", "seeds"]
    p: float | None = None

    def times(self, factor: float) -> Interval:
        """The same in another unit; ``factor`` above 0, for example 100 from shares to points."""
        return replace(self, value=self.value * factor, low=self.low * factor, high=self.high * factor)


# --- bootstrap over items -------------------------------------------------------------------------------------------


def bootstrap_mean(per_item: ArrayLike, rng: np.random.Generator, draws: int = 2000, level: float = 0.95) -> Interval:
    """Mean of ``per_item`` (N,) with the percentile interval of the mean over ``draws`` resamples of the items."""
    values = _values(per_item)
    return _percentile(values.mean(), _mean_draws(values, rng, draws), len(values), level)


def bootstrap_paired(
    a: ArrayLike, b: ArrayLike, rng: np.random.Generator, draws: int = 2000, level: float = 0.95
) -> Interval:
    """Mean of a - b over the same items, (N,) each, with ``p``."""
    values = _difference(a, b)
    return _percentile(values.mean(), _mean_draws(values, rng, draws), len(values), level, contrast=True)


def bootstrap_statistic(
    statistic: Statistic,
    n_items: int,
    rng: np.random.Generator,
    draws: int = 2000,
    level: float = 0.95,
    contrast: bool = False,
) -> Interval:
    """Any statistic of resampled items, for example
    ``lambda counts: mean_average_precision(scores, targets, counts)``; for a paired contrast give the difference of two
    such calls on the same ``counts`` and ``contrast=True``, which adds ``p``.

    Resamples on which the statistic is not defined (NaN) are left out; UserError if it is not defined on the items. The
    bootstrap's own estimate of the statistic's bias is taken off the replicates, so the interval lies around the value.
    """
    value, replicates = _statistic_draws(statistic, n_items, rng, draws)
    return _percentile(value, replicates, n_items, level, contrast)


def bootstrap_average(
    benchmarks: Sequence[ArrayLike | tuple[Statistic, int]],
    rng: np.random.Generator,
    draws: int = 2000,
    level: float = 0.95,
    contrast: bool = False,
) -> Interval:
    """Plain mean over benchmarks, each resampled within itself (benchmarks are fixed, items are drawn).

    A benchmark is its per-item values (N_i,) or, for a statistic that is no mean, ``(statistic, N_i)``.
    ``n`` is the number of items of all benchmarks together.
    """
    if not len(benchmarks):
        raise UserError("average: no benchmark")
    value, replicates, items = 0.0, np.zeros(draws), 0
    for benchmark in benchmarks:
        if isinstance(benchmark, tuple) and len(benchmark) == 2 and callable(benchmark[0]):
            n = int(benchmark[1])
            one, drawn = _statistic_draws(benchmark[0], n, rng, draws)
        else:
            values = _values(benchmark)
            n, one, drawn = len(values), float(values.mean()), _mean_draws(values, rng, draws)
        value, replicates, items = value + one, replicates + drawn, items + n
    return _percentile(value / len(benchmarks), replicates / len(benchmarks), items, level, contrast)


def bootstrap_average_paired(
    a: Sequence[ArrayLike], b: Sequence[ArrayLike], rng: np.random.Generator, draws: int = 2000, level: float = 0.95
) -> Interval:
    """Mean over benchmarks of the mean of a - b over each benchmark's items, with ``p``."""
    if len(a) != len(b):
        raise UserError(f"average: {len(a)} benchmarks against {len(b)}")
    differences = [_difference(x, y) for x, y in zip(a, b, strict=True)]
    return bootstrap_average(differences, rng, draws, level, contrast=True)


# --- over seeds -----------------------------------------------------------------------------------------------------


def t_interval(seed_values: ArrayLike, level: float = 0.95) -> Interval:
    """Student's interval of the mean of one value a seed, (S,) with S >= 2."""
    return _student(_values(seed_values), level, contrast=False)


def t_interval_paired(a: ArrayLike, b: ArrayLike, level: float = 0.95) -> Interval:
    """Student's interval of the mean of a - b, (S,) each in the same order of seeds, with ``p`` (paired t-test)."""
    return _student(_difference(a, b), level, contrast=True)


# --- tests and verdicts ---------------------------------------------------------------------------------------------


def holm(pvalues: ArrayLike) -> Floats:
    """Holm's step-down adjusted p-values, (M,) in the order given: reject where they are at most the level.

    Holm, A simple sequentially rejective multiple test procedure, 1979: the i-th smallest of M times (M - i + 1),
    made monotone, at most 1.
    """
    p = _values(pvalues)
    if p.min() < 0 or p.max() > 1:
        raise UserError("p-values: must lie in 0 to 1")
    order = np.argsort(p, kind="stable")
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1)))
    return adjusted


def mcnemar_exact(a_correct: ArrayLike, b_correct: ArrayLike) -> float:
    """Two-sided exact p-value of McNemar's test: (N,) right (1) or wrong (0) each, over the same items.

    The items on which exactly one is right are a fair coin under the null. Items that count a share of a tie have no
    place in it: UserError.
    """
    from scipy.stats import binom

    a, b = _values(a_correct), _values(b_correct)
    if a.shape != b.shape:
        raise UserError(f"paired items: {len(a)} against {len(b)}")
    if not (np.isin(a, (0, 1)).all() and np.isin(b, (0, 1)).all()):
        raise UserError("McNemar's test: correctness must be 0 or 1, here an item counts a share of a tie")
    only_a, only_b = int(((a == 1) & (b == 0)).sum()), int(((a == 0) & (b == 1)).sum())
    return float(min(1.0, 2 * binom.cdf(min(only_a, only_b), only_a + only_b, 0.5)))


def verdict(interval: Interval, comparable: float = 2.0, claimed_sign: int = 1) -> Verdict:
    """The verdict on a claim that a contrast is above 0 (``claimed_sign`` 1) or below 0 (-1).

    *held*: the whole interval lies on the claimed side of 0. *comparable*: the whole interval lies within
    ± ``comparable``, which is in the interval's unit (points: 2). Otherwise *cannot be told*, also when the interval
    lies beyond 0 on the other side; print it beside :func:`smallest_detectable_difference`.
    """
    if claimed_sign not in (1, -1):
        raise UserError(f"claimed sign: {claimed_sign}, must be 1 or -1")
    if (interval.low > 0) if claimed_sign == 1 else (interval.high < 0):
        return "held"
    if -comparable <= interval.low and interval.high <= comparable:
        return "comparable"
    return "cannot be told"


def smallest_detectable_difference(interval: Interval, power: float = 0.8, level: float = 0.95) -> float:
    """The true difference that an interval of this width would have told from 0 with probability ``power``.

    The half-width is q(level) standard errors; the difference needs q(level) + q(power) of them. The quantiles are the
    normal's for items and Student's for seeds (there an approximation: the exact law is the noncentral t).
    """
    from scipy.stats import norm, t

    law = norm if interval.kind == "items" else t(interval.n - 1)
    critical = law.ppf(0.5 + level / 2)
    return float((interval.high - interval.low) / 2 * (critical + law.ppf(power)) / critical)


# --- inside ---------------------------------------------------------------------------------------------------------


def _values(values: ArrayLike) -> Floats:
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1 or not len(array):
        raise UserError(f"values: shape {array.shape}, must be (N,) with N >= 1")
    if not np.isfinite(array).all():
        raise UserError("values: one is not finite")
    return array


def _difference(a: ArrayLike, b: ArrayLike) -> Floats:
    x, y = _values(a), _values(b)
    if x.shape != y.shape:
        raise UserError(f"paired values: {len(x)} against {len(y)}")
    return x - y


def _mean_draws(values: Floats, rng: np.random.Generator, draws: int) -> Floats:
    """Means (draws,) of resamples, through the multinomial frequencies of the distinct values."""
    distinct, frequency = np.unique(values, return_counts=True)
    share = frequency / len(values)
    parts = [rng.multinomial(len(values), share, size=rows) @ distinct for rows in _chunks(draws, len(distinct))]
    return np.asarray(np.concatenate(parts) / len(values), dtype=np.float64)


def _statistic_draws(statistic: Statistic, n_items: int, rng: np.random.Generator, draws: int) -> tuple[float, Floats]:
    value = float(np.asarray(statistic(np.ones((1, n_items))))[0])
    if not math.isfinite(value):
        raise UserError("statistic: not defined on the items themselves")
    parts = []
    for rows in _chunks(draws, n_items):
        # rows * n_items picks, counted by row
        picks = rng.integers(0, n_items, size=(rows, n_items)) + n_items * np.arange(rows)[:, None]
        counts = np.bincount(picks.ravel(), minlength=rows * n_items).reshape(rows, n_items).astype(np.float64)
        parts.append(np.asarray(statistic(counts), dtype=np.float64))
    replicates = np.concatenate(parts)
    defined = replicates[~np.isnan(replicates)]
    # An item drawn twice ranks beside its own copy, which lifts an average precision: the replicates sit above the value
    # they should spread around. The bootstrap's estimate of that bias is their mean minus the value; it is taken off.
    return value, replicates - (defined.mean() - value) if len(defined) else replicates


def _chunks(draws: int, width: int) -> Iterator[int]:
    """Row counts that add up to ``draws``, each of at most ``_CELLS`` cells (or one row)."""
    if draws < 1:
        raise UserError(f"draws: {draws}, must be 1 or more")
    most = max(1, _CELLS // width)
    for start in range(0, draws, most):
        yield min(most, draws - start)


def _percentile(value: float, replicates: Floats, n: int, level: float, contrast: bool = False) -> Interval:
    kept = replicates[~np.isnan(replicates)]
    if not len(kept):
        raise UserError("bootstrap: the statistic is not defined on any resample")
    low, high = np.quantile(kept, [0.5 - level / 2, 0.5 + level / 2])
    p = None
    if contrast:
        # the level at which the percentile interval just touches 0; the added one keeps it above 0
        tail = min(int((kept <= 0).sum()), int((kept >= 0).sum()))
        p = min(1.0, 2 * (tail + 1) / (len(kept) + 1))
    return Interval(float(value), float(low), float(high), n, "items", p)


def _student(values: Floats, level: float, contrast: bool) -> Interval:
    from scipy.stats import t

    n = len(values)
    if n < 2:
        raise UserError(f"seeds: {n}, a t-interval needs 2 or more (the protocol asks for 3)")
    mean, error = float(values.mean()), float(values.std(ddof=1)) / math.sqrt(n)
    reach = float(t.ppf(0.5 + level / 2, n - 1)) * error
    p = None
    if contrast:
        p = float(2 * t.sf(abs(mean) / error, n - 1)) if error > 0 else (1.0 if mean == 0 else 0.0)
    return Interval(mean, mean - reach, mean + reach, n, "seeds", p)
