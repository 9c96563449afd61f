"""Mask and replace against the matrices Q themselves, built and multiplied by brute force for a few classes."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from scipy import stats

from mdc.diffusion.mask_and_replace import (
    ReplaceSchedule,
    ancestral,
    bound_terms,
    corrupt,
    divergence,
    posterior,
    stationary,
    times,
    true_posterior,
)

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


def product(schedule: ReplaceSchedule, s: int, t: int) -> np.ndarray:
    """From time s to time t."""
    found = np.eye(schedule.classes + 1)
    for step in range(s + 1, t + 1):
        found = found @ one_step(schedule, step)
    return found


def pairs() -> list[tuple[int, int]]:
    return [(s, t) for t in range(1, T + 1) for s in range(t)]


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_stride_is_the_product_of_its_steps(schedule: ReplaceSchedule) -> None:
    k = schedule.classes
    for s, t in pairs():
        stride = schedule.stride(torch.tensor([s]), torch.tensor([t]))
        expected = product(schedule, s, t)
        assert expected.sum(axis=1) == pytest.approx(np.ones(k + 1))
        assert float(stride.alpha + stride.beta) == pytest.approx(expected[0, 0], abs=1e-14)
        assert float(stride.beta) == pytest.approx(expected[0, 1], abs=1e-14)
        assert float(stride.gamma) == pytest.approx(expected[0, k], abs=1e-14)
    whole = product(schedule, 0, T)
    assert whole[0, k] == pytest.approx(schedule.masked) and whole[0, 0] == pytest.approx(schedule.replaced / k)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_the_posterior_is_bayes_rule_over_all_starts(schedule: ReplaceSchedule) -> None:
    k = schedule.classes
    generator = torch.Generator().manual_seed(k)
    for s, t in pairs():
        to_s, to_t, between = product(schedule, 0, s), product(schedule, 0, t), product(schedule, s, t)
        p = torch.rand(k, generator=generator, dtype=torch.float64) + 0.01
        p /= p.sum()
        stride = schedule.stride(torch.tensor([s]), torch.tensor([t]))
        for state in range(k + 1):
            expected = np.zeros(k + 1)
            for x0 in range(k):
                if to_t[x0, state] == 0:  # without replacement a visible token tells where it comes from
                    continue
                joint = to_s[x0] * between[:, state]
                expected += float(p[x0]) * joint / to_t[x0, state]
            if schedule.replaced == 0 and state < k:
                expected = np.eye(k + 1)[state]
            found = posterior(p.log().float()[None, None], torch.tensor([[state]]), stride).with_mask()[0, 0].exp()
            assert found.double().numpy() == pytest.approx(expected, abs=2e-6), (s, t, state)
            assert float(found.sum()) == pytest.approx(1, abs=2e-6)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_the_divergence_is_the_sum_over_all_states(schedule: ReplaceSchedule) -> None:
    k = schedule.classes
    generator = torch.Generator().manual_seed(7)
    for s, t in ((1, 2), (2, 5), (3, T)):
        stride = schedule.stride(torch.tensor([s]), torch.tensor([t]))
        log_p = torch.randn(1, 1, k, generator=generator).log_softmax(dim=-1)
        for x0, state in itertools.product(range(k), range(k + 1)):
            if schedule.replaced == 0 and state not in (x0, k):
                continue  # cannot come about
            true = true_posterior(torch.tensor([[x0]]), torch.tensor([[state]]), stride, k)
            model = posterior(log_p, torch.tensor([[state]]), stride)
            q, m = (one.with_mask()[0, 0].double().exp() for one in (true, model))
            expected = sum(float(a) * float((a / b).log()) for a, b in zip(q, m, strict=True) if a > 0)
            assert float(divergence(true, model)) == pytest.approx(expected, abs=2e-5)
            assert float(divergence(true, true)) == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize("schedule", [ReplaceSchedule(3, 4), ReplaceSchedule(3, 4, 1.0, 0.0)])
@pytest.mark.parametrize("count", [4, 2, 1])
def test_the_bound_is_the_likelihood_where_the_model_knows_all(schedule: ReplaceSchedule, count: int) -> None:
    """A place alone, and a model that has the true p(x_0 | x_t): in the mean over x_0 and x_t the bound is x_0's entropy."""
    prior = np.array([0.5, 0.3, 0.2])
    moments, total = times(4, count), 0.0
    for t, s in itertools.pairwise(moments):
        to_t = product(schedule, 0, t)
        for x0, state in itertools.product(range(3), range(4)):
            chance = prior[x0] * to_t[x0, state]
            if chance == 0:
                continue
            exact = torch.tensor(prior * to_t[:3, state] / (prior @ to_t[:3, state])).clamp(min=1e-30).log().float()
            term = bound_terms(
                exact[None, None],
                torch.tensor([[x0]]),
                torch.tensor([[state]]),
                torch.tensor([s]),
                torch.tensor([t]),
                schedule,
            )
            total += chance * float(term)
    assert total == pytest.approx(float(-(prior * np.log(prior)).sum()), abs=1e-4)


@pytest.mark.parametrize(
    "schedule", [ReplaceSchedule(3, 6), ReplaceSchedule(3, 6, 0.5, 0.5), ReplaceSchedule(3, 6, 1.0, 0.0)]
)
@pytest.mark.parametrize("count", [6, 4, 1])
def test_samples_follow_the_law_of_a_model_that_knows_it(schedule: ReplaceSchedule, count: int) -> None:
    """Of a place alone, by any number of strides, from the stationary law."""
    prior, number = np.array([0.6, 0.3, 0.1]), 20_000
    generator = torch.Generator().manual_seed(count)

    def predict(tokens: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        to_t = product(schedule, 0, int(at[0]))
        table = np.stack([prior * to_t[:3, state] / max(prior @ to_t[:3, state], 1e-300) for state in range(4)])
        return torch.from_numpy(table).clamp(min=1e-30).log().float()[tokens]

    def numbers(n: int) -> tuple[torch.Tensor, torch.Tensor]:
        what, which = (torch.rand(number, 1, generator=generator, dtype=torch.float64) for _ in range(2))
        return what, which

    start = stationary(schedule, *numbers(0))
    found = ancestral(predict, start, times(6, count), schedule, numbers)
    counts = torch.bincount(found[:, 0], minlength=4).numpy()
    assert counts[3] == 0
    assert stats.chisquare(counts[:3], prior * number).pvalue > 1e-3


def test_at_its_end_the_posterior_is_what_the_model_says() -> None:
    """From any t to 0 nothing is left to chance but x_0 itself."""
    schedule = ReplaceSchedule(5, T)
    log_p = torch.randn(1, 1, 5, generator=torch.Generator().manual_seed(1)).log_softmax(dim=-1)
    for t in range(1, T + 1):
        stride = schedule.stride(torch.tensor([0]), torch.tensor([t]))
        for state in range(6):
            found = posterior(log_p, torch.tensor([[state]]), stride)
            assert torch.allclose(found.classes, log_p, atol=1e-5) and float(found.mask) < -1e20


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


def test_without_replacement_it_is_masking_as_mdc_does_it() -> None:
    schedule = ReplaceSchedule(4, 10, masked=1.0, replaced=0.0)
    what = torch.rand(3, 50, generator=torch.Generator().manual_seed(4))
    tokens = torch.randint(0, 4, (3, 50), generator=torch.Generator().manual_seed(5))
    t = torch.tensor([2, 5, 10])
    found = corrupt(tokens, t, schedule, what, torch.rand(3, 50))
    assert torch.equal(found, tokens.masked_fill(what < t[:, None] / 10, 4))


def test_gradients_are_numbers_at_every_state_and_stride() -> None:
    for schedule in SCHEDULES:
        k = schedule.classes
        for s, t in pairs():
            logits = torch.zeros(1, k + 1, k, requires_grad=True)
            stride = schedule.stride(torch.tensor([s]), torch.tensor([t]))
            states = torch.arange(k + 1)[None]
            model = posterior(logits.log_softmax(dim=-1), states, stride)
            true = true_posterior(torch.zeros_like(states), states, stride, k)
            divergence(true, model).sum().backward()
            assert logits.grad is not None and bool(logits.grad.isfinite().all())


def test_a_large_vocabulary_loses_no_probability() -> None:
    k = 49_408
    schedule = ReplaceSchedule(k, 100)
    log_p = torch.randn(1, 2, k, generator=torch.Generator().manual_seed(6)).log_softmax(dim=-1)
    for s, t in ((0, 1), (1, 2), (49, 50), (99, 100), (0, 100)):
        stride = schedule.stride(torch.tensor([s]), torch.tensor([t]))
        found = posterior(log_p, torch.tensor([[17, k]]), stride).with_mask()
        assert found.double().exp().sum(dim=-1)[0].tolist() == pytest.approx([1.0, 1.0], abs=3e-4)


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


@pytest.mark.parametrize(
    "bad", [lambda: ReplaceSchedule(1, 5), lambda: ReplaceSchedule(3, 0), lambda: ReplaceSchedule(3, 5, 0.5, 0.6)]
)
def test_an_impossible_schedule_is_refused(bad: object) -> None:
    with pytest.raises(ValueError, match=r"needed|together"):
        bad()  # type: ignore[operator]


def test_times_must_fall() -> None:
    schedule = ReplaceSchedule(3, 5)
    for s, t in ((2, 2), (3, 2), (-1, 2), (2, 6)):
        with pytest.raises(ValueError, match="0 ≤ s < t ≤ 5"):
            schedule.stride(torch.tensor([s]), torch.tensor([t]))
    with pytest.raises(ValueError, match="1 to 5 are possible"):
        times(5, 6)
