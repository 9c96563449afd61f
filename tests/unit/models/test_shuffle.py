"""The order of an epoch: a bijection for every size, and no more regular than chance."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from mdc.loader.shuffle import shuffled


def whole(count: int, seed: int, epoch: int) -> np.ndarray:
    return shuffled(np.arange(count), count, seed, epoch)


@pytest.mark.parametrize("count", [*range(1, 70), 255, 256, 257, 511, 513, 1000, 4096, 4097, 65_537, 300_001])
def test_every_sample_stands_at_one_place(count: int) -> None:
    for seed, epoch in ((0, 0), (0, 1), (7, 0), (2**63, 12)):
        assert np.array_equal(np.sort(whole(count, seed, epoch)), np.arange(count))


def test_places_are_computed_one_by_one_and_in_any_shape() -> None:
    count = 30_000_000
    places = np.array([[0, 5, count - 1], [5, 17, 29_999_998]])
    found = shuffled(places, count, 3, 4)
    assert found.shape == places.shape and found.dtype == np.int64
    assert found[0, 1] == found[1, 0] == shuffled(np.array([5]), count, 3, 4)[0]
    assert found.min() >= 0 and found.max() < count


def test_seeds_and_epochs_have_orders_of_their_own() -> None:
    orders = [tuple(whole(1000, seed, epoch)) for seed in range(5) for epoch in range(5)]
    assert len(set(orders)) == 25


@pytest.mark.parametrize("count", [2, 3, 4])
def test_small_permutations_are_equally_likely(count: int) -> None:
    """Chi-square over all permutations, 8 expected of each."""
    number = {order: i for i, order in enumerate(itertools.permutations(range(count)))}
    found = np.zeros(len(number))
    for seed in range(8 * math.factorial(count)):
        found[number[tuple(whole(count, seed, seed % 7).tolist())]] += 1
    assert stats.chisquare(found).pvalue > 1e-3


@pytest.mark.parametrize("count", [300, 5000])
def test_any_sample_may_stand_anywhere(count: int) -> None:
    """Chi-square of (a twentieth of the places) × (a twentieth of the samples) over 2,000 orders."""
    table = np.zeros((20, 20))
    places = np.arange(0, count, 37)  # a few of each order, so that they are nearly independent
    for seed in range(2000):
        np.add.at(table, (places * 20 // count, shuffled(places, count, seed, 0) * 20 // count), 1)
    table = table[table.sum(1) > 0]
    expected = np.outer(table.sum(1), np.bincount(np.arange(count) * 20 // count, minlength=20) / count)
    assert stats.chi2.sf(((table - expected) ** 2 / expected).sum(), 19 * len(table)) > 1e-3


@pytest.mark.parametrize("count", [5000, 8192])
def test_neighbours_stand_as_far_apart_as_by_chance(count: int) -> None:
    """Differences (modulo the count) of samples at neighbouring places are uniform; so are those half the range away."""
    for step in (1, 2, count // 2):
        differences = []
        for seed in range(40):
            order = whole(count, seed, 1)
            differences.append((order[step:] - order[:-step]) % count)
        counts = np.bincount(np.concatenate(differences) * 50 // count, minlength=50)
        # a difference of 0 cannot be, which lowers the first class by 1/count of all
        chances = np.bincount(np.arange(1, count) * 50 // count, minlength=50) / (count - 1)
        assert stats.chisquare(counts, chances * counts.sum()).pvalue > 1e-3


def test_fixed_points_are_as_many_as_by_chance() -> None:
    """One on average in a random permutation, with variance one."""
    fixed = [int((whole(2000, seed, 2) == np.arange(2000)).sum()) for seed in range(1000)]
    assert abs(np.mean(fixed) - 1) < 4 / math.sqrt(1000)
    assert abs(np.var(fixed) - 1) < 0.25
