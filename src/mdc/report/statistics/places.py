"""Whether places in a random order are chosen alike: a test for votes whose order was drawn anew for each item."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def places_p(votes: NDArray[np.float64]) -> float:
    """The probability of places at least as uneven as the sums of ``votes`` (N, K), if places did not matter.

    A row holds the votes of one item by place, whole or shared. If places do not matter, each row is as likely with its votes
    in any other order, so the sums have a known covariance: Σ over rows of s² · K/(K − 1) · (I − 1/K) with s² the variance
    within the row. Where each row is one whole vote this is the usual chi-square test; shared votes are less uneven, and
    count for as much as they say. 1.0 if no row prefers any place. What is not independent, as several votes on one item, belongs
    into one row.
    """
    from scipy.special import chdtrc

    count = votes.shape[1]
    centred = votes - votes.mean(axis=1, keepdims=True)
    spread = float((centred**2).sum()) / (count - 1)
    if spread <= 1e-12 * len(votes):
        return 1.0
    return float(chdtrc(count - 1, float((centred.sum(axis=0) ** 2).sum()) / spread))
