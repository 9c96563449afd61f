"""Scores of probes, in shares of 1 (not per cent), from arrays on the CPU.

Functions with ``counts`` also score resamples: ``counts`` (R, N) says how often each item occurs in each of R resamples
(see :mod:`mdc.report.statistics.replicates`), and the result is (R,).
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mdc.plan.records import UserError

Floats = NDArray[np.float64]


def per_item_top1(scores: ArrayLike, target: ArrayLike) -> Floats:
    """Correctness (N,) float64 of the best of K options: ``scores`` (N, K), ``target`` (N,) ints in [0, K).

    If k options share the highest score, each counts 1/k (so constant scores are right 1/K of the time, not always).
    """
    s, t = np.asarray(scores), np.asarray(target)
    if s.ndim != 2 or t.shape != s.shape[:1]:
        raise UserError(f"scores: shape {s.shape} with targets {t.shape}, must be (N, K) with (N,)")
    if np.isnan(s).any():
        raise UserError("scores: a score is not a number, so there is no best option")
    if len(t) and (t.min() < 0 or t.max() >= s.shape[1]):
        raise UserError(f"targets: {t.min()} to {t.max()}, must lie in 0 to {s.shape[1] - 1}")
    best = s == s.max(axis=1, keepdims=True)
    return np.asarray(best[np.arange(len(t)), t] / best.sum(axis=1), dtype=np.float64)


def mean_per_class_accuracy(correct: ArrayLike, target: ArrayLike) -> float:
    """Mean over classes of the mean correctness within the class: ``correct`` (N,), ``target`` (N,).

    Classes without an item are left out, as in scikit-learn's ``balanced_accuracy_score``.
    """
    c, t = np.asarray(correct, dtype=np.float64), np.asarray(target)
    if c.shape != t.shape or c.ndim != 1 or not len(c):
        raise UserError(f"correctness: shape {c.shape} with targets {t.shape}, must be (N,) with (N,)")
    _, place, items = np.unique(t, return_inverse=True, return_counts=True)
    return float((np.bincount(place, weights=c) / items).mean())


def mean_average_precision(scores: ArrayLike, targets: ArrayLike, counts: ArrayLike | None = None) -> Any:
    """Mean over the columns of ``scores`` (N, K) and ``targets`` (N, K) of 0 and 1 of their average precision: a float,
    or (R,) with ``counts`` (R, N).

    Columns without a positive (in a resample: in that resample) are left out; NaN if none is left.
    """
    s, t = np.asarray(scores), np.asarray(targets)
    if s.ndim != 2 or s.shape != t.shape or not len(s):
        raise UserError(f"scores: shape {s.shape} with targets {t.shape}, must both be (N, K)")
    if np.isnan(s).any():
        raise UserError("scores: a score is not a number, so there is no order")
    if not np.isin(t, (0, 1)).all():
        raise UserError("targets: must be 0 or 1")
    weights = np.ones((1, len(s))) if counts is None else np.asarray(counts, dtype=np.float64)
    if weights.ndim != 2 or weights.shape[1] != len(s):
        raise UserError(f"counts: shape {weights.shape}, must be (R, {len(s)})")
    columns = np.stack([_average_precision(s[:, k], t[:, k], weights) for k in range(s.shape[1])], axis=1)
    result = _ratio(np.nansum(columns, axis=1), (~np.isnan(columns)).sum(axis=1).astype(np.float64))
    return result if counts is not None else float(result[0])


def _average_precision(scores: Floats, target: NDArray[np.int64], weights: Floats) -> Floats:
    """Area (R,) under the precision-recall steps, sum of (R_n - R_{n-1}) P_n over the distinct scores, from the highest.

    ``scores`` (N,), ``target`` (N,), ``weights`` (R, N). Equals ``sklearn.metrics.average_precision_score``, ties included,
    except that without a positive it is NaN, not 0.
    """
    order = np.argsort(-scores, kind="stable")
    weights = weights[:, order]
    positives = np.flatnonzero(target[order])
    if not len(positives):
        return np.full(len(weights), np.nan)
    # recall steps only where a positive enters, and tied items enter together, at the end of their run of equal scores
    run_ends = np.flatnonzero(np.r_[np.diff(scores[order]) != 0, True])
    entry = run_ends[np.searchsorted(run_ends, positives)]
    last = np.r_[np.diff(entry) != 0, True]
    chosen = np.cumsum(weights, axis=1)[:, entry[last]]
    hits = np.cumsum(weights[:, positives], axis=1)[:, last]
    steps = np.diff(hits, axis=1, prepend=0.0)
    return _ratio((steps * _ratio(hits, chosen, empty=0.0)).sum(axis=1), hits[:, -1])


def _ratio(above: Floats, below: Floats, empty: float = np.nan) -> Floats:
    """``above / below``, and ``empty`` where ``below`` is 0."""
    return np.divide(above, below, out=np.full(above.shape, empty), where=below != 0)
