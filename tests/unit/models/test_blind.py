"""Blind scores and their errors: against brute force over many draws, and against formulas that count shared masks."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from test_caption_scores import CAPTIONS, images, scorer

from mdc.predictors.blind import log_mean_probability, mean_score
from mdc.predictors.caption_scores import Pair, Scored
from mdc.predictors.draws import draws_of


def _drawn(groups: np.ndarray) -> Scored:
    values = torch.from_numpy(groups)
    return Scored(float(values.mean()), float(values.std()) / math.sqrt(len(values)), torch.empty(0), values)


def test_values_are_the_plain_formulas() -> None:
    own, *others = [Scored(value, 0.0, torch.empty(0)) for value in (-1.0, -2.0, -5.0, -900.0)]
    expected = math.log((math.exp(-2) + math.exp(-5) + math.exp(-900)) / 3)
    found = log_mean_probability(own, others)
    assert found.value == pytest.approx(expected) and (found.error, found.covariance) == (0, 0)
    assert mean_score(own, others).value == pytest.approx(-907 / 3)


def test_errors_are_the_spread_over_many_repetitions() -> None:
    """Scores whose errors are strongly correlated: an error from independent ones would be far off."""
    rng = np.random.default_rng(0)
    means = np.array([-4.0, -5.0, -5.5, -7.0])
    repeated, told = [], []
    for _ in range(4000):
        common = rng.normal(size=16)
        groups = [mean + 0.3 * common + 0.1 * rng.normal(size=16) for mean in means]
        own, *others = map(_drawn, groups)
        found = log_mean_probability(own, others)
        repeated.append((own.value, found.value, own.value - 0.75 * found.value))
        error = own.error**2 - 2 * 0.75 * found.covariance + 0.75**2 * found.error**2
        told.append((own.error**2, found.error**2, error))
    spread, expected = np.var(repeated, axis=0), np.mean(told, axis=0)
    assert expected == pytest.approx(spread, rel=0.08)
    weights = np.exp(means[1:]) / np.exp(means[1:]).sum()
    independent = (weights**2).sum() * (0.3**2 + 0.1**2) / 16
    assert spread[1] > 1.5 * independent, "which is why they are not taken to be independent"


def test_other_images_weigh_by_their_share_of_the_mean_probability() -> None:
    """… and not alike: of unlike scores with errors of their own the two differ by a factor of two in variance."""
    rng = np.random.default_rng(1)
    means, repeated, told = np.array([-4.0, -4.0, -7.0, -9.0]), [], []
    for _ in range(4000):
        common = rng.normal(size=16)
        own, *others = (_drawn(mean + 0.05 * common + 0.4 * rng.normal(size=16)) for mean in means)
        found = log_mean_probability(own, others)
        repeated.append(found.value)
        told.append(found.error**2)
    assert np.mean(told) == pytest.approx(np.var(repeated), rel=0.1)
    alike = (0.05**2 + 0.4**2 / 3) / 16
    assert np.var(repeated) > 1.8 * alike


def test_a_score_that_is_not_drawn_has_no_blind_error_and_a_drawn_one_has() -> None:
    one = scorer("mdc")
    memory = one.look(images())
    pairs = [Pair(image, CAPTIONS[0]) for image in range(3)]
    own, *others = one.monte_carlo(memory, pairs, [draws_of("x", 0, 64, 77)], 64)
    assert own.groups is not None and len(own.groups) == 16
    assert float(own.groups.mean()) == pytest.approx(own.value)
    assert float(own.groups.std()) / 4 == pytest.approx(own.error)
    alone = mean_score(own, others[:1])
    assert (alone.value, alone.error) == pytest.approx((others[0].value, others[0].error))
    assert log_mean_probability(own, others).error > 0
    own, *others = one.parallel(memory, pairs)
    assert log_mean_probability(own, others).error == 0
