"""Verdicts: their table, and the smallest detectable difference against known powers and simulated experiments."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from mdc.plan.records import UserError
from mdc.report.statistics.interval import Interval
from mdc.report.statistics.verdicts import decide, smallest_detectable


def difference(value: float, low: float, high: float, p: float | None, df: float | None = None) -> Interval:
    se = (high - low) / 2 / 1.959964
    return Interval(value, low, high, 100, 1, "bootstrap", p=p, se=se, df=df)


@pytest.mark.parametrize(
    ("value", "low", "high", "p", "expected"),
    [
        (4, 0.1, 9, 0.01, "held"),
        (1, 0.1, 1.9, 0.01, "held"),  # within two points, and yet above 0
        (-1, -1.9, -0.1, 0.01, "opposite"),
        (-6, -9, -3, 0.001, "opposite"),
        (0.2, -1, 1.5, 0.6, "comparable"),
        (0.0, -2, 2, 1.0, "comparable"),
        (0.5, -1, 2.5, 0.5, "cannot be told"),
        (-3, -6, 0, 0.05, "cannot be told"),  # 0.05 itself is not below 0.05
    ],
)
def test_verdicts(value: float, low: float, high: float, p: float, expected: str) -> None:
    points = difference(value, low, high, p)
    (found,) = decide([points])
    assert (found.p, found.p_holm, found.verdict) == (p, p, expected)
    (found,) = decide([points.times(0.01)], comparable=0.02)
    assert found.verdict == expected


def test_a_verdict_needs_the_corrected_p() -> None:
    sure, near = difference(9, 6, 12, 1e-6), difference(3, 0.1, 6, 0.03)
    assert [d.verdict for d in decide([near])] == ["held"]
    assert [d.verdict for d in decide([near, near])] == ["cannot be told"] * 2  # 0.06 each
    found = decide([near, sure])
    assert [d.p_holm for d in found] == pytest.approx([0.03, 2e-6])
    assert [d.verdict for d in found] == ["held", "held"]
    small = difference(1, 0.05, 1.95, 0.03)
    assert [d.verdict for d in decide([small, small])] == ["comparable"] * 2
    assert [d.verdict for d in decide([sure, near], level=0.99)] == ["held", "cannot be told"]
    assert decide([]) == []
    with pytest.raises(UserError, match="a level has no p"):
        decide([difference(50, 40, 60, None)])


def test_what_is_not_known_cannot_be_told() -> None:
    (found,) = decide([Interval(3, -math.inf, math.inf, 1, 1, "seeds", p=1.0, se=math.inf)])
    assert found.verdict == "cannot be told" and found.smallest_detectable == math.inf


def test_smallest_detectable_is_the_known_power_of_the_t_test() -> None:
    # R's power.t.test(n = 20, delta = 1, sd = 1): power 0.8689528; the noncentrality is sqrt(20 / 2) with 38 degrees
    of_t = replace(difference(0, -1, 1, 1, df=38), se=1.0)
    assert smallest_detectable(of_t, power=0.8689528) == pytest.approx(math.sqrt(10), rel=1e-5)
    assert smallest_detectable(replace(of_t, df=None)) == pytest.approx(1.959964 + 0.841621, abs=1e-5)
    assert smallest_detectable(replace(of_t, df=1e7)) == pytest.approx(1.959964 + 0.841621, abs=1e-4)
    assert smallest_detectable(of_t.times(100)) == pytest.approx(100 * smallest_detectable(of_t))
    for df in (1.0, 2.0, 2.4, 30.0):  # its inverse: the power at the answer
        shift = smallest_detectable(replace(of_t, df=df), level=0.9, power=0.6)
        assert stats.nct.sf(stats.t.isf(0.05, df), df, shift) == pytest.approx(0.6)
    for power in (0.02, 1.0):
        with pytest.raises(UserError, match="power"):
            smallest_detectable(of_t, power=power)
    with pytest.raises(UserError, match="no standard error"):
        smallest_detectable(replace(of_t, se=None))


@pytest.mark.parametrize("seeds", [3, 5])
def test_smallest_detectable_is_found_four_times_in_five_over_seeds(seeds: int) -> None:
    smallest = smallest_detectable(replace(difference(0, -1, 1, 1, df=seeds - 1), se=1 / math.sqrt(seeds)))
    results = smallest + np.random.default_rng(1).normal(size=(20_000, seeds))  # one standard deviation
    found = stats.ttest_1samp(results, 0, axis=1)
    held = int(((found.pvalue < 0.05) & (found.statistic > 0)).sum())
    assert stats.binomtest(held, 20_000, 0.8).pvalue > 0.01


def test_the_level_and_the_power_that_are_asked_for_decide_what_can_be_detected() -> None:
    points = difference(1, -1, 3, 0.3, df=4)
    (found,) = decide([points], level=0.9, power=0.6)
    assert found.smallest_detectable == smallest_detectable(points, level=0.9, power=0.6)
    assert found.smallest_detectable < min(
        decide([points], level=0.9)[0].smallest_detectable, smallest_detectable(points, power=0.6)
    )
