"""Intervals over items: against enumeration, brute force, scipy and exact laws."""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Sequence

import numpy as np
import pytest
from scipy import stats

from mdc.plan.records import UserError
from mdc.report.statistics import resampling
from mdc.report.statistics.bootstrap import Column, level_over_items, percentile, replicate
from mdc.report.statistics.contrasts import holm
from mdc.report.statistics.exact import proportion, right_or_wrong
from mdc.report.statistics.interval import Interval
from mdc.report.statistics.metrics import mean_average_precision
from mdc.report.statistics.resampling import Resampler


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def mean(values: np.ndarray, draws: int = 20_000, seed: int = 0, contrast: bool = False) -> Interval:
    """The bootstrap interval of the mean of items that share nothing."""
    return percentile(replicate([Column(np.asarray(values, float), len(values))], rng(seed), draws), contrast=contrast)


@pytest.mark.parametrize("values", [rng(1).random(400) < 0.7, rng(2).normal(3, 2, 400)])
def test_bootstrap_of_a_mean_is_near_the_normal_interval(values: np.ndarray) -> None:
    x = values.astype(float)
    interval = mean(x)
    error = x.std() / np.sqrt(len(x))
    assert interval.value == x.mean()
    assert (interval.n, interval.seeds, interval.kind, interval.p) == (400, 1, "bootstrap", None)
    assert interval.draws == 20_000
    assert interval.se == pytest.approx(error, rel=0.02)
    # the quantiles' Monte Carlo error is about 1.3 % of the reach, the lattice of 0/1 means and skew add a little
    assert interval.low == pytest.approx(x.mean() - 1.959964 * error, abs=0.16 * error)
    assert interval.high == pytest.approx(x.mean() + 1.959964 * error, abs=0.16 * error)


def test_means_have_the_exact_distribution_on_a_small_case() -> None:
    """All 4^4 resamples of four items, two of them equal, against the multinomial draws."""
    x = np.array([0.0, 0.0, 1.0, 3.0])
    exact = np.array([np.mean(pick) for pick in itertools.product(x, repeat=4)])
    drawn = replicate([Column(x, 4)], rng(), 200_000).whole
    for value in np.unique(exact):
        assert np.isclose(drawn, value).mean() == pytest.approx((np.isclose(exact, value)).mean(), abs=0.005)


@pytest.mark.parametrize("groups", [10, 50])
def test_the_bootstrap_seldom_rejects_what_is_true(groups: int) -> None:
    """Skewed differences of mean 0 in ``groups`` images of two items each: 5 of 100 are promised."""
    source, rejected = rng(4), 0
    labels = tuple(place // 2 for place in range(2 * groups))
    for _ in range(400):
        of = np.repeat(source.exponential(size=groups) - source.exponential(size=groups), 2)
        found = percentile(replicate([Column(of, 2 * groups, labels)], rng(), 400), contrast=True)
        assert found.p is not None and (found.p < 0.05) == (found.low > 0 or found.high < 0)
        rejected += found.p < 0.05
    assert 0.02 < rejected / 400 < 0.075


def test_bootstrap_p_value_is_near_the_normal_one() -> None:
    x = rng(8).normal(0.1, 1, 400)
    expected = 2 * stats.norm.sf(abs(x.mean()) / (x.std() / 20))
    assert mean(x, 50_000, contrast=True).p == pytest.approx(expected, rel=0.15)
    assert mean(np.zeros(30), contrast=True).p == 1
    assert mean(np.ones(30), 999, contrast=True).p == pytest.approx(2 / 1000)  # never 0


def test_average_resamples_within_each_column() -> None:
    """The analytic standard error: columns independent, each of its own size and spread."""
    parts = [rng(1).normal(5, 1, 200), rng(2).normal(1, 3, 50), rng(3).normal(0, 2, 800)]
    columns = [Column(x, len(x)) for x in parts]
    interval = percentile(replicate(columns, rng(), 20_000))
    error = np.sqrt(sum(x.var() / len(x) for x in parts)) / 3
    assert interval.value == pytest.approx(np.mean([x.mean() for x in parts]))
    assert interval.se == pytest.approx(error, rel=0.03)
    assert interval.n == 1050
    mixed = [columns[0], Column(lambda counts: counts @ parts[1] / 50, 50), columns[2]]
    again = percentile(replicate(mixed, rng(9), 20_000))
    assert again.value == pytest.approx(interval.value)
    assert again.se == pytest.approx(error, rel=0.03)


def test_resamples_on_which_a_statistic_is_not_defined_are_left_out_and_not_counted() -> None:
    def first_two(counts: np.ndarray) -> np.ndarray:  # the share of item 0 among items 0 and 1
        with np.errstate(invalid="ignore"):
            return np.asarray(counts[:, 0] / counts[:, :2].sum(axis=1))

    interval = percentile(replicate([Column(first_two, 5)], rng(), 20_000))
    assert interval.draws == pytest.approx(20_000 * (1 - 0.6**5), rel=0.01)
    with pytest.raises(UserError, match="not defined on any resample"):
        replicate([Column(lambda counts: np.where((counts == 1).all(1), 1, np.nan), 20)], rng(), 5)
    with pytest.raises(UserError, match="not defined on the items"):
        replicate([Column(lambda counts: np.full(len(counts), np.nan), 9)], rng(), 5)


def test_interval_of_a_biased_statistic_lies_around_its_value() -> None:
    """Average precision on resamples is biased upwards; its spread over fresh samples says what the interval should be."""

    def sample(drawn: np.random.Generator, n: int = 400) -> tuple[np.ndarray, np.ndarray]:
        targets = (drawn.random((n, 3)) < 0.08).astype(np.int64)
        return drawn.normal(size=(n, 3)) + 0.7 * targets, targets

    fresh = [float(mean_average_precision(*sample(rng(1000 + seed)))) for seed in range(300)]
    spread = np.std(fresh)
    inside = 0
    for seed in range(40):
        scores, targets = sample(rng(seed))
        column = Column(lambda counts, s=scores, t=targets: mean_average_precision(s, t, counts), len(scores))
        found = percentile(replicate([column], rng(), 300))
        assert found.low < found.value < found.high
        assert abs((found.low + found.high) / 2 - found.value) < 0.35 * (found.high - found.low)
        assert 0.5 * spread < (found.high - found.low) / (2 * 1.96) < 2 * spread
        inside += found.low <= np.mean(fresh) <= found.high
    assert inside >= 33, f"{inside} of 40 intervals hold the true value; a 95 % interval rarely holds fewer than 33"


def test_what_has_no_mean_is_refused() -> None:
    for values in ([], [[1.0]], [np.nan]):
        with pytest.raises(UserError):
            Column(np.asarray(values, float), len(values))
    with pytest.raises(UserError, match="2 groups for 3 items"):
        Column(np.ones(3), 3, groups="ab")
    with pytest.raises(UserError, match="no column"):
        replicate([], rng(), 10)
    with pytest.raises(UserError, match="1 item; two"):
        mean(np.ones(1))


GROUPS = ("a", "b", "a", "c", "c", "c", "d", "b", "e")


def _counts(groups: Sequence[Hashable], draws: int) -> np.ndarray:
    """How often each item occurs in each resample, (draws, N)."""
    resampler = Resampler(groups, draws, rng(1))
    return np.concatenate(list(resampler.drawn()))[:, resampler.places(groups)]


def test_grouped_means_have_the_exact_distribution_on_a_small_case() -> None:
    """All 3^3 resamples of three groups of unlike sizes, drawn as frequencies and as counts of items."""
    x, groups = np.array([1.0, 0.0, 0.5, 1.0, 1.0]), ("a", "a", "b", "c", "c")
    of_group = {one: x[[g == one for g in groups]] for one in "abc"}
    exact = np.array(
        [np.concatenate([of_group[one] for one in pick]).mean() for pick in itertools.product("abc", repeat=3)]
    )

    def as_counts(counts: np.ndarray) -> np.ndarray:
        return np.asarray(counts @ x / counts.sum(axis=1))

    for of in (x, as_counts):
        drawn = replicate([Column(of, 5, groups)], rng(), 100_000).whole
        if callable(of):
            drawn = drawn + exact.mean() - x.mean()  # of a statistic the bias is taken off
        for value in np.unique(exact.round(12)):
            assert np.isclose(drawn, value, atol=5e-3).mean() == pytest.approx(
                np.isclose(exact, value).mean(), abs=0.006
            )


def test_groups_of_one_item_are_no_groups() -> None:
    x = rng(1).normal(size=200)
    alone = percentile(replicate([Column(x, 200, tuple(range(200)))], rng(1), 20_000))
    free = mean(x, seed=2)
    assert alone.se == pytest.approx(free.se, rel=0.03)
    ungrouped = np.concatenate(list(Resampler(None, 50, rng(1), items=9).drawn()))
    assert (_counts("abcdefghi", 50) == ungrouped).all()
    assert (ungrouped.sum(axis=1) == 9).all()


def test_one_group_has_no_variance_and_is_refused() -> None:
    with pytest.raises(UserError, match="5 items in 1 group; two groups are needed"):
        Resampler("aaaaa", 10, rng())
    with pytest.raises(UserError, match="groups, or their number"):
        Resampler(None, 10, rng())


def test_columns_that_share_images_share_one_draw() -> None:
    images = tuple(i // 2 for i in range(200))
    x = np.repeat(rng(1).normal(size=100), 2) + rng(2).normal(size=200) / 10
    one = Column(x, 200, images)
    same = percentile(replicate([one, one], rng(), 20_000))
    assert same.se == pytest.approx(percentile(replicate([one], rng(), 20_000)).se or 0, rel=0.02)
    # the second cancels the first image by image, which it only can on the same draw
    against = percentile(replicate([one, Column(-x, 200, images)], rng(), 500))
    assert (against.low, against.high) == pytest.approx((0, 0), abs=1e-12)
    # as a statistic, too
    as_counts = Column(lambda counts: -(counts @ x) / counts.sum(axis=1), 200, images)
    both = percentile(replicate([one, as_counts], rng(), 500))
    assert both.se is not None and both.se < 1e-12
    # other images: as independent columns
    other = percentile(replicate([one, Column(x, 200, tuple(f"other {i}" for i in images))], rng(), 20_000))
    assert other.se == pytest.approx((same.se or 0) / np.sqrt(2), rel=0.03)


def test_a_column_may_lack_images_that_another_has() -> None:
    """Two images each, three in all: a column is not defined where none of its own was drawn."""
    columns = [Column(np.array([0.0, 1.0]), 2, (a, b)) for a, b in ("ab", "bc")]
    found = replicate(columns, rng(), 40_000)
    exact = [
        (pick.count("b") / (pick.count("a") + pick.count("b")) + pick.count("c") / (pick.count("b") + pick.count("c")))
        / 2
        for pick in ("".join(p) for p in itertools.product("abc", repeat=3))
        if set(pick) & set("ab") and set(pick) & set("bc")
    ]
    assert len(found.whole) == pytest.approx(40_000 * len(exact) / 3**3, rel=0.01)
    for value in np.unique(exact):
        assert np.isclose(found.whole, value).mean() == pytest.approx(np.isclose(exact, value).mean(), abs=0.01)


def test_columns_that_share_no_image_are_drawn_apart() -> None:
    """A column of 3 images beside one of 150: each has its own draws, and its own degrees of freedom."""
    x = rng(1).normal(size=306)
    small = Column(x[:6], 6, tuple(i // 2 for i in range(6)))
    large = Column(x[6:], 300, tuple(100 + i // 2 for i in range(300)))
    found = replicate([small, large], rng(), 20_000)
    assert len(found.whole) == 20_000, "no resample lacks a column"
    assert [part.df for part in found.components()] == [2, 149]
    alone = [replicate([column], rng(), 20_000).whole.var() / 4 for column in (small, large)]
    assert found.whole.var() == pytest.approx(sum(alone), rel=0.03)
    # what lies between two that share nothing joins them
    middle = Column(np.ones(2), 2, (0, 100))
    assert len(replicate([small, large, middle], rng(), 500).parts) == 1
    assert [g for _, g in replicate([middle, small, large], rng(), 500).parts] == [153]


def test_blocks_do_not_change_the_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = _counts(GROUPS, 45)
    grouped = replicate([Column(np.arange(9.0), 9, GROUPS)], rng(), 45).whole
    monkeypatch.setattr(resampling, "_CELLS", 70)
    blocks = list(Resampler(GROUPS, 45, rng(1)).drawn(width=9))
    assert [len(block) for block in blocks] == [7, 7, 7, 7, 7, 7, 3]
    assert (np.concatenate(blocks)[:, Resampler(GROUPS, 1, rng()).places(GROUPS)] == whole).all()
    assert (replicate([Column(np.arange(9.0), 9, GROUPS)], rng(), 45).whole == grouped).all()


@pytest.mark.parametrize(("right", "n"), [(0, 20), (1, 20), (7, 20), (20, 20), (63, 64), (0, 1)])
@pytest.mark.parametrize("level", [0.95, 0.8])
def test_exact_interval_inverts_the_tails_of_the_binomial(right: int, n: int, level: float) -> None:
    found = proportion(right, n, level)
    tail = (1 - level) / 2
    assert (found.value, found.n, found.kind, found.level) == (right / n, n, "exact", level)
    if right:
        assert stats.binom.sf(right - 1, n, found.low) == pytest.approx(tail)
    else:
        assert found.low == 0 and found.high == pytest.approx(1 - tail ** (1 / n))
    if right < n:
        assert stats.binom.cdf(right, n, found.high) == pytest.approx(tail)
    else:
        assert found.high == 1 and found.low == pytest.approx(tail ** (1 / n))


def test_only_unclustered_right_or_wrong_items_of_one_checkpoint_are_exact() -> None:
    right = np.ones(30)

    def kind(*columns: Column, seeds: int = 1) -> str:
        return level_over_items(columns, rng(), 100, seeds=seeds).kind

    exact = level_over_items([Column(right, 30)], rng(), 100)
    assert exact == proportion(30, 30) and exact.low < 0.9 < exact.high == 1
    assert kind(Column(right, 30, tuple(range(30)))) == "exact"  # no two share an image
    assert kind(Column(right, 30, tuple(i // 2 for i in range(30)))) == "bootstrap"
    assert kind(Column(np.r_[right[1:], 0.5], 30)) == "bootstrap"
    assert kind(Column(right, 30), Column(right, 30)) == "bootstrap"
    assert kind(Column(right, 30), seeds=2) == "bootstrap"
    assert kind(Column(lambda counts: counts[:, 0], 30)) == "bootstrap"
    assert right_or_wrong([0, 1]) and not right_or_wrong([0, 1 / 3])
    with pytest.raises(UserError, match="3 of 2"):
        proportion(3, 2)


def test_holm_of_nothing_and_of_what_is_no_p() -> None:
    assert holm([]).tolist() == []
    with pytest.raises(UserError, match="in 0 to 1"):
        holm([0.1, np.nan])


@pytest.mark.parametrize("seed", range(10))
def test_holm_rejects_what_its_steps_and_closed_testing_reject(seed: int) -> None:
    """Step by step as Holm wrote it, and by the closure principle with Bonferroni on every intersection."""
    p = rng(seed).random(5) ** 3
    adjusted = holm(p)
    for level in (0.01, 0.05, 0.2, 0.5):
        rejected, left = set(), sorted(range(5), key=lambda i: p[i])
        while left and p[left[0]] <= level / len(left):
            rejected.add(left.pop(0))
        assert rejected == {i for i in range(5) if adjusted[i] <= level}
    for i in range(5):
        subsets = (s for size in range(1, 6) for s in itertools.combinations(range(5), size) if i in s)
        assert adjusted[i] == pytest.approx(max(min(1, len(s) * p[list(s)].min()) for s in subsets))
