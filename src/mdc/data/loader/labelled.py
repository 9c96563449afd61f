"""Batches of a labelled set: the same bytes in the same order with any number of workers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import torch

from mdc.data.loader.batch import LabelledBatch
from mdc.data.loader.crops import Crops, Kept
from mdc.data.loader.workers import ahead
from mdc.data.shards.index import ShardReader


def labelled_batches(
    path: str | Path, split: str, *, image_size: int, batch_size: int, workers: int = 0, kept: Kept | None = None
) -> Iterator[LabelledBatch]:
    """All samples of a labelled set's split in order, with CLIP's central crop; the last batch may be short.

    ``workers`` processes read and decode images ahead (0: none, in this process). Crops are taken from ``kept`` if they are
    there, and otherwise left there. UserError names a sample that cannot be read.
    """
    crops = Crops(ShardReader(path, split), image_size, kept)
    return _batches(ahead(crops, crops.pieces(), workers), batch_size)


def _batches(pieces: Iterable[LabelledBatch], size: int) -> Iterator[LabelledBatch]:
    """The same samples in batches of ``size``; the last may be short."""
    waiting: list[LabelledBatch] = []
    for piece in pieces:
        waiting.append(piece)
        if sum(map(len, waiting)) < size:
            continue
        whole = _joined(waiting)
        ready = len(whole) // size * size
        for first in range(0, ready, size):
            yield _part(whole, first, first + size)
        waiting = [_part(whole, ready, len(whole))] if ready < len(whole) else []
    if waiting:
        yield _joined(waiting)


def _joined(batches: list[LabelledBatch]) -> LabelledBatch:
    if len(batches) == 1:
        return batches[0]
    keys = [key for batch in batches for key in batch.keys]
    images, labels = (torch.cat([getattr(batch, name) for batch in batches]) for name in ("images", "labels"))
    return LabelledBatch(images, keys, labels)


def _part(batch: LabelledBatch, first: int, stop: int) -> LabelledBatch:
    return LabelledBatch(batch.images[first:stop], batch.keys[first:stop], batch.labels[first:stop])
