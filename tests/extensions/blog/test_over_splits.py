"""A difference over several splits: the corrected resampled t against its formula and against many drawn splits."""

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy import stats

from mdc.extensions.blog.tables.over_datasets import OverDatasets
from mdc.plan.records import UserError
from mdc.report.statistics.estimate import over_splits


def test_without_a_correction_it_is_students_t() -> None:
    values = [1.5, -0.5, 2.0, 0.25, 1.0]
    found = over_splits(values, 0.0)
    told = stats.ttest_1samp(values, 0.0)
    low, high = told.confidence_interval(0.95)
    assert (found.value, found.low, found.high, found.p) == pytest.approx((np.mean(values), low, high, told.pvalue))


def test_the_correction_is_that_of_the_paper() -> None:
    """Nadeau and Bengio (2003), corrected resampled t: mean / sqrt((1/J + n2/n1) S²), J − 1 degrees of freedom."""
    values, share = [1.5, -0.5, 2.0, 0.25, 1.0], 1 / 6
    squares = sum((value - 0.85) ** 2 for value in values) / 4
    t = 0.85 / math.sqrt((1 / 5 + share) * squares)
    found = over_splits(values, share, level=0.9)
    assert found.p == pytest.approx(2 * stats.t.sf(t, 4))
    assert found.high - found.low == pytest.approx(2 * stats.t.ppf(0.95, 4) * 0.85 / t)


def test_equal_differences_have_no_interval_and_no_p() -> None:
    found = over_splits([100 * (a - b) for a, b in ((0.7, 0.4), (0.8, 0.5), (0.9, 0.6), (0.6, 0.3))], 0.2)
    assert found.value == pytest.approx(30) and (found.low, found.p, found.se) == (None, None, 0)


def test_mistakes() -> None:
    for values in ([1.0], [1.0, math.nan]):
        with pytest.raises(UserError, match="needed: two or more finite ones"):
            over_splits(values, 0.1)


def test_a_table_over_splits_takes_the_level_that_is_asked_for() -> None:
    one: Any = object.__new__(OverDatasets)
    one.statistics, one.share, one.seeds, values = SimpleNamespace(level=0.8), 0.25, 3, np.array([1.0, 2.0, 4.0])
    assert one.mean(values) == over_splits(values, 0.25, 0.8, 3) != over_splits(values, 0.25)
