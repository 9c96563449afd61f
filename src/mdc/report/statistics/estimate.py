"""Replicates → estimates: a number with its interval and, for a difference, its p; one rule for all (docs/statistics.md).

**Three trainings (seeds) or more.** Seed s and test item i give y_si = μ + a_s + b_i + c_si, independent parts of mean
0: of the seed (variance α), of the item (β), and of their interaction (γ). The mean over S seeds and N items has the variance
α/S + β/N + γ/(SN). All seeds are tested on the same items, so the b_i cancel in the variance of the per-seed means:
E[s²] = α + γ/N. Student's t over seeds alone therefore applies to other seeds on the same items. The missing part is the variance
of the seed-averaged mean over draws of items, (β + γ/S)/N, which the bootstrap over items estimates. The two are added:

    V = s²/S + V_items,   E[V] = α/S + β/N + 2γ/(SN).

Without interaction this is the variance. With interaction γ/(SN) is counted twice, and the interval is conservative: the mean
square of the interaction could be subtracted once, but V could then fall below either part, and a mean average precision has no
results of single items to compute it from.

The two estimates have the degrees of freedom of S seeds, and of G groups of items. Student's t with one number of degrees of
freedom for their sum (Satterthwaite's) is too narrow where an s² of few seeds is small by chance: in tables of six true null
hypotheses with three seeds it supported a false one in 8 to 17 of 100, where 5 are nominal. So each part has its own quantile,

    half-width² = t²(S − 1) · s²/S + t²(G − 1) · V_items,

and p is the level at which the half-width is |difference|. In simulations (tests/unit/report/test_estimate.py) at most
5 of 100 tables of six null hypotheses hold a false verdict.

**One or two seeds.** The percentile bootstrap over groups, about the value, with half-widths √(G/(G − 1)) · t(G − 1)/z
times as long, since resamples of G groups vary too little; p is the level at which this interval ends at 0, at least 2/(R + 1)
with R resamples. For one training's right or wrong answers on independent items the interval is exact. Both apply to these
checkpoints only.

Differences are paired by seed and by item: y_si is then a difference of two systems.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mdc.plan.records import UserError
from mdc.report.statistics.replicates import Replicates

#: the method of an interval: exact, or a bootstrap over test items; Student's t over seeds and items, over seeds alone or over
#: splits
Kind = Literal["exact", "bootstrap", "seeds and items", "seeds", "splits"]
Scope = Literal["checkpoints", "methods", "splits"]

#: defaults; tables and figures use protocol.statistics of params.yaml
LEVEL, POWER = 0.95, 0.8
#: the fewest groups of items with a p: with one or two seeds, and with three or more
FEWEST_GROUPS, FEWEST_GROUPS_OF_SEEDS = 50, 20


@dataclass(frozen=True)
class Component:
    """An estimate of a part of the variance of a mean, with its degrees of freedom."""

    variance: float
    df: float


@dataclass(frozen=True)
class Estimate:
    """``value`` with its two-sided interval ``low`` to ``high`` at ``level``, None without an interval.

    ``n``: test items, in ``groups`` that are drawn together. ``seeds``: trainings.
    ``p``: two-sided, of a difference being 0; None if there is none. ``draws``: resamples on which it is defined, None without
    resampling. ``of_seeds``, ``of_items``: the parts of its variance, None if it has no such part."""

    value: float
    low: float | None
    high: float | None
    n: int
    seeds: int
    kind: Kind
    p: float | None = None
    groups: int | None = None
    draws: int | None = None
    of_seeds: Component | None = None
    of_items: Component | None = None
    level: float = LEVEL

    @property
    def parts(self) -> list[Component]:
        return [part for part in (self.of_seeds, self.of_items) if part is not None]

    @property
    def se(self) -> float | None:
        """Its standard error; None for an exact interval, or if unknown."""
        return math.sqrt(sum(part.variance for part in self.parts)) if self.parts else None

    @property
    def df(self) -> float | None:
        """Satterthwaite's degrees of freedom of the standard error; used for the minimum detectable effect only."""
        return effective_df(self.parts) if self.parts else None

    @property
    def ends(self) -> tuple[float, float]:
        """The ends of its interval; the value itself where there is none."""
        return self.value if self.low is None else self.low, self.value if self.high is None else self.high

    @property
    def scope(self) -> Scope:
        """What it applies to: these checkpoints, the methods (three seeds or more), or splits."""
        return "splits" if self.kind == "splits" else "methods" if self.seeds >= 3 else "checkpoints"

    @property
    def few(self) -> bool:
        """Whether it has too few groups of items for a p."""
        return self.groups is not None and self.groups < (FEWEST_GROUPS_OF_SEEDS if self.seeds >= 3 else FEWEST_GROUPS)

    def within(self, least: float, most: float = math.inf) -> "Estimate":
        """With the interval cut to ``least`` … ``most``."""
        if self.low is None or self.high is None:
            return self
        return replace(self, low=max(least, self.low), high=min(most, self.high))


#: the difference of two sides of which one has no such number
NOT_COMPARED = Estimate(math.nan, None, None, 0, 0, "bootstrap")


def estimate(replicates: Replicates, level: float = LEVEL, contrast: bool = False) -> Estimate:
    """The mean over seeds, with its interval. ``contrast``: a difference, which has a ``p`` unless its groups are too
    few or it never varies.

    Only resamples on which all seeds are defined count. UserError if there is none.
    """
    of_seeds, drawn = replicates.values[:, 0], replicates.values[:, 1:].mean(axis=0)
    drawn = drawn[~np.isnan(drawn)]
    if len(drawn) < 2:
        raise UserError("bootstrap: the statistic is not defined on any resample")
    if replicates.right is not None and replicates.seeds == 1 and not contrast:
        return exact(replicates.right, replicates.n, level, replicates.share or 1.0)
    value, groups = float(of_seeds.mean()), replicates.groups
    items = Component(_variance(drawn, value) * groups / (groups - 1), groups - 1)
    if replicates.seeds >= 3:
        result = over_seeds(of_seeds, items, replicates.n, level, contrast)
    else:
        result = _percentile(np.sort(drawn), value, items, replicates.n, replicates.seeds, level, contrast)
    result = replace(result, groups=groups, draws=len(drawn))
    if result.few:
        result = replace(result, p=None)
    return result if contrast or replicates.share is None else result.within(0.0, replicates.share)


def exact(right: int, n: int, level: float = LEVEL, whole: float = 1.0) -> Estimate:
    """The share ``right`` / ``n`` of ``whole`` with Clopper and Pearson's interval (Biometrika 26, 1934).

    Its ends are the shares at which so many or more (so few or fewer) right answers have a probability of (1 - level)/2:
    P(X ≥ right | low) = P(X ≤ right | high) = (1 - level)/2, X ~ Bin(n, ·). So it covers with at least ``level``, whatever
    the share, and is no point at 0 % or 100 %. It holds for independent items; of items in groups it would be too narrow.
    """
    from scipy.special import betaincinv

    if not 0 <= right <= n or n < 1:
        raise UserError(f"share: {right} of {n} items")
    tail = (1 - level) / 2
    # the tails of the binomial are those of the beta distribution
    low = float(betaincinv(right, n - right + 1, tail)) if right else 0.0
    high = float(betaincinv(right + 1, n - right, 1 - tail)) if right < n else 1.0
    return Estimate(right / n * whole, low * whole, high * whole, n, 1, "exact", groups=n, level=level)


def over_seeds(
    per_seed: ArrayLike,
    items: Component | None = None,
    n: int | None = None,
    level: float = LEVEL,
    contrast: bool = False,
) -> Estimate:
    """Mean of one value per seed, ``per_seed`` (S,), S ≥ 2, with the interval described above, in the same unit.

    ``items``: the variance over test items of the seeds' mean; without it the interval is Student's over seeds alone
    (kind "seeds"). ``n``: test items, by default S."""
    values = _finite(per_seed, "seeds: values")
    count, mean = len(values), float(values.mean())
    of_seeds = Component(_variance(values, mean) / count, count - 1)
    kind: Kind = "seeds" if items is None else "seeds and items"
    result = Estimate(mean, None, None, n or count, count, kind, of_seeds=of_seeds, of_items=items, level=level)
    return bounded(result, contrast)


def over_splits(differences: ArrayLike, test_over_train: float, level: float = LEVEL, seeds: int = 1) -> Estimate:
    """The mean of one difference per random split of the same items, ``differences`` (k,), k ≥ 2, with Student's t of k − 1
    degrees of freedom, as Nadeau and Bengio correct it (Inference for the Generalization Error, 2003).

    Splits share most of their training items, so their differences are not independent, and their variance over k splits,
    divided by k, is too small: it is multiplied by 1/k + n_test/n_train in place of 1/k. ``test_over_train``: n_test/n_train of
    each split; 0 gives the t interval for independent splits. ``seeds``: trainings of a side on each split, whose mean is the
    split's difference. ``p``: two-sided, of the mean being 0. UserError for fewer than
    two, or for values that are not finite.
    """
    values = _finite(differences, "splits: differences")
    k, mean = len(values), float(values.mean())
    part = Component((1 / k + test_over_train) * _variance(values, mean), k - 1)
    return bounded(Estimate(mean, None, None, k, seeds, "splits", of_items=part, level=level), contrast=True)


def _finite(values: ArrayLike, name: str) -> NDArray[np.float64]:
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1 or len(array) < 2 or not np.isfinite(array).all():
        raise UserError(f"{name} {array.tolist()}, needed: two or more finite ones")
    return array


def _variance(values: NDArray[np.float64], about: float) -> float:
    """The variance of ``values``, 0 if they differ by rounding only."""
    return float(values.var(ddof=1)) if np.ptp(values) > 1e-12 * max(1.0, abs(about)) else 0.0


def bounded(estimate: Estimate, contrast: bool) -> Estimate:
    """``estimate`` with the interval from its parts, a ``contrast`` also with p; unchanged if its standard error is 0."""
    if not estimate.se:
        return estimate
    reach = half_width(estimate.parts, estimate.level)
    p = p_value(estimate.value, estimate.parts) if contrast else None
    return replace(estimate, low=estimate.value - reach, high=estimate.value + reach, p=p)


def _percentile(
    drawn: NDArray[np.float64], value: float, items: Component, n: int, seeds: int, level: float, contrast: bool
) -> Estimate:
    result = Estimate(value, None, None, n=n, seeds=seeds, kind="bootstrap", of_items=items, level=level)
    if not items.variance:
        return result
    end, p = partial(_end, drawn, value, int(items.df) + 1), None
    if contrast:  # 1 minus the level at which the interval ends at 0
        least = 2 / (len(drawn) + 1)
        p = 1.0 if value == 0 else _root(lambda p: end(1 - p, upper=value < 0) * value > 0, least)
    return replace(result, low=end(level, upper=False), high=end(level, upper=True), p=p)


def _end(drawn: NDArray[np.float64], value: float, groups: int, level: float, upper: bool) -> float:
    """An end of the percentile interval from sorted replicates."""
    from scipy.special import ndtri, stdtrit

    tail = (1 + level) / 2
    longer = math.sqrt(groups / (groups - 1)) * float(stdtrit(groups - 1, tail) / ndtri(tail))
    place = (tail if upper else 1 - tail) * (len(drawn) - 1)
    quantile = float(np.interp(place, np.arange(len(drawn)), drawn))
    return value + longer * (quantile - value)


def _root(excludes: Callable[[float], bool], least: float) -> float:
    """The p from which on the interval at level 1 - p excludes 0, between ``least`` and 1, by halving."""
    if excludes(least):
        return least
    most = 1.0
    for _ in range(40):
        middle = math.sqrt(least * most)
        least, most = (least, middle) if excludes(middle) else (middle, most)
    return most


def factors(log: Estimate) -> Estimate:
    """The exponential of a logarithm, without standard error and ``p``."""
    low, high = (None if end is None else math.exp(end) for end in (log.low, log.high))
    return replace(log, value=math.exp(log.value), low=low, high=high, p=None, of_seeds=None, of_items=None)


def effective_df(components: Sequence[Component]) -> float:
    """Satterthwaite's degrees of freedom of the sum of independent components; if all are 0, those of the one with the fewest."""
    total = sum(c.variance for c in components)
    if total == 0:
        return min(c.df for c in components)
    # shares, because the square of a very small variance would be 0
    return 1 / sum((c.variance / total) ** 2 / c.df for c in components)


def half_width(components: Sequence[Component], level: float) -> float:
    """Of the interval at a level, each component with a quantile of its own."""
    from scipy.special import stdtrit

    return math.sqrt(sum(float(stdtrit(c.df, (1 + level) / 2)) ** 2 * c.variance for c in components))


def p_value(value: float, components: Sequence[Component]) -> float:
    """The two-sided p: 1 minus the level of the interval that ends at 0, and at least 1e-15. The components have a variance."""
    return 1.0 if value == 0 else _root(lambda p: half_width(components, 1 - p) < abs(value), 1e-15)
