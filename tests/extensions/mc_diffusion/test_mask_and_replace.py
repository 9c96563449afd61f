"""Mask and replace against the matrices Q themselves, built and multiplied by brute force for a few classes."""

import itertools
from functools import cache

import numpy as np
import pytest
import torch
from mask_and_replace_oracle import bound as oracle
from mask_and_replace_oracle import posterior
from scipy import stats
from torch import Tensor

from mdc.extensions.mc_diffusion.mask_and_replace.bound_gradient import BoundOfRows
from mdc.extensions.mc_diffusion.mask_and_replace.diffusion import (
    ReplaceSchedule,
    ancestral,
    bound_weights,
    corrupt,
    stationary,
    times,
)
from mdc.extensions.mc_diffusion.mask_and_replace.guidance import as_cfg, guided
from mdc.models.logits import sum_over_logits

T = 6
SCHEDULES = [ReplaceSchedule(k, T, masked, 1 - masked) for k in (2, 3, 5) for masked in (0.9, 0.5, 1.0)]


def one_step(schedule: ReplaceSchedule, t: int) -> np.ndarray:
    """Q_t, rows: from a state of time t − 1 to one of time t; solved from what holds of the products."""
    k = schedule.classes
    before, after = torch.tensor([t - 1]), torch.tensor([t])
    alpha = float(schedule.alpha_bar(after) / schedule.alpha_bar(before))
    gamma = 1 - float((1 - schedule.gamma_bar(after)) / (1 - schedule.gamma_bar(before)))
    beta = (1 - alpha - gamma) / k
    found = np.full((k + 1, k + 1), beta)
    found[np.arange(k), np.arange(k)] += alpha
    found[:k, k] = gamma
    found[k] = 0
    found[k, k] = 1
    return found


@cache
def product(schedule: ReplaceSchedule, s: int, t: int) -> np.ndarray:
    """From time s to time t."""
    return np.eye(schedule.classes + 1) if s == t else product(schedule, s, t - 1) @ one_step(schedule, t)


def pairs() -> list[tuple[int, int]]:
    return [(s, t) for t in range(1, T + 1) for s in range(t)]


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_stride_is_the_product_of_its_steps(schedule: ReplaceSchedule) -> None:
    k = schedule.classes
    for s, t in pairs():
        stride = schedule.stride(torch.tensor([s]), torch.tensor([t]))
        expected = product(schedule, s, t)
        # what the schedule itself gives, row by row: it sums to 1, and no probability is below 0
        assert float(stride.alpha + k * stride.beta + stride.gamma) == pytest.approx(1, abs=1e-14)
        assert min(float(value) for value in vars(stride).values()) >= 0
        assert (expected > -1e-15).all() and expected.sum(axis=1) == pytest.approx(np.ones(k + 1), abs=1e-12)
        assert float(stride.alpha + stride.beta) == pytest.approx(expected[0, 0], abs=1e-14)
        assert float(stride.beta) == pytest.approx(expected[0, 1], abs=1e-14)
        assert float(stride.gamma) == pytest.approx(expected[0, k], abs=1e-14)
    whole = product(schedule, 0, T)
    assert whole[0, k] == pytest.approx(schedule.masked) and whole[0, 0] == pytest.approx(schedule.replaced / k)


def reverse(schedule: ReplaceSchedule, s: int, t: int, p: np.ndarray, state: int) -> np.ndarray:
    """p(x_s | x_t = state) by Bayes' rule over all starts, whose probabilities are p (K,)."""
    k = schedule.classes
    if schedule.replaced == 0 and state < k:
        return np.asarray(np.eye(k + 1)[state])
    to_s, to_t, between = product(schedule, 0, s), product(schedule, 0, t), product(schedule, s, t)
    starts = [x0 for x0 in range(k) if to_t[x0, state] > 0]
    return np.asarray(sum(p[x0] * to_s[x0] * between[:, state] / to_t[x0, state] for x0 in starts))


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_the_posterior_is_bayes_rule_over_all_starts(schedule: ReplaceSchedule) -> None:
    """That of the oracle, with the matrices."""
    k = schedule.classes
    generator = torch.Generator().manual_seed(k)
    for s, t in pairs():
        p = torch.rand(k, generator=generator, dtype=torch.float64) + 0.01
        p /= p.sum()
        for state in range(k + 1):
            found = posterior(p[None, None], torch.tensor([[state]]), schedule.between(s, t))[0, 0]
            assert found.numpy() == pytest.approx(reverse(schedule, s, t, p.numpy(), state), abs=1e-12), (s, t, state)


def bound(logits: Tensor, x0: Tensor, x_t: Tensor, s: int, t: int, schedule: ReplaceSchedule) -> Tensor:
    """The sum of L places' parts of the bound, logits (L, K), as training computes it."""
    weights = bound_weights(x0[None], x_t[None], torch.tensor([s]), torch.tensor([t]), schedule).flat()
    of_rows = BoundOfRows(x0, weights, 1.0, torch.zeros(len(x0)), schedule.replaced > 0)
    return sum_over_logits(logits, torch.eye(logits.shape[1]), of_rows, 2)[0]


@pytest.mark.parametrize("schedule", [*SCHEDULES, ReplaceSchedule(400, T), ReplaceSchedule(400, 100)])
@pytest.mark.parametrize("sure", [1.0, 20.0])
def test_a_term_of_the_bound_is_the_divergence_of_the_posteriors(schedule: ReplaceSchedule, sure: float) -> None:
    """And so is its gradient, from every state, also where the model is nearly certain."""
    k, steps = schedule.classes, schedule.steps
    generator = torch.Generator().manual_seed(k)
    cases = [(a, b, x) for a, b in ((0, 1), (1, 2), (2, 5), (steps - 1, steps), (1, steps)) for x in range(min(k, 3))]
    for s, t, x0 in cases:
        for state in (x0, k, *([(x0 + 1) % k] if schedule.replaced else [])):
            x_t, clean = torch.tensor([state]), torch.tensor([x0])
            logits = (sure * torch.randn(1, k, generator=generator)).requires_grad_()
            again = logits.detach().double().requires_grad_()
            found = bound(logits, clean, x_t, s, t, schedule)
            times = torch.tensor([s]), torch.tensor([t])
            expected = oracle(again.softmax(dim=-1)[None], clean[None], x_t[None], *times, schedule).sum()
            assert float(found.detach()) == pytest.approx(float(expected.detach()), abs=2e-5, rel=2e-4), (s, t, state)
            found.backward()
            expected.backward()
            assert logits.grad is not None and again.grad is not None
            assert torch.allclose(logits.grad.double(), again.grad, atol=2e-5, rtol=2e-3), (s, t, state)


def _knows(joint: np.ndarray, schedule: ReplaceSchedule, t: int) -> np.ndarray:
    """p(x_0 at each place | both places at t), (K + 1, K + 1, 2, K), of a joint (K, K)."""
    k = len(joint)
    to_t = product(schedule, 0, t)
    # over (x, y, x_t, y_t)
    both = joint[:, :, None, None] * to_t[:k, None, :, None] * to_t[None, :k, None, :]
    whole = np.maximum(both.sum(axis=(0, 1)), 1e-300)
    first, second = both.sum(axis=1) / whole, both.sum(axis=0) / whole
    return np.stack([np.moveaxis(first, 0, -1), np.moveaxis(second, 0, -1)], axis=2)


JOINT = np.array([[0.30, 0.02, 0.05], [0.03, 0.25, 0.02], [0.03, 0.05, 0.25]])


def _bounds(schedule: ReplaceSchedule, moments: list[int]) -> np.ndarray:
    """The bound of each caption of two places (3, 3), with the exact marginals as the network, by enumeration."""
    found = np.zeros((3, 3))
    for t, s in itertools.pairwise(moments):
        to_t, knows = product(schedule, 0, t), _knows(JOINT, schedule, t)
        for x, y, x_t, y_t in itertools.product(range(3), range(3), range(4), range(4)):
            if chance := to_t[x, x_t] * to_t[y, y_t]:
                log_x0 = torch.from_numpy(knows[x_t, y_t]).clamp(min=1e-30).log().float()
                found[x, y] += chance * float(
                    bound(log_x0, torch.tensor([x, y]), torch.tensor([x_t, y_t]), s, t, schedule)
                )
    return found


@pytest.mark.parametrize("schedule", [ReplaceSchedule(3, 8), ReplaceSchedule(3, 8, 1.0, 0.0)])
def test_the_bound_of_two_places_that_depend_on_each_other(schedule: ReplaceSchedule) -> None:
    """It lies above the joint's entropy, and nearer with more strides; that of each caption above what it is drawn with."""
    bounds = []
    for count in (1, 2, 4, 8):
        each, law = _bounds(schedule, times(8, count)), _law(schedule, times(8, count))
        bounds.append(float((JOINT * each).sum()))
        assert (each >= -np.log(law) - 1e-4).all(), count
        if count == 1:  # nothing of the way is summed over
            assert each == pytest.approx(-np.log(law), abs=1e-3)
    entropy = -(JOINT * np.log(JOINT)).sum()
    apart = -sum((m * np.log(m)).sum() for m in (JOINT.sum(axis=0), JOINT.sum(axis=1)))
    assert bounds[0] == pytest.approx(apart, abs=1e-3), "one stride draws the places apart from each other"
    assert bounds[0] > bounds[1] > bounds[2] > bounds[3] > entropy
    assert bounds[-1] - entropy < 0.25 * (apart - entropy)


def _law(schedule: ReplaceSchedule, moments: list[int]) -> np.ndarray:
    """The exact law (3, 3) of two places that are drawn by :func:`ancestral` with the exact marginals as the network."""
    k = schedule.classes
    one = product(schedule, 0, schedule.steps)[0]
    law = np.multiply.outer(one, one)
    for t, s in itertools.pairwise(moments):
        knows, after = _knows(JOINT, schedule, t), np.zeros_like(law)
        for x, y in itertools.product(range(k + 1), range(k + 1)):
            if law[x, y] > 0:
                first, second = (
                    reverse(schedule, s, t, p, state) for p, state in zip(knows[x, y], (x, y), strict=True)
                )
                after += law[x, y] * np.multiply.outer(first, second)
        law = after
    assert law.sum() == pytest.approx(1, abs=1e-9)
    return law[:k, :k]


def _sampled(schedule: ReplaceSchedule, count: int, number: int = 40_000) -> np.ndarray:
    """How often each caption of two places (3, 3) is drawn in so many strides, with the exact marginals as the network."""
    generator = torch.Generator().manual_seed(count)

    def predict(tokens: torch.Tensor, t: int) -> torch.Tensor:
        table = torch.from_numpy(_knows(JOINT, schedule, t)).clamp(min=1e-30).log().float()
        return table[tokens[:, 0], tokens[:, 1]]

    def numbers(n: int) -> tuple[torch.Tensor, torch.Tensor]:
        what, which = (torch.rand(number, 2, generator=generator, dtype=torch.float64) for _ in range(2))
        return what, which

    start = stationary(schedule, *numbers(0))
    found = ancestral(predict, start, times(schedule.steps, count), schedule, numbers)
    # a place that never changed had its token in the beginning
    never = found.step == 0
    assert torch.equal(found.tokens[never], start[never]) and bool((found.confidence[never] == 0).all())
    assert bool((found.step <= count).all()) and bool((found.confidence <= 0).all()) and int(found.tokens.max()) < 3
    return torch.bincount(found.tokens[:, 0] * 3 + found.tokens[:, 1], minlength=9).numpy().reshape(3, 3)


@pytest.mark.parametrize("replaced", [0.1, 0.5, 0.0])
@pytest.mark.parametrize("count", [1, 2, 3, 8])
def test_samples_of_two_places_follow_the_law_of_their_chain(replaced: float, count: int) -> None:
    schedule = ReplaceSchedule(3, 8, 1 - replaced, replaced)
    counts, law = _sampled(schedule, count), _law(schedule, times(8, count))
    assert stats.chisquare(counts.flatten(), law.flatten() * 40_000).pvalue > 1e-3


def test_guidance() -> None:
    generator = torch.Generator().manual_seed(0)
    full, weak = (torch.randn(2, 3, 7, generator=generator).log_softmax(dim=-1) for _ in range(2))
    assert guided(full, weak, 1) is full
    for scale in (0.0, 0.5, 2.0, 5.0):
        expected = ((1 - scale) * weak.double() + scale * full.double()).log_softmax(dim=-1)
        assert torch.allclose(guided(full, weak, scale).log_softmax(dim=-1).double(), expected, atol=1e-5)
        head = torch.randn(7, 5, generator=generator)
        states = [torch.randn(2, 3, 5, generator=generator) for _ in range(2)]
        logs = [(state @ head.T).log_softmax(dim=-1) for state in states]
        before = (guided(*states, scale) @ head.T).log_softmax(dim=-1)
        assert torch.allclose(before, guided(*logs, scale).log_softmax(dim=-1), atol=1e-4), "before the output layer"
        assert torch.allclose(guided(full, full, scale), full, atol=1e-5), "nothing is lost of the condition"
        assert as_cfg(scale, "as_printed") == 1 - scale and as_cfg(scale, "cfg") == scale
    assert torch.allclose(guided(full, weak, 0.0), weak, atol=1e-6)


def test_a_corrupted_token_follows_the_law() -> None:
    schedule, number = ReplaceSchedule(4, 10), 40_000
    generator = torch.Generator().manual_seed(3)
    tokens = torch.full((1, number), 2)
    for t in (1, 5, 10):
        what, which = (torch.rand(1, number, generator=generator) for _ in range(2))
        found = corrupt(tokens, torch.tensor([t]), schedule, what, which)[0]
        counts = torch.bincount(found, minlength=5).numpy()
        time = torch.tensor([t])
        beta, gamma = float(schedule.beta_bar(time)), float(schedule.gamma_bar(time))
        expected = np.array([beta, beta, beta + float(schedule.alpha_bar(time)), beta, gamma])
        assert stats.chisquare(counts, expected * number).pvalue > 1e-3
    end = torch.bincount(stationary(schedule, what, which)[0], minlength=5).numpy()
    assert stats.chisquare(end, np.array([0.025, 0.025, 0.025, 0.025, 0.9]) * number).pvalue > 1e-3


@pytest.mark.parametrize(("steps", "count"), [(100, 100), (100, 25), (100, 7), (10, 3), (5, 1)])
def test_strides_cover_all_steps(steps: int, count: int) -> None:
    found = times(steps, count)
    assert found[0] == steps and found[-1] == 0 and len(found) == count + 1
    gaps = -np.diff(found)
    assert gaps.min() >= 1 and gaps.max() - gaps.min() <= 1


def test_times_are_uniform_and_stratified() -> None:
    schedule = ReplaceSchedule(3, 10)
    jitter = torch.rand(1000, generator=torch.Generator().manual_seed(8))
    found = schedule.draw_times(jitter, torch.arange(1000), 1000)
    assert int(found.min()) == 1 and int(found.max()) == 10
    assert torch.bincount(found)[1:].tolist() == [100] * 10
    assert int(schedule.draw_times(torch.tensor([1 - 1e-9]), torch.tensor([7]), 8)) == 10


def test_impossible_schedules_and_times_are_refused() -> None:
    for bad in ((1, 5), (3, 0), (3, 5, 0.5, 0.6)):
        with pytest.raises(ValueError, match=r"needed|together"):
            ReplaceSchedule(*bad)  # type: ignore[arg-type]
    schedule = ReplaceSchedule(3, 5)
    for s, t in ((2, 2), (3, 2), (-1, 2), (2, 6)):
        with pytest.raises(ValueError, match="0 ≤ s < t ≤ 5"):
            schedule.stride(torch.tensor([s]), torch.tensor([t]))
    with pytest.raises(ValueError, match="1 to 5 are possible"):
        times(5, 6)
