"""Two curves of points (x, y) held against each other at equal x, where both x and y are estimates.

A curve is read as the highest y that it reaches at an x or above, with straight lines between its points: what can be had of y
when at least so much of x is asked for.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_BETWEEN = 65  # places at which a straight line is read; 0 and 1 are its ends
_AT = 33  # places of x at which two curves are compared


def common(first: Floats, second: Floats) -> tuple[float, float] | None:
    """The x that both curves (points, 2) reach: from the greater of their least to the less of their greatest; None if there is
    none."""
    low, high = max(first[:, 0].min(), second[:, 0].min()), min(first[:, 0].max(), second[:, 0].max())
    return (float(low), float(high)) if low < high else None


def reached(curve: Floats, at: Floats) -> Floats:
    """The highest y of a curve (points, 2) at each x of ``at`` or above; its end where it reaches no such x."""
    steps = np.linspace(0, 1, _BETWEEN)
    pieces = [a + steps[:, None] * (b - a) for a, b in pairwise(curve)]
    line = np.concatenate(pieces)
    line = line[np.argsort(-line[:, 0], kind="stable")]
    best = np.maximum.accumulate(line[:, 1])
    place = np.searchsorted(-line[:, 0], -at, side="right") - 1
    return np.asarray(best[np.maximum(place, 0)])


def above(first: Floats, second: Floats, span: tuple[float, float]) -> float:
    """How much higher ``first`` lies than ``second``, in the mean over the x of ``span``."""
    at = np.linspace(*span, _AT)
    return float((reached(first, at) - reached(second, at)).mean())


def difference(first: Floats, second: Floats) -> tuple[Floats, tuple[float, float]] | None:
    """:func:`above` of the x that the curves share, (S, 1 + R), and that x; None if they share none.

    one, other (S, 1 + R, points, 2): of each seed the curve on the items themselves, then on R resamples of them, the same
    for all seeds and both curves. The x that is shared is that of the seeds' mean curves, and stays what it is on resamples.
    """
    span = common(first[:, 0].mean(axis=0), second[:, 0].mean(axis=0))
    if span is None:
        return None
    apart = [[above(a, b, span) for a, b in zip(*of_seed, strict=True)] for of_seed in zip(first, second, strict=True)]
    return np.asarray(apart), span
