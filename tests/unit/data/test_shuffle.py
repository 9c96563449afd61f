"""The order of an epoch, global or by blocks: a bijection, no more regular than chance, the same from any step and rank."""

import itertools
import math
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import toy
from data_samples import scenes, use_scenes, write_corpus
from scipy import stats

from mdc.data.loader.batches import BlockOrder, CaptionBatches
from mdc.data.loader.draws import BLOCKS, WINDOW, sample_rng
from mdc.data.loader.shuffle import permuted, shuffled
from mdc.data.shards.index import read_index
from mdc.models.text import Vocabulary
from mdc.plan.config.pretrain import Recipe


def whole(count: int, seed: int, epoch: int) -> np.ndarray:
    return shuffled(np.arange(count), count, seed, epoch)


@pytest.mark.parametrize("count", [*range(1, 70), 255, 256, 257, 511, 513, 1000, 4096, 4097, 65_537, 300_001])
def test_every_sample_stands_at_one_place(count: int) -> None:
    for seed, epoch in ((0, 0), (0, 1), (7, 0), (2**63, 12)):
        assert np.array_equal(np.sort(whole(count, seed, epoch)), np.arange(count))


def test_places_are_computed_one_by_one_and_in_any_shape() -> None:
    count = 30_000_000
    places = np.array([[0, 5, count - 1], [5, 17, 29_999_998]])
    for at in (lambda some: shuffled(some, count, 3, 4), lambda some: BlockOrder([10_000] * 3000, 8192).at(some, 3, 4)):
        found = at(places)
        assert found.shape == places.shape and found.dtype == np.int64
        assert found[0, 1] == found[1, 0] == at(np.array([5]))[0]
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


# --- by blocks --------------------------------------------------------------------------------------------------------

SIZES = [[1], [10, 10, 3], [1, 40, 7, 7, 2, 300, 1], [5, 0, 9, 0, 0, 4], [50] * 6]


def by_lists(sizes: list[int], buffer: int, seed: int, epoch: int) -> list[int]:
    """The same as somebody would write it down: lay the shards one behind the other, cut, shuffle each piece."""
    firsts = [sum(sizes[:number]) for number in range(len(sizes))]
    rng = sample_rng(seed, epoch, 0, BLOCKS)
    laid = []
    for block in permuted(np.arange(len(sizes)), len(sizes), rng).tolist():
        laid += range(firsts[block], firsts[block] + sizes[block])
    found = []
    for number, start in enumerate(range(0, len(laid), buffer)):
        piece = laid[start : start + buffer]
        rng = sample_rng(seed, epoch, number, WINDOW)
        found += [piece[place] for place in permuted(np.arange(len(piece)), len(piece), rng).tolist()]
    return found


@pytest.mark.parametrize("buffer", [1, 7, 64, 10_000])
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_every_sample_stands_at_one_place_as_by_lists(sizes: list[int], buffer: int) -> None:
    for seed, epoch in ((0, 1), (2**63, 12)):
        found = BlockOrder(sizes, buffer).at(np.arange(sum(sizes)), seed, epoch)
        assert np.array_equal(np.sort(found), np.arange(sum(sizes)))
        assert found.tolist() == by_lists(sizes, buffer, seed, epoch)


@pytest.mark.parametrize("buffer", [1, 16, 64, 10_000])
@pytest.mark.parametrize("sizes", [[50] * 20, [30, 90, 41, 57, 30, 200]], ids=str)
def test_a_window_touches_few_shards_and_each_is_gone_through_once(sizes: list[int], buffer: int) -> None:
    shard = np.repeat(np.arange(len(sizes)), sizes)[BlockOrder(sizes, buffer).at(np.arange(sum(sizes)), 3, 4)]
    for start in range(0, len(shard), buffer):
        # whole shards between two that are cut
        assert len(set(shard[start : start + buffer].tolist())) <= (buffer - 2) // min(sizes) + 2
    for number, size in enumerate(sizes):
        places = np.flatnonzero(shard == number)
        assert places[-1] - places[0] < size + 2 * (buffer - 1), "done with it, no window comes back to a shard"


# --- in batches -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """41 training samples in shards of six, the last of five."""
    path = tmp_path_factory.mktemp("corpus")
    with pytest.MonkeyPatch.context() as patch:
        use_scenes(patch)
        write_corpus("alt", scenes(train=41), path, path, samples_per_shard=6)
    return path


def keys(folder: Path, **changes: Any) -> list[list[str]]:
    options: dict[str, Any] = {"image_size": 8, "batch_size": 8, "seed": 5, "steps": 15, "buffer": 9}
    options |= {"crop_scale": (0.9, 1.0), "crop_ratio": (3 / 4, 4 / 3), "context_length": 77}
    vocabulary = Vocabulary.corpus(read_index(folder)["pieces"])
    return [batch.keys for batch in CaptionBatches(folder, "train", vocabulary, **(options | changes))]


def test_batches_follow_the_order(folder: Path) -> None:
    found = keys(folder)
    for epoch in range(3):
        expected = by_lists([6] * 6 + [5], 9, 5, epoch)[:40]
        assert [key for batch in found[5 * epoch : 5 * epoch + 5] for key in batch] == [
            f"train-{i:06d}" for i in expected
        ]
    assert found != keys(folder, buffer=None) and found != keys(folder, seed=6) and found != keys(folder, buffer=8)


@pytest.mark.parametrize("start", [1, 4, 5, 13])
def test_a_resumed_run_goes_on_where_it_was(folder: Path, start: int) -> None:
    assert keys(folder, start_step=start) == keys(folder)[start:]


def test_each_shard_is_read_ahead_when_its_window_comes(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once an epoch, in the order of the blocks; a global order touches all shards at any time, and reads none ahead."""
    told: list[str] = []

    def advise(descriptor: int, offset: int, length: int, advice: int) -> None:
        assert (offset, length, advice) == (0, 0, os.POSIX_FADV_WILLNEED)
        told.append(Path(f"/proc/self/fd/{descriptor}").readlink().name)

    monkeypatch.setattr(os, "posix_fadvise", advise)
    keys(folder, steps=5, buffer=None)
    assert told == [] and BlockOrder([6] * 6 + [5], 6).shards_at_once() == 4
    for epoch in range(2):
        told.clear()
        keys(folder, start_step=5 * epoch, steps=5 * epoch + 5, buffer=6)
        order = dict.fromkeys(place // 6 for place in by_lists([6] * 6 + [5], 6, 5, epoch)[:40])
        assert told == [f"train-{number:05d}.tar" for number in order] and len(told) == 7


# --- in a recipe ------------------------------------------------------------------------------------------------------


def test_a_recipe_says_its_order() -> None:
    assert toy.recipe().model_dump(mode="json")["order"] == "global"
    for order in ("global", {"blocks": {"buffer": 5}}):
        told = toy.recipe(order=order).model_dump(mode="json")
        assert told["order"] == order and Recipe.model_validate(told) == toy.recipe(order=order)
