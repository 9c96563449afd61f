"""Claims: direction and size, corrections, minimum detectable effect, against known powers and simulated experiments."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from mdc.plan.records import UserError
from mdc.report.statistics.claims import Claim, Decision, caption_margin, claim, decide, holm, minimum_detectable
from mdc.report.statistics.estimate import Component, Estimate, bounded, estimate
from mdc.report.statistics.replicates import Replicates


def difference(value: float, se: float, df: float = 1e6, groups: int = 1000) -> Estimate:
    found = Estimate(value, None, None, 1000, 1, "bootstrap", groups=groups, of_items=Component(se**2, df))
    return bounded(found, contrast=True)


def about(value: float, se: float, margin: float | None = 2.0) -> Claim:
    """A claim whose difference and margin are independent of one another."""
    if margin is None:
        return Claim(difference(value, se))
    return Claim(difference(value, se), margin, difference(value + margin, se), difference(value - margin, se))


def told(found: Decision) -> tuple[str, str]:
    return found.direction, found.size


@pytest.mark.parametrize(
    ("value", "se", "expected"),
    [
        (6, 1, ("supported", "larger")),
        (-6, 1, ("reversed", "larger")),
        (1.1, 0.23, ("supported", "equivalent")),  # above 0, and of no size
        (-0.6, 0.3, ("reversed", "equivalent")),
        (4.2, 2.1, ("supported", "undecided")),
        (0.2, 0.5, ("inconclusive", "equivalent")),
        (0.5, 1.5, ("inconclusive", "undecided")),
        (3.9, 2.1, ("inconclusive", "undecided")),
    ],
)
def test_direction_and_size_are_two_answers(value: float, se: float, expected: tuple[str, str]) -> None:
    (found,) = decide([about(value, se)])
    assert told(found) == expected and found.margin == 2
    assert (found.detectable is None) == (expected[0] != "inconclusive")
    (found,) = decide([about(value, se, None)])
    assert told(found) == (expected[0], "") and found.p_size is None


def test_a_size_is_seldom_false_at_the_margin() -> None:
    """Equivalent is tested one-sided, larger two-sided: a true difference of the margin gets at most 5 and 2.5 of 100."""
    values = 2 + 0.3 * np.random.default_rng(1).normal(size=4000)
    sizes = [decide([about(float(value), 0.3)])[0].size for value in values]
    assert sizes.count("equivalent") / 4000 == pytest.approx(0.05, abs=0.012)
    assert sizes.count("larger") / 4000 == pytest.approx(0.025, abs=0.009)


def test_directions_and_sizes_are_corrected_within_their_own_families() -> None:
    near, sure = about(3, 1.38), about(9, 1)
    assert [found.direction for found in decide([near])] == ["supported"]
    assert [found.direction for found in decide([near, near])] == ["inconclusive"] * 2  # 0.06 each
    assert [found.direction for found in decide([near, sure])] == ["supported"] * 2
    assert [found.p_holm for found in decide([near, sure])] == pytest.approx(
        [found.p for found in decide([near, about(9, 1)])], abs=1e-9
    )
    small = about(0.5, 0.8)
    assert decide([small])[0].size == "equivalent" and decide([small] * 4)[0].size == "undecided"
    assert decide([sure, near], level=0.99)[1].direction == "inconclusive"
    assert decide([]) == []


def test_a_claim_below_control_has_no_verdict_and_counts_in_the_correction() -> None:
    near, low = about(3, 1.38), replace(about(9, 1), below_control=True)
    found = decide([near, low])
    assert [told(one) for one in found] == [("inconclusive", "undecided"), ("below control", "undecided")]
    assert [one.p_holm for one in found] == pytest.approx([2 * (decide([near])[0].p or 0), 1.0])
    assert found[1].p == found[1].p_size == 1.0 and found[1].detectable is None
    assert told(decide([replace(about(9, 1, None), below_control=True)])[0]) == ("below control", "")
    assert [told(one)[0] for one in decide([low, about(9, 1)], order="fixed")] == ["below control", "not tested"]
    few = Claim(replace(difference(9, 1, groups=10), p=None), below_control=True)
    assert [one.direction for one in decide([near, few])] == ["supported", "too few groups"], "known before the results"


@pytest.mark.parametrize("seeds", [3, 5, 15])
@pytest.mark.parametrize("gain", [0.0, 0.5, 1.0])
def test_a_gate_that_counts_keeps_its_promise(seeds: int, gain: float) -> None:
    """Tables of six true null hypotheses between systems ``gain`` standard deviations of a seed above a control that they share.
    If those below control were left out of the correction, there would be more false verdicts."""
    source, tables = np.random.default_rng(5), 4000
    first, second, control = (source.normal(size=(tables, 6, seeds)) for _ in range(3))

    def ratio(apart: np.ndarray) -> np.ndarray:
        return np.asarray(apart.mean(axis=-1) / (apart.std(axis=-1, ddof=1) / seeds**0.5))

    least, student = stats.t(seeds - 1).ppf(0.975), stats.t(seeds - 1)
    floor = (ratio(first + gain - control) <= least) & (ratio(second + gain - control) <= least)
    p = 2 * student.sf(np.abs(ratio(first - second)))
    counted = sum((holm(row) < 0.05).any() for row in np.where(floor, 1.0, p)) / tables
    left_out = sum((holm(row[~low]) < 0.05).any() for row, low in zip(p, floor, strict=True)) / tables
    assert counted < 0.06 and counted <= left_out


def test_in_a_fixed_order_claims_are_tested_until_the_first_that_is_not_supported() -> None:
    near, none, sure = about(3, 1.38), about(0.1, 5), about(9, 1)
    assert [told(found) for found in decide([near, near, none, sure], order="fixed")] == [
        ("supported", "undecided"),
        ("supported", "undecided"),
        ("inconclusive", "undecided"),
        ("not tested", "not tested"),
    ]
    # without a margin there is no size to test
    assert told(decide([none, Claim(sure.difference)], order="fixed")[1]) == ("not tested", "")
    # each at 5 %, so the smallest detectable effect is that of one test
    alone, third = decide([none])[0], decide([near, near, none], order="fixed")[2]
    assert alone.detectable == third.detectable < (decide([none, none])[0].detectable or 0)


def test_what_has_no_p_has_no_verdict_and_does_not_count() -> None:
    few = Claim(Estimate(3, 1, 5, 4, 1, "bootstrap", groups=2, of_items=Component(1, 1)), 2.0)
    same = Claim(Estimate(3, None, None, 90, 1, "bootstrap", groups=90, of_items=Component(0, 89)), 2.0)
    found = decide([few, about(3, 1.38), same])
    assert [one.direction for one in found] == ["too few groups", "supported", "no variation"]
    assert found[0].p_holm is None and found[1].p_holm == found[1].p and found[0].size == ""
    # and in a fixed order it is not supported
    assert [one.direction for one in decide([few, about(9, 1)], order="fixed")] == ["too few groups", "not tested"]


def of(values: np.ndarray) -> Replicates:
    return Replicates(np.atleast_2d(values), 200, 200)


def test_a_margin_of_captions_is_a_tenth_of_what_the_second_side_has_above_its_control() -> None:
    rng = np.random.default_rng(2)
    second, control = of(np.r_[50, rng.normal(50, 1, 2000)]), of(np.r_[20, rng.normal(20, 1, 2000)])
    margin = caption_margin(second, control)
    assert margin is not None and margin.values[0, 0] == pytest.approx(3)
    first = of(np.r_[54, second.values[0, 1:] + 4 + rng.normal(0, 0.2, 2000)])
    one = claim(first - second, margin)
    assert one.margin == pytest.approx(3) and one.above is not None and one.above.value == pytest.approx(7)
    # drawn with the difference: the variance is that of the contrast itself
    below = estimate(first - second - margin, contrast=True)
    assert one.below == below and decide([one])[0].size == "larger"
    assert caption_margin(control, of(np.r_[19.5, rng.normal(19.5, 1, 2000)])) is None, (
        "not sure to be above its control"
    )


def seeds_of(df: float, se: float = 1.0) -> Estimate:
    return Estimate(0, -1, 1, 9, 3, "seeds", p=1.0, of_seeds=Component(se**2, df))


def test_the_minimum_detectable_effect_has_the_known_power_of_the_t_test() -> None:
    # R's power.t.test(n = 20, delta = 1, sd = 1): power 0.8689528; the noncentrality is sqrt(20 / 2) with 38 degrees
    assert minimum_detectable(seeds_of(38), 0.05, power=0.8689528) == pytest.approx(math.sqrt(10), rel=1e-5)
    assert minimum_detectable(seeds_of(1e7), 0.05) == pytest.approx(1.959964 + 0.841621, abs=1e-4)
    for df in (1.0, 2.0, 30.0):  # its inverse: the power at the answer
        shift = minimum_detectable(seeds_of(df), 0.1, power=0.6)
        assert shift is not None and stats.nct.sf(stats.t.isf(0.05, df), df, shift) == pytest.approx(0.6)
    for power in (0.02, 1.0):
        with pytest.raises(UserError, match="power"):
            minimum_detectable(seeds_of(9), 0.05, power=power)
    assert minimum_detectable(Estimate(3, None, None, 1, 1, "seeds"), 0.05) is None


@pytest.mark.parametrize(("seeds", "claims"), [(3, 1), (3, 6), (5, 6)])
def test_the_minimum_detectable_effect_is_found_four_times_in_five(seeds: int, claims: int) -> None:
    """Under the level of the family's first step, in standard deviations of a seed."""
    smallest = minimum_detectable(seeds_of(seeds - 1, 1 / math.sqrt(seeds)), 0.05 / claims)
    assert smallest is not None
    results = smallest + np.random.default_rng(1).normal(size=(20_000, seeds))
    found = stats.ttest_1samp(results, 0, axis=1)
    supported = int(((found.pvalue < 0.05 / claims) & (found.statistic > 0)).sum())
    assert stats.binomtest(supported, 20_000, 0.8).pvalue > 0.01


def test_holm_of_nothing_and_of_what_is_no_p() -> None:
    assert holm([]).tolist() == []
    with pytest.raises(UserError, match="in 0 to 1"):
        holm([0.1, np.nan])


@pytest.mark.parametrize("seed", range(10))
def test_holm_rejects_what_its_steps_and_closed_testing_reject(seed: int) -> None:
    """Step by step as Holm wrote it, and by the closure principle with Bonferroni on every intersection."""
    p = np.random.default_rng(seed).random(5) ** 3
    adjusted = holm(p)
    for level in (0.01, 0.05, 0.2, 0.5):
        rejected, left = set(), sorted(range(5), key=lambda i: p[i])
        while left and p[left[0]] <= level / len(left):
            rejected.add(left.pop(0))
        assert rejected == {i for i in range(5) if adjusted[i] <= level}
    for i in range(5):
        subsets = (s for size in range(1, 6) for s in itertools.combinations(range(5), size) if i in s)
        assert adjusted[i] == pytest.approx(max(min(1, len(s) * p[list(s)].min()) for s in subsets))
