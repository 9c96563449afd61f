"""The least-squares slope as a fixed combination of values, so that its interval is one of a combination of encoders."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mdc.plan.records import UserError


def slope_weights(x: ArrayLike) -> NDArray[np.float64]:
    """What each value counts for in the slope of its least-squares line: slope = Σ weightᵢ · valueᵢ, (K,) at ``x`` (K,).

    UserError unless two of ``x`` differ.
    """
    places = np.asarray(x, dtype=np.float64)
    away = places - places.mean()
    square = float(away @ away)
    if len(np.unique(places)) < 2 or square == 0:
        raise UserError("trend: needs values at two different places or more")
    return np.asarray(away / square)
