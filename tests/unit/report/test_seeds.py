"""Intervals over seeds and items: against scipy, by hand, and by simulated experiments."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from mdc.plan.records import UserError
from mdc.report.statistics.bootstrap import Column, replicate
from mdc.report.statistics.seeds import Component, effective_df, half_width, student


def test_seeds_alone_are_students_interval() -> None:
    a, b = np.array([61.2, 60.1, 62.8, 61.9]), np.array([59.0, 60.4, 60.0, 60.9])
    expected = stats.ttest_1samp(a, 0).confidence_interval(0.9)
    ours = student(a, level=0.9)
    assert (ours.low, ours.high) == pytest.approx((expected.low, expected.high))
    assert (ours.n, ours.seeds, ours.kind, ours.df, ours.p, ours.level) == (4, 4, "seeds", 3, None, 0.9)
    paired, test = student(a - b, contrast=True), stats.ttest_rel(a, b)
    expected = test.confidence_interval(0.95)
    assert (paired.low, paired.high, paired.p) == pytest.approx((expected.low, expected.high, test.pvalue))
    assert student([2.0, 2.0, 2.0], contrast=True).p == 0 and student([0.0, 0.0, 0.0], contrast=True).p == 1
    for values in ([1.0], [1.0, np.nan]):
        with pytest.raises(UserError, match="two or more finite"):
            student(values)


def test_effective_degrees_of_freedom_are_welchs_and_by_hand() -> None:
    rng = np.random.default_rng(1)
    x, y = rng.normal(0, 1, 6), rng.normal(0, 3, 15)
    parts = [Component(float(v.var(ddof=1)) / len(v), len(v) - 1) for v in (x, y)]
    assert effective_df(parts) == pytest.approx(stats.ttest_ind(x, y, equal_var=False).df)
    # (4 + 1)² / (16 / 2 + 1 / 100)
    assert effective_df([Component(4, 2), Component(1, 100)]) == pytest.approx(25 / 8.01)
    assert (
        effective_df([Component(4, 2), Component(0, 100)]) == effective_df([Component(1e-200, 2)]) == pytest.approx(2)
    )
    assert effective_df([Component(0, 2), Component(0, 9)]) == 2


def test_each_part_has_a_quantile_of_its_own_and_p_is_where_the_interval_ends_at_0() -> None:
    values, items = [1.5, 0.7, 1.9], [Component(0.04, 59), Component(0.01, 39)]
    found = student(values, items, level=0.9, contrast=True)
    seeds = np.var(values, ddof=1) / 3
    reach = np.sqrt(stats.t.ppf(0.95, 2) ** 2 * seeds + stats.t.ppf(0.95, 39) ** 2 * 0.05)
    assert (found.low, found.high) == pytest.approx((found.value - reach, found.value + reach))
    assert found.se == pytest.approx(np.sqrt(seeds + 0.05)) and found.p is not None
    for sign in (1, -1):
        there = student(np.multiply(values, sign), items, level=1 - found.p, contrast=True)
        assert there.p == pytest.approx(found.p) and min(abs(there.low), abs(there.high)) == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize("seeds", [3, 5])
@pytest.mark.parametrize("ratio", [0.1, 1.0, 10.0, 100.0])
def test_a_table_of_six_true_null_hypotheses_seldom_holds_a_false_verdict(seeds: int, ratio: float) -> None:
    """``ratio``: of the seeds' part of the variance to the items'. Holm's first step decides whether a table has a false one."""
    rng, tables, groups = np.random.default_rng(5), 20_000, 200
    size = (tables, 6)
    of_seeds = ratio * rng.chisquare(seeds - 1, size) / (seeds - 1)
    of_items = rng.chisquare(groups - 1, size) / (groups - 1)
    found = np.abs(rng.normal(0, np.sqrt(ratio + 1), size))
    level = 1 - 0.05 / 6
    one = [half_width([Component(1.0, df)], level) ** 2 for df in (seeds - 1, groups - 1)]
    assert half_width([Component(2.0, seeds - 1), Component(3.0, groups - 1)], level) ** 2 == pytest.approx(
        2 * one[0] + 3 * one[1]
    )
    false = (found**2 > one[0] * of_seeds + one[1] * of_items).any(axis=1).mean()
    assert false < 0.052, "20,000 tables of 5 % differ by 0.15 points"


def test_the_items_part_is_the_variance_of_the_mean_with_its_degrees_of_freedom() -> None:
    rng = np.random.default_rng(2)
    x, y, images = rng.normal(0, 1, 40), rng.normal(0, 2, 30), tuple(i // 3 for i in range(30))
    found = replicate([Column(x, 40), Column(y, 30, images)], rng, 40_000).components()
    alone = y.reshape(10, 3).mean(axis=1).var(ddof=1) / 10
    assert [part.df for part in found] == [39, 9]
    assert [part.variance for part in found] == pytest.approx([x.var(ddof=1) / 40 / 4, alone / 4], rel=0.03)


def coverage(
    seeds: int, of_seed: float, of_item: float, of_both: float, rounds: int = 2500, items: int = 100
) -> tuple[int, int]:
    """How many of ``rounds`` experiments cover the true mean 0: with seeds and items, and with seeds alone.

    The variances are those of the mean over seeds and items that each part gives.
    """
    rng = np.random.default_rng(11)
    ours = alone = 0
    for _ in range(rounds):
        results = (seeds * of_seed) ** 0.5 * rng.normal(size=(seeds, 1))
        results = results + (items * of_item) ** 0.5 * rng.normal(size=(1, items))
        results = results + (seeds * items * of_both) ** 0.5 * rng.normal(size=(seeds, items))
        part = Component(float(results.mean(axis=0).var(ddof=1)) / items, items - 1)
        whole, old = student(results.mean(axis=1), [part]), student(results.mean(axis=1))
        ours += whole.low <= 0 <= whole.high
        alone += old.low <= 0 <= old.high
    return ours, alone


@pytest.mark.parametrize(("seeds", "of_item", "of_both"), [(5, 1, 0), (3, 3, 0), (3, 1, 1)])
def test_new_seeds_and_new_items_are_covered_where_seeds_alone_cover_too_rarely(
    seeds: int, of_item: float, of_both: float
) -> None:
    ours, alone = coverage(seeds, 1, of_item, of_both)
    # it errs to the wide side: with interaction, and because no part may hide behind the other's degrees of freedom
    assert 0.945 < ours / 2500 < 0.99 and alone / 2500 < (0.95 if of_both else 0.9)
