import itertools
import pickle
from dataclasses import fields, replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from data_samples import scenes, use_scenes, write_corpus

from mdc.data.formats import images, pixels
from mdc.data.loader import batches as loader
from mdc.data.loader.batch import CaptionBatch
from mdc.data.loader.batches import CaptionBatches, validation_batches
from mdc.data.loader.draws import MoreDraws, sample_rng
from mdc.data.shards import index as shards
from mdc.models.text import Vocabulary
from mdc.plan.records import UserError

FIELDS = [field.name for field in fields(CaptionBatch)]
CROPS: dict[str, Any] = {"crop_scale": (0.9, 1.0), "crop_ratio": (3 / 4, 4 / 3), "context_length": 77}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """23 training samples in three shards, with one to three captions each."""
    path = tmp_path_factory.mktemp("corpus")
    with pytest.MonkeyPatch.context() as patch:
        use_scenes(patch)
        write_corpus("alt", scenes(), path, path, samples_per_shard=10)
    return path


@pytest.fixture
def vocabulary(folder: Path) -> Vocabulary:
    return Vocabulary.corpus(shards.read_index(folder)["pieces"])


def batches(folder: Path, vocabulary: Vocabulary, **changes: Any) -> CaptionBatches:
    options: dict[str, Any] = {"image_size": 8, "batch_size": 6, "seed": 5, "steps": 8, **CROPS}
    return CaptionBatches(folder, "train", vocabulary, **(options | changes))


def assert_equal(left: CaptionBatch, right: CaptionBatch) -> None:
    assert left.keys == right.keys
    for name in set(FIELDS) - {"keys"}:
        ours, theirs = getattr(left, name), getattr(right, name)
        assert ours is theirs or (ours.dtype == theirs.dtype and torch.equal(ours, theirs)), name


def test_every_value_follows_from_the_documented_draws(folder: Path, vocabulary: Vocabulary) -> None:
    """A slow, separate reading of the docstring: order, caption, crop, jitter, uniforms, padding."""
    reader = shards.ShardReader(folder, "train")
    for step, batch in enumerate(batches(folder, vocabulary)):
        width = batch.tokens.shape[1]
        assert width % 8 == 0 and width - 8 < int(batch.lengths.max()) <= width
        assert batch.images.is_contiguous() and batch.jitter.dtype == batch.uniforms.dtype == torch.float32
        for row, index in _rows(step):
            key, data, record = reader.read(index)
            rng = _stream(index, step // 3, 0)
            caption, jitter, *crop = rng.random(42, dtype=np.float32).tolist()
            ids = vocabulary.encode(record["captions"][int(caption * len(record["captions"]))])
            assert batch.keys[row] == key and float(batch.jitter[row]) == jitter
            assert batch.tokens[row].tolist() == ids + [vocabulary.eot] * (width - len(ids))
            assert int(batch.lengths[row]) == len(ids)
            shown = torch.from_numpy(np.array(images.decode(data)))
            expected = pixels.random_resized_crop(shown, 8, crop, (0.9, 1.0), (3 / 4, 4 / 3))
            assert torch.equal(batch.images[row], expected)
            np.testing.assert_array_equal(batch.uniforms[row], rng.random(77, dtype=np.float32)[:width])


def test_replacement_and_condition_have_streams_of_their_own(folder: Path, vocabulary: Vocabulary) -> None:
    """… so that no other draw depends on them; each follows from (seed, epoch, sample) alone, whatever the width, rank, worker
    or the step that a run goes on from."""
    more = MoreDraws(context_length=77, vectors=5)
    plain, found = batches(folder, vocabulary), list(batches(folder, vocabulary, more=more))
    for step, (without, batch) in enumerate(zip(plain, found, strict=True)):
        assert_equal(without, replace(batch, token_draws=None, image_draws=None))
        assert batch.token_draws is not None and batch.image_draws is not None
        for row, index in _rows(step):
            what, which = (_stream(index, step // 3, name).random(77, dtype=np.float32) for name in (3, 4))
            np.testing.assert_array_equal(batch.token_draws[row], what[: batch.tokens.shape[1]])
            np.testing.assert_array_equal(batch.image_draws[row], which[:6])
            drawn = torch.cat([batch.token_draws[row, :6], batch.image_draws[row], batch.uniforms[row, :6]])
            assert len(set(drawn.tolist())) == 18, "no two streams share a number"
    for changes in ({"workers": 2}, {"start_step": 3}):
        there = list(batches(folder, vocabulary, more=more, **changes))
        for ours, theirs in zip(found[len(found) - len(there) :], there, strict=True):
            assert_equal(ours, theirs)


def _rows(step: int) -> list[tuple[int, int]]:
    """Of the seed 5, whose epochs are three steps: the rows of a batch, and which samples they are."""
    epoch, position = divmod(step, 3)
    return list(enumerate(_order(23, 5, epoch)[6 * position : 6 * position + 6]))


def _stream(index: int, epoch: int, name: int) -> np.random.Generator:
    """Of the seed 5."""
    return np.random.Generator(np.random.Philox(key=5, counter=[0, index, epoch, name]))


def _order(count: int, seed: int, epoch: int) -> list[int]:
    """The order of an epoch by whole numbers, sample by sample: ten rounds over two halves of four bits, as long as it takes."""
    keys = np.random.Generator(np.random.Philox(key=seed, counter=[0, 0, epoch, 1])).integers(0, 2**64, 10, np.uint64)

    def mixed(number: int, key: int) -> int:
        number = (number + key) % 2**64
        number = (number ^ (number >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
        number = (number ^ (number >> 27)) * 0x94D049BB133111EB % 2**64
        return (number ^ (number >> 31)) % 16

    def once(number: int) -> int:
        high, low = divmod(number, 16)
        for turn, key in enumerate(keys.tolist()):
            high, low = (high, low ^ mixed(high, key)) if turn % 2 else (high ^ mixed(low, key), low)
        return 16 * high + low

    found = []
    for place in range(count):
        number = once(place)
        while number >= count:
            number = once(number)
        found.append(number)
    return found


@pytest.mark.parametrize(("start", "workers"), [(0, 1), (0, 2), (1, 0), (3, 2), (7, 0), (8, 0)])
def test_neither_workers_nor_resuming_change_a_byte(
    folder: Path, vocabulary: Vocabulary, start: int, workers: int
) -> None:
    whole = list(batches(folder, vocabulary))
    torch.manual_seed(7)
    state = torch.get_rng_state()
    rest = batches(folder, vocabulary, start_step=start, workers=workers)
    assert len(rest) == 8 - start
    for left, right in zip(whole[start:], rest, strict=True):
        assert_equal(left, right)
    assert torch.equal(torch.get_rng_state(), state), "the global generator is left alone"


@pytest.mark.parametrize("world", [2, 3, 6])
def test_ranks_partition_the_global_batch(folder: Path, vocabulary: Vocabulary, world: int) -> None:
    ranks = [batches(folder, vocabulary, rank=rank, world=world) for rank in range(world)]
    for whole, *parts in zip(batches(folder, vocabulary), *ranks, strict=True):
        for rank, part in enumerate(parts):
            rows = slice(rank, None, world)
            assert part.keys == whole.keys[rows] and part.place.tolist() == list(range(rank, 6, world))
            for name in ("images", "lengths", "jitter", "place", "caption_hash"):
                assert torch.equal(getattr(part, name), getattr(whole, name)[rows])
            width = part.tokens.shape[1]
            assert torch.equal(part.tokens, whole.tokens[rows, :width])
            assert torch.equal(part.uniforms, whole.uniforms[rows, :width])


@pytest.mark.parametrize("budget", [0, 12 * 12 * 3 * 5, 1 << 20])
def test_samples_that_are_kept_are_decoded_once_and_change_no_byte(
    folder: Path, vocabulary: Vocabulary, monkeypatch: pytest.MonkeyPatch, budget: int
) -> None:
    """… and neither does it how many are read at once."""
    plain = list(batches(folder, vocabulary, steps=12, workers=1))
    decoded: list[bytes] = []
    monkeypatch.setattr(loader, "decode_pixels", lambda data: decoded.append(data) or pixels.decode_pixels(data))
    monkeypatch.setattr(loader, "KEPT", budget)
    monkeypatch.setattr(loader, "_AT_ONCE", 4 if budget else 1)
    for ours, theirs in zip(batches(folder, vocabulary, steps=12), plain, strict=True):
        assert_equal(ours, theirs)
    # 12 steps of 6 are four epochs of 18 of the 23 samples
    if budget == 0:
        assert len(decoded) == 72
    elif budget == 1 << 20:
        assert len(decoded) == len(set(decoded)) <= 23
    else:
        assert 72 - 4 * 5 < len(decoded) < 72


@pytest.mark.parametrize(
    ("options", "most", "tokenised"),
    [
        ({"steps": 3}, 1 << 16, 18),  # one pass of 3 batches of 6
        ({"steps": 30}, 1 << 16, 0),  # ten passes, and each caption once
        ({"steps": 30, "workers": 8}, 1 << 16, 180),  # a worker is shown 22.5
        ({"steps": 30, "world": 6}, 1 << 16, 0),  # a rank is shown 30
        ({"steps": 30}, 22, 180),  # more samples than may be kept
    ],
)
def test_captions_are_kept_where_they_are_met_again(
    folder: Path,
    vocabulary: Vocabulary,
    monkeypatch: pytest.MonkeyPatch,
    options: dict[str, Any],
    most: int,
    tokenised: int,
) -> None:
    made: list[str] = []
    encode = Vocabulary.encode
    monkeypatch.setattr(Vocabulary, "encode", lambda self, text, most: made.append(text) or encode(self, text, most))
    monkeypatch.setattr(loader, "_TEXT_CACHE", most)
    several = batches(folder, vocabulary, **options)
    for one in (several, pickle.loads(pickle.dumps(several))):  # also as a worker gets it
        made.clear()
        for step in range(options["steps"]):
            one.batch(step)
        assert len(made) == tokenised if tokenised else len(made) == len(set(made)) > 15
    made.clear()
    list(held_out(folder, vocabulary))
    assert len(made) == 5, "of held-out samples each is met once"


def test_seeds_epochs_samples_and_streams_draw_apart() -> None:
    names = itertools.product((0, 1), (0, 1), (0, 1), (0, 2))
    assert len({value for name in names for value in sample_rng(*name).random(200)}) == 200 * 16


def test_equal_captions_share_a_hash_and_others_do_not(folder: Path, vocabulary: Vocabulary) -> None:
    texts: dict[int, set[tuple[int, ...]]] = {}
    for batch in batches(folder, vocabulary, steps=30):
        for row, length, hashed in zip(batch.tokens, batch.lengths, batch.caption_hash.tolist(), strict=True):
            texts.setdefault(hashed, set()).add(tuple(row[:length].tolist()))
    assert len(texts) > 20 and all(len(found) == 1 for found in texts.values())


def test_long_captions_are_cut_to_the_context(folder: Path, vocabulary: Vocabulary) -> None:
    for batch in batches(folder, vocabulary, context_length=5):
        assert batch.tokens.shape == (6, 5)
        last = batch.tokens[torch.arange(6), batch.lengths - 1]
        assert (last == vocabulary.eot).all() and (batch.tokens[:, 0] == vocabulary.sot).all()


@pytest.mark.parametrize("workers", [0, 1])
def test_errors_stay_one_line(folder: Path, workers: int) -> None:
    with pytest.raises(UserError, match="outside this vocabulary") as caught:
        list(batches(folder, Vocabulary.corpus([1, 2]), workers=workers))
    assert "Traceback" not in str(caught.value)


def test_impossible_batches_are_refused(folder: Path, vocabulary: Vocabulary) -> None:
    with pytest.raises(UserError, match="23 samples, fewer than a batch of 24"):
        batches(folder, vocabulary, batch_size=24)
    with pytest.raises(UserError, match="4 ranks"):
        batches(folder, vocabulary, world=4)


def held_out(folder: Path, vocabulary: Vocabulary, **changes: Any) -> list[CaptionBatch]:
    options: dict[str, Any] = {"image_size": 8, "batch_size": 2, "context_length": 77}
    return list(validation_batches(folder, "val", vocabulary, **(options | changes)))


@pytest.mark.parametrize("world", [2, 4])
def test_ranks_take_validation_batches_in_turn(folder: Path, vocabulary: Vocabulary, world: int) -> None:
    whole, *parts = (
        [batch.keys for batch in held_out(folder, vocabulary, **ranks)]
        for ranks in ({}, *({"rank": rank, "world": world} for rank in range(world)))
    )
    assert len(whole) == 3 and parts == [whole[rank::world] for rank in range(world)]


def test_validation_is_the_same_whatever_the_batch(folder: Path, vocabulary: Vocabulary) -> None:
    def rows(batch_size: int) -> list[tuple]:
        out = []
        for batch in held_out(folder, vocabulary, batch_size=batch_size):
            width = batch.tokens.shape[1]
            assert batch.place.tolist() == list(range(len(batch.keys)))
            for i, key in enumerate(batch.keys):
                tokens = batch.tokens[i, : int(batch.lengths[i])].tolist()
                out.append((key, tokens, float(batch.jitter[i]), batch.uniforms[i, : min(width, 8)].tolist()))
        return out

    assert rows(5) == rows(2) == rows(1)
    assert len(rows(5)) == 5
    assert [len(batch) for batch in held_out(folder, vocabulary, batch_size=3, limit=4)] == [3, 1]


def test_a_damaged_image_is_named(folder: Path, vocabulary: Vocabulary, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loader, "decode_pixels", Mock(side_effect=images.ImageError("cannot be decoded")))
    with pytest.raises(UserError, match="alt, split train: image of train-0000"):
        next(iter(batches(folder, vocabulary)))
