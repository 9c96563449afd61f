"""The exact interval of a share of right answers."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from mdc.plan.records import UserError
from mdc.report.statistics.interval import LEVEL, Interval


def right_or_wrong(values: ArrayLike) -> bool:
    """Whether every value is 0 or 1, so that no item counts a share of a tie."""
    return bool(np.isin(np.asarray(values), (0, 1)).all())


def proportion(right: int, n: int, level: float = LEVEL) -> Interval:
    """The share ``right`` / ``n`` with Clopper and Pearson's interval (Biometrika 26, 1934), as scipy computes it.

    Its ends are the shares at which so many or more (so few or fewer) right answers have a probability of (1 - level)/2:
    P(X ≥ right | low) = P(X ≤ right | high) = (1 - level)/2, X ~ Bin(n, ·). So it covers with at least ``level``, whatever
    the share, and is no point at 0 % or 100 %. It holds for independent items; of items in groups it would be too narrow.
    """
    from scipy.stats import binomtest

    if not 0 <= right <= n or n < 1:
        raise UserError(f"share: {right} of {n} items")
    found = binomtest(right, n).proportion_ci(confidence_level=level, method="exact")
    return Interval(right / n, float(found.low), float(found.high), n, 1, "exact", level=level)
