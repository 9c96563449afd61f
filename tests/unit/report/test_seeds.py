"""Intervals over seeds and items: against scipy, by hand, and by simulated experiments."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from mdc.plan.records import UserError
from mdc.report.statistics.bootstrap import Column, replicate
from mdc.report.statistics.seeds import Component, satterthwaite, student, t_pvalue


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


def test_satterthwaite_is_welchs_and_by_hand() -> None:
    rng = np.random.default_rng(1)
    x, y = rng.normal(0, 1, 6), rng.normal(0, 3, 15)
    parts = [Component(float(v.var(ddof=1)) / len(v), len(v) - 1) for v in (x, y)]
    test = stats.ttest_ind(x, y, equal_var=False)
    whole = satterthwaite(parts)
    assert whole.df == pytest.approx(test.df)
    assert t_pvalue(x.mean() - y.mean(), whole.variance**0.5, whole.df) == pytest.approx(test.pvalue)
    # (4 + 1)² / (16 / 2 + 1 / 100)
    assert satterthwaite([Component(4, 2), Component(1, 100)]) == Component(5, pytest.approx(25 / 8.01))
    assert satterthwaite([Component(4, 2), Component(0, 100)]).df == pytest.approx(2)
    assert satterthwaite([Component(1e-200, 2)]).df == pytest.approx(2)
    assert satterthwaite([Component(0, 2), Component(0, 9)]) == Component(0, 2)


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
    if of_both:  # with interaction it errs to the wide side
        assert 0.95 < ours / 2500 < 0.985 and alone / 2500 < 0.95
    else:
        assert stats.binomtest(ours, 2500, 0.95).pvalue > 0.01 and alone / 2500 < 0.9
