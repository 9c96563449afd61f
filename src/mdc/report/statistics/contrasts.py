"""Correction of several p-values for one another."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mdc.plan.records import UserError


def holm(pvalues: ArrayLike) -> NDArray[np.float64]:
    """Holm's step-down adjusted p-values, (M,) in the order given; reject where they are below the level.

    The i-th smallest of M p-values (i from 1) times (M - i + 1), made monotone, at most 1 (Holm, A simple sequentially
    rejective multiple test procedure, 1979). UserError if one is not in 0 to 1. No p-values give none.
    """
    p = np.asarray(pvalues, dtype=np.float64)
    if p.ndim != 1 or not ((p >= 0) & (p <= 1)).all():
        raise UserError("p-values: each must lie in 0 to 1")
    order = np.argsort(p, kind="stable")
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1)))
    return adjusted
