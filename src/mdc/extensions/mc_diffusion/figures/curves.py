"""Two curves of points (x, y) compared at equal x, where both x and y are estimates.

A curve's value at x is the highest y that it reaches at x or above, with linear interpolation: the best y with at least this x.
"""

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_BETWEEN = 65  # points on each segment, ends included
_AT = 33  # values of x at which two curves are compared


def common(first: Floats, second: Floats) -> tuple[float, float] | None:
    """The range of x at which two curves (S, points, 2), of S seeds each, are compared: from the least x of the one whose mean
    over seeds starts higher, to the x that every seed's curves reach. None if there is none."""
    low = max(curves.mean(axis=0)[:, 0].min() for curves in (first, second))
    high = min(curves[..., 0].max(axis=1).min() for curves in (first, second))
    return (float(low), float(high)) if low < high else None


def reached(curve: Floats, at: Floats) -> Floats:
    """The highest y of a curve (points, 2) at each x of ``at`` or above; its end where ``at`` is beyond the curve."""
    steps = np.linspace(0, 1, _BETWEEN)
    pieces = [a + steps[:, None] * (b - a) for a, b in pairwise(curve)]
    line = np.concatenate(pieces)
    line = line[np.argsort(-line[:, 0], kind="stable")]
    best = np.maximum.accumulate(line[:, 1])
    place = np.searchsorted(-line[:, 0], -at, side="right") - 1
    return np.asarray(best[np.maximum(place, 0)])


def above(first: Floats, second: Floats, span: tuple[float, float]) -> float:
    """The mean of ``first`` minus ``second`` over the x in ``span``."""
    at = np.linspace(*span, _AT)
    return float((reached(first, at) - reached(second, at)).mean())


def difference(first: Floats, second: Floats) -> tuple[Floats, tuple[float, float]] | None:
    """:func:`above` on the range of x that the curves share, (S, 1 + R), and that range; None if they share none.

    first, second (S, 1 + R, points, 2): the curve of each seed on the items themselves, then on R resamples, the same for all
    seeds and both curves. Every seed's curves reach the whole range (:func:`common`); a resample's curve that ends before it
    counts with its end.
    """
    span = common(first[:, 0], second[:, 0])
    if span is None:
        return None
    apart = [[above(a, b, span) for a, b in zip(*of_seed, strict=True)] for of_seed in zip(first, second, strict=True)]
    return np.asarray(apart), span
