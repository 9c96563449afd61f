"""Intervals and p-values: against scipy, by hand, and by simulated experiments."""

import numpy as np
import pytest
from scipy import stats
from shown import ends

from mdc.plan.records import UserError
from mdc.report.statistics.estimate import Component, effective_df, estimate, exact, half_width, over_seeds
from mdc.report.statistics.replicates import Items, Replicates, resampled


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def of(values: np.ndarray, draws: int = 4000, of_group: int = 1, **more: object) -> Replicates:
    """Of ``values`` (S, N), ``of_group`` items to a group."""
    table = np.atleast_2d(np.asarray(values, float))
    ids = tuple(map(str, range(table.shape[1])))
    groups = tuple(f"g{place // of_group}" for place in range(table.shape[1]))
    return resampled({"x": [Items(ids, row, groups, **more) for row in table]}, draws)["x"]  # type: ignore[arg-type]


@pytest.mark.parametrize("values", [rng(1).random(400) < 0.7, rng(2).normal(3, 2, 400)])
def test_one_seeds_bootstrap_is_near_the_normal_interval(values: np.ndarray) -> None:
    x = values.astype(float)
    found, error = estimate(of(x, 20_000)), x.std(ddof=1) / 20
    assert (found.value, found.n, found.groups, found.seeds) == (x.mean(), 400, 400, 1)
    assert (found.kind, found.p, found.draws, found.scope) == ("bootstrap", None, 20_000, "checkpoints")
    assert found.se == pytest.approx(error, rel=0.02)
    # the quantiles' Monte Carlo error is about 1.3 % of the reach, the lattice of 0/1 means and skew add a little
    assert ends(found) == (
        pytest.approx(x.mean() - 1.97 * error, abs=0.16 * error),
        pytest.approx(x.mean() + 1.97 * error, abs=0.16 * error),
    )
    difference = estimate(of(x - x.mean() + 0.1 * error * 20 / 20 + 1.5 * error, 50_000), contrast=True)
    assert difference.p == pytest.approx(2 * stats.t(399).sf(abs(difference.value) / error), rel=0.15)


@pytest.mark.parametrize("groups", [10, 50])
def test_the_bootstrap_seldom_excludes_what_is_true(groups: int) -> None:
    """Skewed differences of mean 0 in ``groups`` images of two items each: 5 of 100 are promised."""
    source, excluded = rng(4), 0
    for _ in range(400):
        row = np.repeat(source.exponential(size=groups) - source.exponential(size=groups), 2)
        found = estimate(of(row, 400, of_group=2), contrast=True)
        low, high = ends(found)
        excluded += not low <= 0 <= high
        assert found.p is None if groups < 50 else found.p is not None and (found.p < 0.05) == (not low <= 0 <= high)
    assert 0.02 < excluded / 400 < 0.075


@pytest.mark.parametrize(
    ("groups", "seeds", "few"), [(49, 1, True), (50, 1, False), (49, 2, True), (19, 3, True), (20, 3, False)]
)
def test_too_few_groups_give_no_p(groups: int, seeds: int, few: bool) -> None:
    """As two images, both of which favour a method."""
    found = estimate(of(1 + rng(1).normal(size=(seeds, groups)) / 10, 200), contrast=True)
    assert (found.p is None) == found.few == few and found.low is not None


def test_what_never_varies_has_neither_interval_nor_p() -> None:
    for values in (np.ones(60), np.ones((3, 60))):
        found = estimate(of(values), contrast=True)
        assert (found.value, found.low, found.high, found.p, found.se) == (1, None, None, None, 0)
    # seeds alone may vary
    assert estimate(of(np.repeat([[1.0], [2.0], [4.0]], 60, axis=1)), contrast=True).p is not None


def test_resamples_on_which_it_is_not_defined_are_left_out_and_not_counted() -> None:
    def first_two(counts: np.ndarray) -> np.ndarray:  # the share of item 0 among items 0 and 1
        with np.errstate(invalid="ignore"):
            return np.asarray(counts[:, 0] / counts[:, :2].sum(axis=1))

    ids = tuple("abcde")
    found = estimate(resampled({"x": [Items(ids, first_two, ids)]}, 20_000)["x"])
    assert found.draws == pytest.approx(20_000 * (1 - 0.6**5), rel=0.01)
    with pytest.raises(UserError, match="not defined on any resample"):
        estimate(Replicates(np.array([[1.0, np.nan, np.nan]]), 5, 5))


@pytest.mark.parametrize(("right", "n"), [(0, 20), (1, 20), (7, 20), (20, 20), (63, 64), (0, 1)])
@pytest.mark.parametrize("level", [0.95, 0.8])
def test_the_exact_interval_is_scipys(right: int, n: int, level: float) -> None:
    expected = stats.binomtest(right, n).proportion_ci(confidence_level=level, method="exact")
    found = exact(right, n, level)
    assert (found.value, found.n, found.kind, found.level) == (right / n, n, "exact", level)
    assert ends(found) == pytest.approx((expected.low, expected.high), abs=1e-12)


def test_only_independent_answers_of_one_checkpoint_are_exact() -> None:
    right = np.r_[np.ones(25), np.zeros(5)]
    answers = of(right, kind="answers")
    assert estimate(answers) == exact(25, 30) and estimate(answers.times(100)).high == pytest.approx(
        100 * (exact(25, 30).high or 0)
    )
    assert estimate(answers, contrast=True).kind == "bootstrap"
    assert estimate(of(right, kind="share")).kind == "bootstrap"
    assert estimate(of(right, of_group=2, kind="answers")).kind == "bootstrap"
    assert estimate(of(np.r_[right[1:], 0.5], kind="answers")).kind == "bootstrap"  # a tie
    assert estimate(of(np.stack([right, right[::-1]]), kind="answers")).kind == "bootstrap"
    assert estimate(answers - of(right * 0, kind="answers")).kind == "bootstrap"
    with pytest.raises(UserError, match="3 of 2"):
        exact(3, 2)


def test_an_interval_of_a_share_ends_at_0_and_100() -> None:
    high = (rng(3).random((3, 40)) < 0.97).astype(float)
    high[0] = 1
    assert estimate(of(high, kind="share").times(100)).high == 100
    assert (estimate(of(high)).high or 0) > 1, "of what is no share it goes on"


def test_seeds_alone_are_students_interval() -> None:
    a, b = np.array([61.2, 60.1, 62.8, 61.9]), np.array([59.0, 60.4, 60.0, 60.9])
    expected = stats.ttest_1samp(a, 0).confidence_interval(0.9)
    ours = over_seeds(a, level=0.9)
    assert ends(ours) == pytest.approx((expected.low, expected.high))
    assert (ours.n, ours.seeds, ours.kind, ours.df, ours.p, ours.level) == (4, 4, "seeds", 3, None, 0.9)
    paired, test = over_seeds(a - b, contrast=True), stats.ttest_rel(a, b)
    expected = test.confidence_interval(0.95)
    assert (*ends(paired), paired.p) == pytest.approx((expected.low, expected.high, test.pvalue))
    for values in ([1.0], [1.0, np.nan]):
        with pytest.raises(UserError, match="two or more finite"):
            over_seeds(values)


def test_effective_degrees_of_freedom_are_welchs_and_by_hand() -> None:
    x, y = rng(1).normal(0, 1, 6), rng(2).normal(0, 3, 15)
    parts = [Component(float(v.var(ddof=1)) / len(v), len(v) - 1) for v in (x, y)]
    assert effective_df(parts) == pytest.approx(stats.ttest_ind(x, y, equal_var=False).df)
    # (4 + 1)² / (16 / 2 + 1 / 100)
    assert effective_df([Component(4, 2), Component(1, 100)]) == pytest.approx(25 / 8.01)
    assert (
        effective_df([Component(4, 2), Component(0, 100)]) == effective_df([Component(1e-200, 2)]) == pytest.approx(2)
    )
    assert effective_df([Component(0, 2), Component(0, 9)]) == 2


@pytest.mark.parametrize("of_group", [1, 4])
def test_three_seeds_count_seeds_and_items_each_with_a_quantile_of_its_own(of_group: int) -> None:
    x = rng(3).normal(size=(4, 400)) + rng(4).normal(size=(4, 1)) / 5 + 0.1
    found = estimate(of(x, 20_000, of_group), contrast=True)
    groups = 400 // of_group
    of_seeds = x.mean(axis=1).var(ddof=1) / 4
    of_items = x.mean(axis=0).reshape(groups, of_group).mean(axis=1).var(ddof=1) / groups
    assert found.value == pytest.approx(x.mean()) and found.se == pytest.approx((of_seeds + of_items) ** 0.5, rel=0.02)
    reach = np.hypot(stats.t(3).ppf(0.975) * of_seeds**0.5, stats.t(groups - 1).ppf(0.975) * of_items**0.5)
    assert np.subtract(*ends(found)[::-1]) == pytest.approx(2 * reach, rel=0.02)
    assert (found.kind, found.scope, found.seeds, found.n, found.groups) == (
        "seeds and items",
        "methods",
        4,
        400,
        groups,
    )
    # p is the level at which the interval ends at 0
    assert found.p is not None
    for sign in (1, -1):
        edge = estimate(of(sign * x, 20_000, of_group), level=1 - found.p, contrast=True)
        assert edge.p == pytest.approx(found.p) and min(map(abs, ends(edge))) == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize("seeds", [3, 5])
@pytest.mark.parametrize("ratio", [0.1, 1.0, 10.0, 100.0])
def test_a_table_of_six_true_null_hypotheses_seldom_holds_a_false_verdict(seeds: int, ratio: float) -> None:
    """``ratio``: of the seeds' part of the variance to the items'. Holm's first step decides whether a table has a false one."""
    source, tables, groups = rng(5), 20_000, 200
    size = (tables, 6)
    of_seeds = ratio * source.chisquare(seeds - 1, size) / (seeds - 1)
    of_items = source.chisquare(groups - 1, size) / (groups - 1)
    found = np.abs(source.normal(0, np.sqrt(ratio + 1), size))
    level = 1 - 0.05 / 6
    one = [half_width([Component(1.0, df)], level) ** 2 for df in (seeds - 1, groups - 1)]
    assert half_width([Component(2.0, seeds - 1), Component(3.0, groups - 1)], level) ** 2 == pytest.approx(
        2 * one[0] + 3 * one[1]
    )
    false = (found**2 > one[0] * of_seeds + one[1] * of_items).any(axis=1).mean()
    assert false < 0.052, "20,000 tables of 5 % differ by 0.15 points"


def coverage(
    seeds: int, of_seed: float, of_item: float, of_both: float, rounds: int = 2500, items: int = 100
) -> tuple[int, int]:
    """How many of ``rounds`` experiments cover the true mean 0: with seeds and items, and with seeds alone.

    The variances are those of the mean over seeds and items that each part gives.
    """
    source = rng(11)
    ours = alone = 0
    for _ in range(rounds):
        results = (seeds * of_seed) ** 0.5 * source.normal(size=(seeds, 1))
        results = results + (items * of_item) ** 0.5 * source.normal(size=(1, items))
        results = results + (seeds * items * of_both) ** 0.5 * source.normal(size=(seeds, items))
        part = Component(float(results.mean(axis=0).var(ddof=1)) / items, items - 1)
        whole, old = ends(over_seeds(results.mean(axis=1), part)), ends(over_seeds(results.mean(axis=1)))
        ours += whole[0] <= 0 <= whole[1]
        alone += old[0] <= 0 <= old[1]
    return ours, alone


@pytest.mark.parametrize(("seeds", "of_item", "of_both"), [(5, 1, 0), (3, 3, 0), (3, 1, 1)])
def test_new_seeds_and_new_items_are_covered_where_seeds_alone_cover_too_rarely(
    seeds: int, of_item: float, of_both: float
) -> None:
    ours, alone = coverage(seeds, 1, of_item, of_both)
    # it errs to the wide side: with interaction, and because no part may hide behind the other's degrees of freedom
    assert 0.945 < ours / 2500 < 0.99 and alone / 2500 < (0.95 if of_both else 0.9)
