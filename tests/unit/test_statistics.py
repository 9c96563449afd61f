"""Statistics against analytic results, scipy, brute force and hand computation."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import stats

from mdc.records import UserError
from mdc.statistics import intervals as st
from mdc.statistics.metrics import mean_average_precision


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


@pytest.mark.parametrize(
    "values", [rng(1).random(400) < 0.7, rng(2).normal(3, 2, 400), rng(3).choice([0, 0.5, 1], 400)]
)
def test_bootstrap_mean_is_near_the_normal_interval(values: np.ndarray) -> None:
    x = values.astype(float)
    interval = st.bootstrap_mean(x, rng(), draws=20_000)
    reach = 1.959964 * x.std() / np.sqrt(len(x))
    assert interval.value == x.mean()
    assert (interval.n, interval.kind, interval.p) == (400, "items", None)
    # the quantiles' Monte Carlo error is about 1.3 % of the reach, the lattice of 0/1 means and skew add a little
    assert interval.low == pytest.approx(x.mean() - reach, abs=0.08 * reach)
    assert interval.high == pytest.approx(x.mean() + reach, abs=0.08 * reach)


def test_bootstrap_mean_has_the_exact_distribution_on_a_small_case() -> None:
    """All 4^4 resamples of four items against the drawn ones."""
    x = np.array([0.0, 0.0, 1.0, 3.0])
    exact = np.array([np.mean(pick) for pick in itertools.product(x, repeat=4)])
    drawn = st._mean_draws(x, rng(), 200_000)
    for value in np.unique(exact):
        assert np.isclose(drawn, value).mean() == pytest.approx((np.isclose(exact, value)).mean(), abs=0.005)


def test_bootstrap_interval_covers_the_truth_about_95_times_in_100() -> None:
    draws = rng(5)
    hits = 0
    for _ in range(400):
        interval = st.bootstrap_mean(draws.random(300) < 0.6, draws, draws=400)
        hits += interval.low <= 0.6 <= interval.high
    assert stats.binomtest(hits, 400, 0.945).pvalue > 1e-3


def test_the_same_generator_gives_the_same_interval() -> None:
    x = rng(1).random(50)
    assert st.bootstrap_mean(x, rng(4)) == st.bootstrap_mean(x, rng(4))
    assert st.bootstrap_mean(x, rng(4)) != st.bootstrap_mean(x, rng(5))


def test_pairing_uses_the_correlation() -> None:
    base = rng(1).normal(size=500)
    a, b = base + 0.1 + 0.01 * rng(2).normal(size=500), base
    paired = st.bootstrap_paired(a, b, rng())
    assert paired.value == pytest.approx((a - b).mean())
    assert paired.high - paired.low < 0.01 < st.bootstrap_mean(a, rng()).high - st.bootstrap_mean(a, rng()).low
    assert paired.p is not None and paired.p < 0.01
    assert st.bootstrap_paired(b, a, rng()).value == -paired.value


def test_bootstrap_p_value_is_near_the_normal_one() -> None:
    x = rng(8).normal(0.1, 1, 400)
    interval = st.bootstrap_paired(x, np.zeros(400), rng(), draws=50_000)
    expected = 2 * stats.norm.sf(abs(x.mean()) / (x.std() / 20))
    assert interval.p == pytest.approx(expected, rel=0.15)
    assert st.bootstrap_paired([1.0, 2.0], [1.0, 2.0], rng()).p == 1


def test_a_statistic_that_is_a_mean_gives_the_mean_interval() -> None:
    x = rng(1).normal(size=300)
    general = st.bootstrap_statistic(lambda counts: counts @ x / len(x), 300, rng(1), draws=20_000)
    direct = st.bootstrap_mean(x, rng(2), draws=20_000)
    width = direct.high - direct.low
    assert general.value == pytest.approx(direct.value)
    assert general.low == pytest.approx(direct.low, abs=0.04 * width)
    assert general.high == pytest.approx(direct.high, abs=0.04 * width)


def test_chunks_do_not_change_the_number_of_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(st, "_CELLS", 70)
    sizes: list[tuple[int, ...]] = []

    def statistic(counts: np.ndarray) -> np.ndarray:
        sizes.append(counts.shape)
        assert (counts.sum(axis=1) == 10).all()
        return counts[:, 0]

    st.bootstrap_statistic(statistic, 10, rng(), draws=45)
    assert sum(rows for rows, _ in sizes[1:]) == 45 and max(rows for rows, _ in sizes[1:]) == 7


def test_mean_average_precision_interval_is_near_a_plain_loop() -> None:
    draws = rng(3)
    targets = (draws.random((150, 4)) < 0.3).astype(int)
    scores = targets + draws.normal(size=(150, 4))
    fast = st.bootstrap_statistic(lambda counts: mean_average_precision(scores, targets, counts), 150, rng(), 2000)
    slow = []
    for _ in range(400):
        items = draws.integers(0, 150, 150)
        slow.append(mean_average_precision(scores[items], targets[items]))
    low, high = np.quantile(slow, [0.025, 0.975])
    assert fast.low == pytest.approx(low, abs=0.2 * (high - low))
    assert fast.high == pytest.approx(high, abs=0.2 * (high - low))


def test_average_resamples_within_each_benchmark() -> None:
    """The analytic standard error: benchmarks independent, each of its own size and spread."""
    parts = [rng(1).normal(5, 1, 200), rng(2).normal(1, 3, 50), rng(3).normal(0, 2, 800)]
    interval = st.bootstrap_average(parts, rng(), draws=20_000)
    reach = 1.959964 * np.sqrt(sum(x.var() / len(x) for x in parts)) / 3
    assert interval.value == pytest.approx(np.mean([x.mean() for x in parts]))
    assert (interval.high - interval.low) / 2 == pytest.approx(reach, rel=0.05)
    assert interval.n == 1050
    mixed = st.bootstrap_average([parts[0], (lambda c: c @ parts[1] / 50, 50), parts[2]], rng(9), draws=20_000)
    assert mixed.value == pytest.approx(interval.value)
    assert (mixed.high - mixed.low) / 2 == pytest.approx(reach, rel=0.05)
    shifted = [x - 0.5 for x in parts]
    paired = st.bootstrap_average_paired(parts, shifted, rng())
    assert (paired.low, paired.high) == pytest.approx((0.5, 0.5))


def test_t_intervals_are_scipys() -> None:
    a, b = np.array([61.2, 60.1, 62.8, 61.9]), np.array([59.0, 60.4, 60.0, 60.9])
    expected = stats.ttest_1samp(a, 0).confidence_interval(0.95)
    ours = st.t_interval(a)
    assert (ours.low, ours.high) == pytest.approx((expected.low, expected.high))
    assert (ours.n, ours.kind) == (4, "seeds")
    paired, test = st.t_interval_paired(a, b), stats.ttest_rel(a, b)
    expected = test.confidence_interval(0.95)
    assert (paired.low, paired.high, paired.p) == pytest.approx((expected.low, expected.high, test.pvalue))
    with pytest.raises(UserError, match="needs 2 or more"):
        st.t_interval([1.0])


def test_holm_by_hand() -> None:
    # 0.005*4, then max(., 0.01*3), then 0.03*2, then max(0.06, 0.04*1)
    assert st.holm([0.01, 0.04, 0.03, 0.005]).tolist() == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert st.holm([0.6, 0.9]).tolist() == [1, 1]


@pytest.mark.parametrize("seed", range(10))
def test_holm_rejects_what_closed_testing_rejects(seed: int) -> None:
    """Closure principle with Bonferroni on every intersection: reject i if every subset holding i is rejected."""
    p = rng(seed).random(5) ** 3
    adjusted = st.holm(p)
    for i in range(5):
        subsets = (s for size in range(1, 6) for s in itertools.combinations(range(5), size) if i in s)
        assert adjusted[i] == pytest.approx(max(min(1, len(s) * p[list(s)].min()) for s in subsets))


@pytest.mark.parametrize(("only_a", "only_b"), [(0, 0), (1, 0), (8, 2), (5, 5), (30, 51)])
def test_mcnemar_is_the_binomial_test_on_discordant_items(only_a: int, only_b: int) -> None:
    a = [1] * only_a + [0] * only_b + [1, 1, 0]
    b = [0] * only_a + [1] * only_b + [1, 1, 0]
    expected = stats.binomtest(only_a, only_a + only_b).pvalue if only_a + only_b else 1.0
    assert st.mcnemar_exact(a, b) == pytest.approx(expected)
    with pytest.raises(UserError, match="share of a tie"):
        st.mcnemar_exact([0.5, 1], [0, 1])


@pytest.mark.parametrize(
    ("low", "high", "sign", "expected"),
    [
        (0.1, 9, 1, "held"),
        (0.1, 1.9, 1, "held"),  # small but on the claimed side
        (-1.9, -0.1, 1, "comparable"),  # on the wrong side, yet within two points
        (-1, 1.5, 1, "comparable"),
        (-1, 2.5, 1, "cannot be told"),
        (-9, -3, 1, "cannot be told"),
        (-9, -3, -1, "held"),
        (0, 3, 1, "cannot be told"),
    ],
)
def test_verdicts(low: float, high: float, sign: int, expected: str) -> None:
    points = st.Interval((low + high) / 2, low, high, 100, "items")
    assert st.verdict(points, claimed_sign=sign) == expected
    assert st.verdict(points.times(0.01), comparable=0.02, claimed_sign=sign) == expected


def test_smallest_detectable_difference_is_detected_with_its_power() -> None:
    x = rng(1).normal(0, 1, 400)
    interval = st.bootstrap_mean(x - x.mean(), rng(), draws=20_000)
    smallest = st.smallest_detectable_difference(interval)
    error = x.std() / 20
    assert smallest == pytest.approx((1.959964 + 0.841621) * error, rel=0.03)
    # with that true difference, the share of normal estimates whose interval lies above 0
    assert stats.norm.sf(1.959964 - smallest / error) == pytest.approx(0.8, abs=0.03)


def test_what_has_no_mean_is_refused() -> None:
    for values in ([], [[1.0]], [np.nan]):
        with pytest.raises(UserError):
            st.bootstrap_mean(values, rng())
    with pytest.raises(UserError, match="2 against 3"):
        st.bootstrap_paired([1, 2], [1, 2, 3], rng())


def test_interval_of_a_biased_statistic_lies_around_its_value() -> None:
    """Average precision on resamples is biased upwards; its spread over fresh samples says what the interval should be."""

    def sample(rng: np.random.Generator, n: int = 400) -> tuple[np.ndarray, np.ndarray]:
        targets = (rng.random((n, 3)) < 0.08).astype(np.int64)
        return rng.normal(size=(n, 3)) + 0.7 * targets, targets

    fresh = []
    for seed in range(300):
        scores, targets = sample(np.random.default_rng(1000 + seed))
        fresh.append(float(mean_average_precision(scores, targets)))
    spread = np.std(fresh)
    inside = 0
    for seed in range(40):
        scores, targets = sample(np.random.default_rng(seed))
        found = st.bootstrap_statistic(
            lambda counts, s=scores, t=targets: mean_average_precision(s, t, counts),
            len(scores),
            np.random.default_rng(0),
            300,
        )
        assert found.low < found.value < found.high
        assert abs((found.low + found.high) / 2 - found.value) < 0.35 * (found.high - found.low)
        assert 0.5 * spread < (found.high - found.low) / (2 * 1.96) < 2 * spread
        inside += found.low <= np.mean(fresh) <= found.high
    assert inside >= 33, f"{inside} of 40 intervals hold the true value; a 95 % interval rarely holds fewer than 33"
