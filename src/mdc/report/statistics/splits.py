"""A difference over several random splits of the same items (Nadeau and Bengio, 2003, Inference for the Generalization Error).

Splits share most of what they train on, so their differences are not independent, and their variance over k splits, divided by k,
is too small. The paper's corrected resampled t multiplies the variance by 1/k + n_test/n_train in place of 1/k.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from mdc.plan.records import UserError
from mdc.report.statistics.estimate import LEVEL, Component, Estimate, bounded


def over_splits(differences: ArrayLike, test_over_train: float, level: float = LEVEL) -> Estimate:
    """The mean of one difference a split, ``differences`` (k,), k ≥ 2, with Student's t of k − 1 degrees of freedom.

    ``test_over_train``: items tested on over items trained on, of each split; 0 gives the t interval as if splits were
    independent. ``p``: two-sided, of the mean being 0. UserError for fewer than two, or for what is not finite.
    """
    values = np.asarray(differences, dtype=np.float64)
    if values.ndim != 1 or len(values) < 2 or not np.isfinite(values).all():
        raise UserError(f"splits: differences {values.tolist()}, needed: two or more finite ones")
    k = len(values)
    # rounding alone makes no variance
    varies = np.ptp(values) > 1e-12 * max(1.0, abs(float(values.mean())))
    part = Component((1 / k + test_over_train) * float(values.var(ddof=1)) if varies else 0.0, k - 1)
    return bounded(
        Estimate(float(values.mean()), None, None, k, 1, "splits", of_items=part, level=level), contrast=True
    )
