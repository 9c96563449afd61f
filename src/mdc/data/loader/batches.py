"""Batches as a pure function of (seed, step): the same bytes with any number of workers, on any rank, after any resume.

An epoch is a permutation of the samples (of all samples, or shard by shard: see `BlockOrder`). Step s of an epoch takes its s-th
run of ``batch_size`` (global), and rank r of w every w-th sample of it from the r-th on. All random numbers of a sample come from
one Philox stream, keyed by (seed, epoch, sample).
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property, lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from mdc.data.formats.pixels import CROP_DRAWS, decode_pixels, random_resized_crop
from mdc.data.loader.batch import CaptionBatch
from mdc.data.loader.center_crops import center_crops, decoded
from mdc.data.loader.draws import BLOCKS, VALIDATION, WINDOW, MoreDraws, sample_rng
from mdc.data.loader.precomputed_tokens import PrecomputedTokens
from mdc.data.loader.shuffle import permuted, shuffled
from mdc.data.loader.workers import ahead, room_for
from mdc.data.shards.index import ShardReader, token_hash
from mdc.models.text import Vocabulary
from mdc.plan.records import UserError

_Read = tuple[str, dict[str, Any]]  # a sample's key and record
KEPT = 1 << 28  # bytes of decoded pixels that one process caches: 256 MiB
_AT_ONCE = 32  # samples that are read before the first of them is decoded
_TEXT_CACHE = 1 << 16  # captions whose ids are cached: tokenising takes as long as decoding a small image


class CaptionBatches:
    """Training batches of one rank, from ``start_step`` to ``steps``; iterate it once.

    ``batch_size`` is the global batch; ``world`` must divide it. An epoch has ``steps_per_epoch`` = ⌊N / batch_size⌋
    steps and drops the rest of its permutation (OpenCLIP's ``drop_last``). ``workers`` processes prepare whole batches
    ahead (0: none, in this process). Images are random resized crops of ``crop_scale`` and ``crop_ratio``. One of a sample's
    captions is drawn each time. A batch has B = batch_size / world samples, padded to at least ``least_tokens`` tokens.

    ``buffer``: the epoch's order is that of ``BlockOrder`` with this buffer, instead of a permutation of all samples.

    With ``tokens``, a batch has the tokens of a frozen encoder (B, M, E) instead of images; the draws stay the same.

    A sample's draws, in float32 from ``sample_rng(seed, epoch, index)``, always in this order: caption, jitter,
    ``CROP_DRAWS`` for the crop, then one for each token. ``more``: further draws, from other streams.
    """

    def __init__(
        self,
        path: str | Path,
        split: str,
        vocabulary: Vocabulary,
        *,
        image_size: int,
        batch_size: int,
        seed: int,
        steps: int,
        crop_scale: tuple[float, float],
        crop_ratio: tuple[float, float],
        context_length: int,
        start_step: int = 0,
        rank: int = 0,
        world: int = 1,
        workers: int = 0,
        least_tokens: int = 0,
        tokens: PrecomputedTokens | None = None,
        more: MoreDraws | None = None,
        buffer: int | None = None,
    ) -> None:
        self.reader = ShardReader(path, split)
        self._blocks = None if buffer is None else BlockOrder(self.reader.sizes, buffer)
        if self._blocks is not None:
            self.reader.read_ahead(self._blocks.shards_at_once())
        if batch_size % world or not 0 <= rank < world:
            raise UserError(f"a global batch of {batch_size} cannot be shared by {world} ranks; it must be a multiple")
        if len(self.reader) < batch_size:
            raise UserError(
                f"{path}: split {split} has {len(self.reader)} samples, fewer than a batch of {batch_size}; "
                "allowed: a smaller batch_size or more samples"
            )
        self.seed, self.batch_size, self.image_size = seed, batch_size, image_size
        self.start_step, self.steps, self.workers = start_step, steps, workers
        self.crop_scale, self.crop_ratio = crop_scale, crop_ratio
        self.steps_per_epoch = len(self.reader) // batch_size
        # every ``world``-th place, so that each rank's t covers its range: of contiguous places, the last rank would mask most
        self._local = np.arange(rank, batch_size, world)
        shown = len(self) * len(self._local) / max(workers, 1)  # samples per process that prepares batches
        # no cache if few captions recur in a process, or if it would be too small
        kept = _TEXT_CACHE if len(self.reader) < shown and len(self.reader) <= _TEXT_CACHE else 0
        self._texts = _Texts(vocabulary, context_length, least_tokens, kept)
        # with several workers, samples rarely recur in one of them
        recur = workers == 0 and steps - start_step > self.steps_per_epoch
        self._pictures = DecodedCache(self.reader, KEPT if recur else 0)
        self._tokens, self._more = tokens, more

    def __len__(self) -> int:
        """Steps left."""
        return max(self.steps - self.start_step, 0)

    def __iter__(self) -> Iterator[CaptionBatch]:
        if self.workers and self._tokens is None:
            room_for(self.workers, len(self._local) * 3 * self.image_size**2)
        return ahead(self.batch, range(self.start_step, self.steps), self.workers)

    def batch(self, step: int) -> CaptionBatch:
        """The batch of one step; a function of the constructor's arguments and ``step`` only."""
        epoch, position = divmod(step, self.steps_per_epoch)
        places = position * self.batch_size + self._local
        indices: list[int] = self._order(places, epoch).tolist()
        draws = self._texts.draws(sample_rng(self.seed, epoch, index) for index in indices)
        images, read = self._shown(indices, draws)
        batch = self._texts.collate(images, read, draws, torch.from_numpy(self._local))
        return batch if self._more is None else self._more.of_training(batch, self.seed, epoch, indices)

    def _order(self, places: np.ndarray, epoch: int) -> np.ndarray:
        if self._blocks is not None:
            return self._blocks.at(places, self.seed, epoch)
        return shuffled(places, len(self.reader), self.seed, epoch)

    def _shown(self, indices: list[int], draws: np.ndarray) -> tuple[torch.Tensor, list[_Read]]:
        """The samples' images, or their tokens, and their keys and records. Reading, decoding and cropping alternate in groups:
        alternating image by image is a tenth slower, because of cold processor caches."""
        if self._tokens is not None:
            return self._tokens.of(indices), [(key, record) for key, _, record in map(self.reader.read, indices)]
        images = torch.empty((len(indices), 3, self.image_size, self.image_size), dtype=torch.uint8)
        crops = draws[:, 2 : 2 + CROP_DRAWS].tolist()
        read: list[_Read] = []
        for first in range(0, len(indices), _AT_ONCE):
            few = slice(first, first + _AT_ONCE)
            pictures = self._pictures.read(indices[few])
            for sample, crop, image in zip(pictures, crops[few], images[few], strict=True):
                image.copy_(random_resized_crop(sample.pixels, self.image_size, crop, self.crop_scale, self.crop_ratio))
            read += [(sample.key, sample.record) for sample in pictures]
        return images, read


def validation_batches(
    path: str | Path,
    split: str,
    vocabulary: Vocabulary,
    *,
    image_size: int,
    batch_size: int,
    context_length: int,
    limit: int | None = None,
    rank: int = 0,
    world: int = 1,
    least_tokens: int = 0,
    tokens: PrecomputedTokens | None = None,
    more: MoreDraws | None = None,
    workers: int = 0,
) -> Iterator[CaptionBatch]:
    """All samples of a corpus's split (or the first ``limit``) in order; the last batch may be short. Several ranks take
    whole batches in turn. ``least_tokens``, ``workers``: see :class:`CaptionBatches`.

    Images are CLIP's central crop, or ``tokens`` replace them. Draws depend only on the sample, so that captions and masks are
    the same every time; ``place`` is the sample's position in the batch.
    """
    reader = ShardReader(path, split)
    texts = _Texts(vocabulary, context_length, least_tokens)
    total = len(reader) if limit is None else min(limit, len(reader))
    batch_of = partial(_held_out, reader, texts, image_size, tokens, more)
    return ahead(batch_of, list(_runs(total, batch_size, rank, world)), workers)


def _held_out(
    reader: ShardReader,
    texts: "_Texts",
    image_size: int,
    tokens: PrecomputedTokens | None,
    more: MoreDraws | None,
    indices: range,
) -> CaptionBatch:
    if tokens is None:
        images, read = center_crops(reader, indices, image_size)
    else:
        images, read = tokens.of(indices), [(key, record) for key, _, record in map(reader.read, indices)]
    draws = texts.draws(sample_rng(0, 0, index, VALIDATION) for index in indices)
    batch = texts.collate(images, read, draws, torch.arange(len(read)))
    return batch if more is None else more.of_validation(batch, indices)


def _runs(total: int, size: int, rank: int, world: int) -> Iterator[range]:
    """Ranges of ``size`` that cover range(total), every ``world``-th of them from the ``rank``-th on."""
    return (range(first, min(first + size, total)) for first in range(rank * size, total, world * size))


class _Texts:
    """Draws, tokens and their collation, the same for training and validation. ``kept``: how many captions' ids are cached."""

    def __init__(self, vocabulary: Vocabulary, context_length: int, least_tokens: int = 0, kept: int = 0) -> None:
        self.vocabulary, self.context_length, self.least_tokens = vocabulary, context_length, least_tokens
        self.kept = kept

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_ids"}

    @cached_property
    def _ids(self) -> Callable[[str], tuple[list[int], int]]:
        return lru_cache(self.kept)(self._encode) if self.kept else self._encode

    def _encode(self, caption: str) -> tuple[list[int], int]:
        ids = self.vocabulary.encode(caption, self.context_length)
        return ids, token_hash(ids)

    def draws(self, streams: Iterable[np.random.Generator]) -> np.ndarray:
        """float32 (B, 2 + CROP_DRAWS + context_length) in [0, 1)."""
        count = 2 + CROP_DRAWS + self.context_length
        return np.stack([stream.random(count, dtype=np.float32) for stream in streams])

    def collate(self, images: torch.Tensor, read: list[_Read], draws: np.ndarray, place: torch.Tensor) -> CaptionBatch:
        """The batch of ``images`` (B, 3, S, S), or of tokens, and B samples, ``place`` (B,) in the global batch."""
        encoded = []
        for (_, record), drawn in zip(read, draws[:, 0].tolist(), strict=True):
            captions = record["captions"]
            encoded.append(self._ids(captions[int(drawn * len(captions))]))
        lengths = [len(ids) for ids, _ in encoded]
        width = min(-(-max(*lengths, self.least_tokens) // 8) * 8, self.context_length)
        tokens = np.full((len(read), width), self.vocabulary.eot, dtype=np.int64)
        for row_tokens, (ids, _) in zip(tokens, encoded, strict=True):
            row_tokens[: len(ids)] = ids
        first = 2 + CROP_DRAWS
        return CaptionBatch(
            images=images,
            keys=[key for key, _ in read],
            tokens=torch.from_numpy(tokens),
            lengths=torch.tensor(lengths, dtype=torch.int64),
            jitter=torch.from_numpy(draws[:, 1].copy()),
            uniforms=torch.from_numpy(draws[:, first : first + width].copy()),
            place=place,
            caption_hash=torch.tensor([hashed for _, hashed in encoded], dtype=torch.int64),
        )


class BlockOrder:
    """The order of an epoch by blocks, as in webdataset: the shards in random order, and a shuffle within a buffer.

    At any time only a few shards are read, each read ahead as a whole, which suits slow, remote or shared disks. The price:
    samples of a shard stay close in an epoch, so batches are correlated if shards are. Unlike a sliding buffer, which depends on
    all samples before, a window of ``buffer`` places depends only on the seed, the epoch and its number, so that the order is
    computed place by place, on any rank and after any resume. ``sizes``: how many samples each shard has.
    """

    def __init__(self, sizes: Sequence[int], buffer: int) -> None:
        self.buffer = buffer
        self._sizes = np.asarray(sizes, dtype=np.int64)
        self._firsts = np.cumsum(self._sizes) - self._sizes
        self._count = int(self._sizes.sum())
        self._layout: tuple[tuple[int, int], np.ndarray, np.ndarray] | None = None

    def at(self, places: np.ndarray, seed: int, epoch: int) -> np.ndarray:
        """The samples at ``places`` (any shape, int64, in [0, count)) of an epoch; int64 of the same shape.

        A bijection of range(count) for each (seed, epoch), and a function of nothing else.
        """
        windows, within = np.divmod(places, self.buffer)
        order = np.empty_like(within)
        for window in np.unique(windows).tolist():
            first = window * self.buffer
            here = windows == window
            rng = sample_rng(seed, epoch, window, WINDOW)
            order[here] = first + permuted(within[here], min(self.buffer, self._count - first), rng)
        return self._in_block_order(order, seed, epoch)

    def shards_at_once(self) -> int:
        """The maximal number of shards in two consecutive windows, which a run keeps open."""
        small = max(int(self._sizes[self._sizes > 0].min(initial=self._count)), 1)
        return min(2 * (max(self.buffer - 2, 0) // small + 2), len(self._sizes))

    def _in_block_order(self, places: np.ndarray, seed: int, epoch: int) -> np.ndarray:
        """The samples at ``places`` of an order of shuffled blocks without a shuffle within them."""
        if self._layout is None or self._layout[0] != (seed, epoch):  # once per epoch, not per batch
            number = len(self._sizes)
            order = permuted(np.arange(number), number, sample_rng(seed, epoch, 0, BLOCKS))
            self._layout = (seed, epoch), order, np.cumsum(self._sizes[order])
        _, order, ends = self._layout
        block = np.searchsorted(ends, places, side="right")
        return self._firsts[order[block]] + places - (ends - self._sizes[order])[block]


class Sample(NamedTuple):
    """``pixels`` (H, W, 3) uint8 must not be changed."""

    key: str
    pixels: torch.Tensor
    record: dict[str, Any]


class DecodedCache:
    """The decoded training samples of a split; as many as fit into a budget of memory are cached. Every sample occurs once per
    epoch, so any choice is equally good: the first ones are kept.

    ``budget``: bytes of pixels that are kept; 0 if no sample recurs in this process.
    """

    def __init__(self, reader: ShardReader, budget: int) -> None:
        self.reader, self.room = reader, budget
        self._kept: dict[int, Sample] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_kept": {}}  # a worker keeps its own

    def read(self, numbers: list[int]) -> list[Sample]:
        """The samples of these ``numbers``; UserError names one whose image cannot be decoded.

        All are read before the first is decoded.
        """
        missing = {number: self.reader.read(number) for number in numbers if number not in self._kept}
        decoded_now = {
            number: Sample(key, decoded(data, key, self.reader, decode_pixels), record)
            for number, (key, data, record) in missing.items()
        }
        for number, sample in decoded_now.items():
            size = sample.pixels.numel()
            if size <= self.room:
                self.room -= size
                self._kept[number] = sample
        return [decoded_now[number] if number in decoded_now else self._kept[number] for number in numbers]
