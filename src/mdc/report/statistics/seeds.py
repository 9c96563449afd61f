"""Intervals from three seeds or more, which speak of other seeds and of other test items.

The model. Seed s and test item i give y_si = μ + a_s + b_i + c_si, independent parts of mean 0: what the seed does to
the whole run (variance α), what is particular to the item (β), and what this seed does to this item (γ). The mean over
S seeds and N items has the variance

    α/S + β/N + γ/(SN).

All seeds are tested on the same items, so the b_i are the same in all S per-seed means and cancel in their variance:
E[s²] = α + γ/N. Student's t over seeds alone therefore speaks of other seeds on these very items, and is too narrow for
other items. What it lacks is the variance of the mean of the seed-averaged results ȳ_i when other items are drawn, which the
bootstrap over items estimates: (β + γ/S)/N. The protocol adds the two:

    V = s²/S + V_items,   E[V] = α/S + β/N + 2γ/(SN).

Without interaction this is the variance. With interaction γ/(SN) is counted twice, and the interval errs to the wide side: the
mean square of the interaction could be taken off once, but V could then fall below either part, and a mean
average precision has no results of single items to take it from. Differences are paired by seed and by item: y_si is
then a difference of two encoders, and all else is the same.

The two estimates are as sure as their numbers: S seeds, and G groups of items. Student's t with one number of degrees of freedom
for their sum (Satterthwaite's) takes the seeds' part for surer than it is wherever an s² of few seeds comes out small: in tables
of six true null hypotheses with three seeds it supported a false one in 8 to 17 of 100, where 5 were promised. So each part has a
quantile of its own,

    half-width² = t²(S - 1) · s²/S + t²(G - 1) · V_items,

and p is the level at which the half-width is |difference|. G of an average over several columns is the smallest of theirs. In
simulations (tests/unit/report/test_seeds.py) at most 5 of 100 tables of six null hypotheses hold a false verdict.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from mdc.plan.records import UserError
from mdc.report.statistics.interval import LEVEL, Interval


@dataclass(frozen=True)
class Component:
    """An estimate of a part of the variance of a mean, with the degrees of freedom of this estimate."""

    variance: float
    df: float


def pooled(components: Sequence[Component]) -> Component:
    """The sum of independent components, with the fewest degrees of freedom of them."""
    return Component(sum(c.variance for c in components), min(c.df for c in components))


def effective_df(components: Sequence[Component]) -> float:
    """Satterthwaite's degrees of freedom of the sum of independent components: of the smallest detectable difference alone, which
    is a plan and no verdict. If all are 0, those of the component with the fewest."""
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
    """The two-sided p: 1 minus the level of the interval that ends at 0. Of a ``value`` without any error 0, or 1 if it is 0."""
    from scipy.optimize import brentq

    if not sum(c.variance for c in components):
        return float(value == 0)
    if value == 0:
        return 1.0

    def beyond(log_p: float) -> float:
        return half_width(components, 1 - math.exp(log_p)) - abs(value)

    # 1 - p rounds to 1 below this
    least = math.log(1e-15)
    return math.exp(least) if beyond(least) < 0 else math.exp(float(brentq(beyond, least, 0.0, xtol=1e-10)))


def student(
    per_seed: ArrayLike,
    items: Sequence[Component] = (),
    n: int | None = None,
    level: float = LEVEL,
    contrast: bool = False,
    draws: int | None = None,
) -> Interval:
    """Mean of one value a seed, ``per_seed`` (S,), S ≥ 2, with the interval that is described above, in the same unit.

    ``items``: the variance over test items of the seeds' mean, a component for each set of items that is drawn by itself; without
    them the interval is Student's over seeds alone (kind "seeds"). ``contrast``: the values are differences, and ``p`` is
    added, two-sided by the same rule. ``n``: test items, S if not given; ``draws``: resamples behind ``items``.
    """
    values = np.asarray(per_seed, dtype=np.float64)
    if values.ndim != 1 or len(values) < 2 or not np.isfinite(values).all():
        raise UserError(f"seeds: values {values.tolist()}, needed: two or more finite ones")
    parts = [Component(float(values.var(ddof=1)) / len(values), len(values) - 1), *([pooled(items)] if items else [])]
    mean, reach = float(values.mean()), half_width(parts, level)
    return Interval(
        mean,
        mean - reach,
        mean + reach,
        n=len(values) if n is None else n,
        seeds=len(values),
        kind="seeds and items" if items else "seeds",
        p=p_value(mean, parts) if contrast else None,
        draws=draws,
        df=effective_df(parts),
        se=math.sqrt(sum(part.variance for part in parts)),
        level=level,
    )


def t_pvalue(value: float, error: float, df: float) -> float:
    """Two-sided p-value of ``value`` being 0 under Student's t; of a ``value`` without any error 0, or 1 if it is 0."""
    from scipy.stats import t

    return float(2 * t.sf(abs(value) / error, df)) if error > 0 else float(value == 0)
