"""How unsteady a training is: against series whose noise is known, and against every outcome of small draws."""

import itertools
import math
from collections.abc import Sequence

import numpy as np
import pytest
import torch
from shown import ends

from mdc.diffusion.schedule import MaskSchedule
from mdc.plan.records import UserError
from mdc.report.statistics import steadiness as stability
from mdc.report.statistics.claims import Claim, decide
from mdc.report.statistics.estimate import Estimate

LEAST = 1e-3


def test_a_residual_is_that_of_the_line_through_the_neighbours() -> None:
    # at step 3 the line through (0, 1) and (4, 5) has 4
    (found,) = stability.residuals([0, 3, 4], [1.0, 7.0, 5.0])
    assert found == pytest.approx((4 - 7) / math.sqrt(1 + 0.25**2 + 0.75**2))


def test_variance_has_no_bias_even_of_few_steps_unevenly_logged() -> None:
    rng = np.random.default_rng(2)
    steps = np.array([10, 20, 25, 60, 70, 73])
    found = [stability.squares(steps, 9 - 0.1 * steps + 0.5 * rng.standard_normal(6)).mean() for _ in range(20000)]
    assert np.mean(found) == pytest.approx(0.25, abs=4 * np.std(found) / math.sqrt(len(found)))


def test_a_level_follows_a_trend_and_forgets_a_spike() -> None:
    fall = np.linspace(5, 1, 21)
    assert stability.level(fall) == pytest.approx(fall)
    spiked = fall.copy()
    spiked[10] = 400.0
    assert np.abs(stability.level(spiked) - fall).max() < 0.3
    assert stability.spike(spiked) == pytest.approx(400 / stability.level(spiked)[10])
    assert stability.spike(fall) == 1.0


@pytest.mark.parametrize(
    ("steps", "values", "words"),
    [
        ([1, 2], [1.0, 2.0], "2 steps and 2 values, needed: as many, at least 3"),
        ([1, 2, 3], [1.0, 2.0], "3 steps and 2 values"),
        ([1, 3, 2], [1.0, 2.0, 3.0], "must increase"),
        ([1, 2, 3], [1.0, math.nan, 3.0], "be finite"),
        ([1, 2, 3, 4], [1.0, 0.0, 0.0, 0.0], "a level of 0 or below"),
    ],
)
def test_series_that_say_nothing_are_refused(steps: list[int], values: list[float], words: str) -> None:
    with pytest.raises(UserError, match=words):
        stability.relative_squares(steps, values)


def over_seeds(values: Sequence[float], against: Sequence[float] | None = None) -> Estimate:
    """Of numbers that are one a run."""
    others = None if against is None else [[one] for one in against]
    return stability.variation([[one] for one in values], 1.0, 50, against=others)


def test_over_seeds_means_are_geometric_so_that_their_ratio_is_the_mean_ratio() -> None:
    a, b = [2.0, 4.0, 9.0, 3.0], [1.0, 1.5, 3.0, 2.0]
    ratio = over_seeds(a, b)
    times = stability.factors(ratio)
    assert times.value == pytest.approx(stability.factors(over_seeds(a)).value / stability.factors(over_seeds(b)).value)
    assert times.value == pytest.approx(math.prod(x / y for x, y in zip(a, b, strict=True)) ** 0.25)
    from scipy.stats import ttest_rel

    test = ttest_rel(np.log(a), np.log(b))
    expected = test.confidence_interval()
    assert (ratio.low, ratio.high, ratio.p) == pytest.approx((expected.low, expected.high, test.pvalue))
    assert ends(times) == pytest.approx((math.exp(expected.low), math.exp(expected.high)))
    assert (ratio.seeds, ratio.kind, ratio.df) == (4, "seeds", 3)
    assert ratio.se == pytest.approx(np.std(np.log(a) - np.log(b), ddof=1) / 2)
    one = stability.factors(over_seeds(a))
    interval = np.exp(ttest_rel(np.log(a), np.zeros(4)).confidence_interval())
    assert (one.low, one.high) == pytest.approx(tuple(interval)) and one.p is one.se is None


def test_of_fewer_than_three_seeds_only_the_mean_is_known() -> None:
    level, ratio = stability.factors(over_seeds([2.0, 8.0])), over_seeds([2.0], [4.0])
    assert level.value == pytest.approx(4.0) and level.low is level.high is level.p is None
    assert math.exp(ratio.value) == pytest.approx(0.5) and ratio.low is ratio.high is ratio.p is None
    (found,) = decide([Claim(ratio)])
    assert (found.p, found.direction, found.detectable) == (None, "too few groups", None)
    share = stability.share([[False] * 2, [False, True]], 50)
    assert share.value == 0.25 and share.low is share.high is None


def test_shares_stay_shares_and_equal_ones_claim_no_certainty() -> None:
    never, some = [False] * 10, [True] * 3 + [False] * 7
    found = stability.share([never, never, some], 50)
    assert found.value == pytest.approx(0.1) and ends(found)[0] == 0.0 and 0.3 < ends(found)[1] <= 1
    none = stability.share([never] * 3, 50)
    assert none.value == 0 and none.low is none.high is None


def test_a_comparison_is_decided_on_as_it_is() -> None:
    noise = np.random.default_rng(1).normal(0, 0.01, (2, 5))
    same, twice = np.exp(noise[0]), 2 * np.exp(noise[1])
    ratios = [over_seeds(*pair) for pair in ((twice, same), (same, twice), (same, same * 1.001))]
    directions = [d.direction for d in decide([Claim(ratio) for ratio in ratios])]
    assert directions == ["supported", "reversed", "no variation"], "an exact factor varies with no seed"
    like = over_seeds(same, np.exp(noise[1]))
    (decision,) = decide([Claim(like)])
    assert (decision.direction, decision.size) == ("inconclusive", "") and decision.detectable is not None


@pytest.mark.parametrize(("n", "memory"), [(40, 0.0), (40, 0.6), (200, 0.0), (400, 0.6)])
def test_the_interval_of_one_run_covers_what_it_estimates(n: int, memory: float) -> None:
    # noise with memory: E[r²] = (1.5 g0 - 2 g1 + 0.5 g2) / 1.5 of its autocovariances g
    g = [memory**lag / (1 - memory**2) for lag in range(3)]
    truth = (1.5 * g[0] - 2 * g[1] + 0.5 * g[2]) / 1.5
    covered, ratio_covered, trials = 0, 0, 300
    for trial in range(trials):
        rng = np.random.default_rng(trial)
        squares = []
        for scale in (1.0, 3.0):
            noise = np.zeros(n + 40)
            for i, shock in enumerate(rng.standard_normal(n + 40)):
                noise[i] = memory * noise[i - 1] + shock
            squares.append(stability.squares(np.arange(n), 20 - 0.01 * np.arange(n) + scale * noise[40:]))
        one = stability.factors(stability.variation([squares[0]], 1.0, 200))
        both = stability.variation([squares[1]], 0.5, 200, against=[squares[0]])
        assert one.value == pytest.approx(squares[0].mean())
        assert math.exp(both.value) == pytest.approx(math.sqrt(squares[1].mean() / squares[0].mean()))
        covered += ends(one)[0] <= truth <= ends(one)[1]
        ratio_covered += ends(both)[0] <= math.log(3) <= ends(both)[1]
    assert 0.91 <= covered / trials <= 0.99
    assert 0.91 <= ratio_covered / trials <= 0.99


def test_two_runs_are_surer_than_one() -> None:
    rng = np.random.default_rng(4)
    runs = [stability.squares(np.arange(200), rng.standard_normal(200)) for _ in range(2)]
    one, other, both = (stability.variation(some, 0.5, 2000) for some in (runs[:1], runs[1:], runs))
    assert both.value == pytest.approx((one.value + other.value) / 2) and (both.n, both.seeds) == (396, 2)
    assert both.se == pytest.approx(math.hypot(one.se or 0, other.se or 0) / 2, rel=0.05)


def test_a_p_value_is_that_of_the_interval() -> None:
    rng = np.random.default_rng(5)
    squares = [stability.squares(np.arange(200), scale * rng.standard_normal(200)) for scale in (1.0, 1.0, 2.0)]
    for other in squares[1:]:
        found = stability.variation([other], 0.5, 500, against=[squares[0]])
        (decision,) = decide([Claim(found)])
        # between one half-width and two: a power of 80 % asks for less than one of 97.5 %
        low, high = ends(found)
        assert decision.detectable is None or (high - low) / 2 < decision.detectable < high - low
        assert found.p is not None and (found.p < 0.05) == (not low <= 0 <= high)
        assert (found.n, found.seeds, found.kind, found.draws) == (198, 1, "steps", 500)
        assert (decision.detectable is None) == (decision.direction == "supported")
    assert decision.direction == "supported"


def test_what_two_runs_share_cancels_in_their_ratio() -> None:
    rng = np.random.default_rng(6)
    common = stability.squares(np.arange(100), rng.standard_normal(100))
    found = stability.variation([4 * common], 0.5, 200, against=[common])
    assert math.exp(found.value) == pytest.approx(2.0) and found.low is found.high is found.p is None


def test_too_few_steps_have_a_value_and_no_interval() -> None:
    few, enough = np.arange(1.0, 10.0), np.arange(1.0, 11.0)
    short = stability.factors(stability.variation([few], 1.0, 50))
    assert short.value == pytest.approx(5.0) and short.low is short.high is None
    assert ends(stability.variation([enough], 1.0, 50))
    one = stability.variation([[4.0]], 0.5, 50, against=[[1.0]])
    assert math.exp(one.value) == pytest.approx(2.0) and one.low is one.high is one.p is None


def test_what_never_varies_is_refused() -> None:
    with pytest.raises(UserError, match="never varies"):
        stability.variation([np.zeros(12)], 1.0, 10)


@pytest.mark.parametrize("memory", [0.0, 0.8])
def test_the_interval_of_a_share_of_steps_covers_it_though_neighbours_are_alike(memory: float) -> None:
    covered, trials, n, limit = 0, 200, 400, 0.5
    truth = 0.5 * math.erfc(limit / math.sqrt(2))
    for trial in range(trials):
        rng = np.random.default_rng(trial)
        series = rng.standard_normal(n)
        for i in range(1, n):
            series[i] = memory * series[i - 1] + math.sqrt(1 - memory**2) * series[i]
        found = stability.share([series > limit], 200)
        assert found.value == pytest.approx((series > limit).mean())
        covered += ends(found)[0] <= truth <= ends(found)[1]
    assert 0.87 <= covered / trials <= 1  # an exact interval of independent steps covers 0.62 with memory


def test_a_share_that_never_varies_or_of_few_steps_has_no_interval() -> None:
    for run in ([True] * 20, [False] * 20, [True, False] * 4):
        found = stability.share([run], 50)
        assert found.value == np.mean(run) and found.low is found.high is None


@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (0.3, 0.8), (0.5, 1.0), (0.15, 0.15), (0.0, 0.0005)])
def test_the_mean_of_one_over_t_is_the_schedules_own(low: float, high: float) -> None:
    schedule = MaskSchedule(low, high, least_t=LEAST)
    count = 400_000
    place = torch.arange(count)
    t = schedule.draw(torch.full((count,), 0.5, dtype=torch.float64), place, count)
    assert stability.mean_inverse_t(low, high, LEAST) == pytest.approx(
        schedule.weight(t).double().mean().item(), rel=1e-4
    )


@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (0.5, 1.0), (0.3, 0.3)])
@pytest.mark.parametrize("tokens", [1, 2, 5])
def test_the_loss_varies_as_every_outcome_of_its_masks_says(low: float, high: float, tokens: int) -> None:
    """One caption: all 2^L masks at each of many t, weighted by their probability."""
    strata = 200_000
    t = np.maximum(low + (high - low) * (np.arange(strata) + 0.5) / strata, LEAST)
    first, second = np.zeros(strata), np.zeros(strata)
    for masks in itertools.product((0, 1), repeat=tokens):
        k = sum(masks)
        probability = t**k * (1 - t) ** (tokens - k)
        loss = k / t / tokens
        first += probability * loss
        second += probability * loss**2
    assert first.mean() == pytest.approx(1)  # unbiased whatever the range of t
    exact = second.mean() - first.mean() ** 2
    assert stability.loss_variance(low, high, tokens, LEAST) == pytest.approx(exact, rel=1e-4)


def test_a_batch_varies_as_its_tokens_together_say_stratified_or_not() -> None:
    rng = np.random.default_rng(3)
    lengths = np.array([1, 2, 3, 4, 6, 8, 8, 20])
    draws, batch = 40_000, len(lengths)
    for jitter in ((np.arange(batch) + rng.random((draws, batch))) / batch, rng.random((draws, batch))):
        t = 0.3 + 0.5 * rng.permuted(jitter, axis=1)
        loss = (rng.binomial(lengths, t) / t).sum(1) / lengths.sum()
        expected = stability.loss_variance(0.3, 0.8, float(lengths.sum()), LEAST)
        assert loss.var() == pytest.approx(expected, rel=0.04)


def test_where_all_is_masked_nothing_varies() -> None:
    assert stability.loss_variance(1.0, 1.0, 5, LEAST) == 0
