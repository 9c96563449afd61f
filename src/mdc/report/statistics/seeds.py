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

V is a sum of independent estimates v_k with f_k degrees of freedom, and the interval is Student's with Satterthwaite's

    f = (Σ v_k)² / Σ (v_k² / f_k)

(Satterthwaite, An approximate distribution of estimates of variance components, Biometrics Bulletin 2, 1946), where
f = S - 1 for the seeds, and G - 1 for each set of columns of which G groups of items are drawn together. The f_k weigh
estimates, not true variances: where an s² of few seeds comes out small, f comes out large. In simulations without
interaction (tests/unit/report/test_seeds.py) intervals of 95 % cover 95 % of experiments where the items' part is as large as
the seeds', 94 % of those of five seeds and 92 to 93 % of those of three seeds where the seeds' part is far larger.
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


def satterthwaite(components: Sequence[Component]) -> Component:
    """The sum of independent components with Satterthwaite's degrees of freedom.

    If all are 0, it has those of the component with the fewest.
    """
    total = sum(c.variance for c in components)
    if total == 0:
        return Component(0.0, min(c.df for c in components))
    # shares, because the square of a very small variance would be 0
    return Component(total, 1 / sum((c.variance / total) ** 2 / c.df for c in components))


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
    added, two-sided from the same t. ``n``: test items, S if not given; ``draws``: resamples behind ``items``.
    """
    from scipy.stats import t

    values = np.asarray(per_seed, dtype=np.float64)
    if values.ndim != 1 or len(values) < 2 or not np.isfinite(values).all():
        raise UserError(f"seeds: values {values.tolist()}, needed: two or more finite ones")
    over_seeds = Component(float(values.var(ddof=1)) / len(values), len(values) - 1)
    whole = satterthwaite([over_seeds, *items])
    mean, error = float(values.mean()), math.sqrt(whole.variance)
    reach = float(t.isf((1 - level) / 2, whole.df)) * error
    return Interval(
        mean,
        mean - reach,
        mean + reach,
        n=len(values) if n is None else n,
        seeds=len(values),
        kind="seeds and items" if items else "seeds",
        p=t_pvalue(mean, error, whole.df) if contrast else None,
        draws=draws,
        df=whole.df,
        se=error,
        level=level,
    )


def t_pvalue(value: float, error: float, df: float) -> float:
    """Two-sided p-value of ``value`` being 0 under Student's t; of a ``value`` without any error 0, or 1 if it is 0."""
    from scipy.stats import t

    return float(2 * t.sf(abs(value) / error, df)) if error > 0 else float(value == 0)
