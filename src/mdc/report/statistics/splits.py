"""A difference over several random splits of the same items (Nadeau and Bengio, 2003, Inference for the Generalization Error).

Splits share most of what they train on, so their differences are not independent, and their variance over k splits, divided by k,
is too small. The paper's corrected resampled t multiplies the variance by 1/k + n_test/n_train in place of 1/k.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from mdc.plan.records import UserError
from mdc.report.statistics.interval import LEVEL, Interval
from mdc.report.statistics.seeds import t_pvalue


def over_splits(differences: ArrayLike, test_over_train: float, level: float = LEVEL) -> Interval:
    """The mean of one difference a split, ``differences`` (k,), k ≥ 2, with Student's t of k − 1 degrees of freedom.

    ``test_over_train``: items tested on over items trained on, of each split; 0 gives the t interval as if splits were
    independent. ``p``: two-sided, of the mean being 0. UserError for fewer than two, or for what is not finite.
    """
    from scipy.stats import t

    values = np.asarray(differences, dtype=np.float64)
    if values.ndim != 1 or len(values) < 2 or not np.isfinite(values).all():
        raise UserError(f"splits: differences {values.tolist()}, needed: two or more finite ones")
    k = len(values)
    error = math.sqrt((1 / k + test_over_train) * float(values.var(ddof=1)))
    mean, reach = float(values.mean()), float(t.isf((1 - level) / 2, k - 1)) * error
    p = t_pvalue(mean, error, k - 1)
    return Interval(mean, mean - reach, mean + reach, n=k, seeds=1, kind="splits", p=p, df=k - 1, se=error, level=level)
