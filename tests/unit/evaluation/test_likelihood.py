"""The bound against brute force over every mask set, on a world whose joint distribution is known; controls and errors."""

import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare
from test_caption_scores import CAPTIONS, images, scorer
from torch import Tensor

from mdc.diffusion import likelihood
from mdc.evaluation.predictors.caption_scores import GROUPS, Draws, Pair, Scored
from mdc.evaluation.predictors.mismatched import log_mean_probability, mean_score


class Joint:
    """A joint distribution over captions of three tokens from four pieces, and its exact conditionals."""

    def __init__(self, seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        self.table = torch.rand(4, 4, 4, generator=generator, dtype=torch.float64) ** 3
        self.table /= self.table.sum()

    def log_probs(self, caption: tuple[int, ...], where: Tensor) -> Tensor:
        """log p(c_i | the tokens that are not masked), (N, L), by summing the table."""
        found = torch.zeros(where.shape, dtype=torch.float64)
        for row, masked in enumerate(where.tolist()):
            for place in (p for p in range(3) if masked[p]):
                both = self._sum(caption, [p for p in range(3) if not masked[p] or p == place])
                visible = self._sum(caption, [p for p in range(3) if not masked[p]])
                found[row, place] = math.log(both / visible)
        return found

    def _sum(self, caption: tuple[int, ...], fixed: list[int]) -> float:
        choice = tuple(caption[p] if p in fixed else slice(None) for p in range(3))
        return float(self.table[choice].sum())


def enumerated(log_probs: Callable[[Tensor], Tensor]) -> float:
    """Equation 8 as it is written, for three tokens: Σ_n E_{|S|=n} (1/n) Σ_{i∈S} log p_i."""
    total = 0.0
    for size in (1, 2, 3):
        sets = list(itertools.combinations(range(3), size))
        for chosen in sets:
            where = torch.tensor([[p in chosen for p in range(3)]])
            total += float(log_probs(where)[where].sum()) / (size * len(sets))
    return total


def _estimate(joint: Joint, caption: tuple[int, ...], seed: int, samples: int, control: bool) -> tuple[float, float]:
    draws = Draws("toy", seed, samples, 8)
    where = draws.masks(3, lambda points: likelihood.mask_counts(points, 3), samples // GROUPS)
    wrong = _distorted(joint, caption, where.flatten(0, 1)).view(where.shape)
    terms = likelihood.controlled_terms(wrong, where) if control else likelihood.token_terms(wrong, where)
    value, error = likelihood.mean_of_groups(terms.sum(dim=-1))
    return float(value), float(error)


def _distorted(joint: Joint, caption: tuple[int, ...], where: Tensor) -> Tensor:
    """A model that is wrong, more so the more is masked: otherwise every order gives the same and nothing varies."""
    return joint.log_probs(caption, where) * (1 + 0.3 * where.sum(dim=-1, keepdim=True)) - 0.2 * torch.arange(3)


@pytest.mark.parametrize("control", [False, True])
@pytest.mark.parametrize("samples", [16, 32, 128])
def test_monte_carlo_is_unbiased_against_enumeration_and_knows_its_error(control: bool, samples: int) -> None:
    joint, caption = Joint(1), (1, 2, 2)
    exact = enumerated(lambda where: _distorted(joint, caption, where))
    found = np.array([_estimate(joint, caption, seed, samples, control) for seed in range(150)])
    spread = found[:, 0].std(ddof=1)
    assert abs(found[:, 0].mean() - exact) < 4 * spread / math.sqrt(len(found))
    # the reported error is that of one estimate
    assert math.sqrt((found[:, 1] ** 2).mean()) == pytest.approx(spread, rel=0.3)


@pytest.mark.parametrize("samples", [16, 256])
def test_a_control_takes_away_what_differs_between_tokens(samples: int) -> None:
    """Tokens of unlike difficulty, which depend a little on the share of masks: the usual case."""
    base = torch.tensor([-0.1, -6.0, -0.3, -4.0, -1.0, -0.2], dtype=torch.float64)

    def estimate(seed: int, control: bool) -> float:
        draws = Draws("unlike", seed, samples, 8)
        where = draws.masks(6, lambda points: likelihood.mask_counts(points, 6), samples // GROUPS)
        log_probs = base * (1 + 0.2 * where.sum(dim=-1, keepdim=True) / 6)
        terms = likelihood.controlled_terms(log_probs, where) if control else likelihood.token_terms(log_probs, where)
        return float(terms.sum(dim=-1).mean())

    plain, controlled = (np.array([estimate(seed, control) for seed in range(60)]) for control in (False, True))
    assert controlled.var() < plain.var() / (4 if samples == 16 else 50)
    exact = float(base.sum()) * (1 + 0.2 * 3.5 / 6)
    assert abs(controlled.mean() - exact) < 4 * controlled.std() / math.sqrt(60) + 1e-9


@given(st.integers(1, 77), st.floats(0, 1, exclude_max=True), st.integers(1, 64))
def test_each_number_of_masks_is_possible_and_evenly_spread(length: int, offset: float, count: int) -> None:
    points = likelihood.shifted(torch.tensor([offset]), count, base=2)[0]
    found = likelihood.mask_counts(points, length)
    assert int(found.min()) >= 1 and int(found.max()) <= length
    assert ((points >= 0) & (points < 1)).all()
    if count & (count - 1) == 0:  # evenly spread: neighbours are 1/count apart
        ordered = points.sort().values
        assert torch.allclose(ordered.diff(), torch.full((count - 1,), 1 / count, dtype=torch.float64), atol=1e-9)


def test_the_number_of_masks_is_uniform_in_expectation_over_the_offset() -> None:
    """Exactly: over a fine grid of offsets that L divides, each number stands equally often, whatever the count."""
    for length, count in itertools.product(range(1, 21), (1, 2, 4, 16)):
        offsets = (torch.arange(length * 64, dtype=torch.float64) + 0.5) / (length * 64)
        found = likelihood.mask_counts(likelihood.shifted(offsets, count, base=2), length)
        assert found.flatten().bincount(minlength=length + 1)[1:].tolist() == [64 * count] * length


#: a caption's length, the range of shares, and the least and largest number of masks in it
ALLOWED = [
    (10, 0.5, 1.0, (5, 10)), (7, 0.5, 1.0, (4, 7)), (3, 0.3, 0.4, (1, 1)), (1, 0.5, 1.0, (1, 1)),
    (5, 0.15, 0.15, (1, 1)), (20, 0.15, 0.15, (3, 3)), (6, 0.9, 0.9, (5, 5)), (4, 0.45, 0.45, (2, 2)),
]  # fmt: skip


@pytest.mark.parametrize(("length", "low", "high", "allowed"), ALLOWED)
def test_a_range_allows_its_whole_numbers_alone(length: int, low: float, high: float, allowed: tuple[int, int]) -> None:
    assert likelihood.counts_in_range(length, low, high) == allowed
    points = torch.arange(1000, dtype=torch.float64) / 1000
    found = likelihood.range_counts(points, length, low, high)
    assert (int(found.min()), int(found.max())) == allowed
    shares = found.bincount(minlength=length + 1)[allowed[0] : allowed[1] + 1]
    assert shares.max() - shares.min() <= 1 + 1000 % len(shares)


def test_masks_are_equally_likely_sets_of_the_asked_size() -> None:
    keys = torch.rand(6000, 4, generator=torch.Generator().manual_seed(0))
    where = likelihood.masked_places(torch.full((6000,), 2), keys)
    assert (where.sum(dim=1) == 2).all()
    sets = (where * torch.tensor([8, 4, 2, 1])).sum(dim=1).bincount()
    assert chisquare(sets[sets > 0].numpy()).pvalue > 1e-3 and int((sets > 0).sum()) == 6


def test_equal_lengths_share_masks_and_other_lengths_their_order() -> None:
    draws = Draws("an item", 3, 32, 76)
    four = draws.masks(4, lambda points: likelihood.mask_counts(points, 4), 2)
    again = Draws("an item", 3, 64, 76).masks(4, lambda points: likelihood.mask_counts(points, 4), 3)
    assert torch.equal(four, again[:, :2]), "a sample is the same however many are asked for"
    assert not torch.equal(four, Draws("another", 3, 32, 76).masks(4, lambda p: likelihood.mask_counts(p, 4), 2))
    # one mask each: the piece with the smallest key is the same in a longer caption unless the longer one has a smaller key
    one = draws.masks(3, lambda points: torch.ones(points.shape, dtype=torch.int64), 2)
    more = draws.masks(5, lambda points: torch.ones(points.shape, dtype=torch.int64), 2)
    old = more[..., [0, 1, 4]].any(dim=-1)  # EOT stands last in both
    assert torch.equal(more[old][:, [0, 1, 4]], one[old])


def test_samples_come_in_sixteens_and_one_group_has_no_error() -> None:
    value, error = likelihood.mean_of_groups(torch.tensor([[1.0, 3.0]], dtype=torch.float64))
    assert (float(value), float(error)) == (2.0, math.inf)
    for samples in (0, 8, 24):
        with pytest.raises(ValueError, match="multiple of 16"):
            Draws("x", 0, samples, 8)


# --- mismatched scores and their errors ------------------------------------------------------------------------------------


def _drawn(groups: np.ndarray) -> Scored:
    values = torch.from_numpy(groups)
    return Scored(float(values.mean()), float(values.std()) / math.sqrt(len(values)), torch.empty(0), values)


def test_values_are_the_plain_formulas() -> None:
    own, *others = [Scored(value, 0.0, torch.empty(0)) for value in (-1.0, -2.0, -5.0, -900.0)]
    expected = math.log((math.exp(-2) + math.exp(-5) + math.exp(-900)) / 3)
    found = log_mean_probability(own, others)
    assert found.value == pytest.approx(expected) and (found.error, found.covariance) == (0, 0)
    assert mean_score(own, others).value == pytest.approx(-907 / 3)


@pytest.mark.parametrize(
    ("values", "shared", "apart"), [([-4.0, -5.0, -5.5, -7.0], 0.3, 0.1), ([-4.0, -4.0, -7.0, -9.0], 0.05, 0.4)]
)
def test_errors_are_the_spread_over_many_repetitions(values: list[float], shared: float, apart: float) -> None:
    """Scores whose errors are strongly correlated: an error from independent ones would be far off. And unlike ones with errors
    of their own, which weigh by their share of the mean probability, and not alike."""
    rng, means = np.random.default_rng(0), np.array(values)
    repeated, told = [], []
    for _ in range(2000):
        common = rng.normal(size=16)
        own, *others = (_drawn(mean + shared * common + apart * rng.normal(size=16)) for mean in means)
        found = log_mean_probability(own, others)
        repeated.append((own.value, found.value, own.value - 0.75 * found.value))
        error = own.error**2 - 2 * 0.75 * found.covariance + 0.75**2 * found.error**2
        told.append((own.error**2, found.error**2, error))
    spread, expected = np.var(repeated, axis=0), np.mean(told, axis=0)
    assert expected == pytest.approx(spread, rel=0.1)
    weights = np.exp(means[1:]) / np.exp(means[1:]).sum()
    independent, alike = (weights**2).sum() * (shared**2 + apart**2) / 16, (shared**2 + apart**2 / 3) / 16
    assert spread[1] > (1.5 * independent if shared > apart else 1.8 * alike)


def test_a_score_that_is_not_drawn_has_no_mismatched_error_and_a_drawn_one_has() -> None:
    one = scorer("mdc")
    memory = one.look(images())
    pairs = [Pair(image, CAPTIONS[0]) for image in range(3)]
    own, *others = one.monte_carlo(memory, pairs, [Draws("x", 0, 64, 77)], 64)
    assert own.groups is not None and len(own.groups) == 16
    assert float(own.groups.mean()) == pytest.approx(own.value)
    assert float(own.groups.std()) / 4 == pytest.approx(own.error)
    alone = mean_score(own, others[:1])
    assert (alone.value, alone.error) == pytest.approx((others[0].value, others[0].error))
    assert log_mean_probability(own, others).error > 0
    own, *others = one.parallel(memory, pairs)
    assert log_mean_probability(own, others).error == 0
