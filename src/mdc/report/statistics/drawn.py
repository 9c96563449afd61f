"""The interval of a statistic that was computed of each seed on the items themselves and on the same resamples of them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mdc.report.statistics.bootstrap import Replicates, percentile
from mdc.report.statistics.interval import LEVEL, Interval
from mdc.report.statistics.seeds import student


def of_resamples(found: NDArray[np.float64], items: int, level: float = LEVEL) -> Interval:
    """``found`` (S, 1 + R): of each seed a difference on the ``items`` themselves, then on R resamples of them, the same for all
    seeds. With three seeds or more the interval is Student's over seeds and items, otherwise the bootstrap's
    (docs/statistics.md)."""
    of_seeds, drawn = found[:, 0], found[:, 1:].mean(axis=0)
    replicates = Replicates(float(of_seeds.mean()), items, [(drawn, items)])
    if len(of_seeds) < 3:
        return percentile(replicates, level, contrast=True, seeds=len(of_seeds))
    return student(of_seeds, replicates.components(), items, level, contrast=True, draws=len(drawn))
