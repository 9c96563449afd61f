"""Batches of a labelled set: the same bytes in the same order with any number of workers.

Its central crops are decoded once for all encoders of one image size. They are cached beside the features, in pieces of ``PIECE``
images. The job that first decodes a piece writes it, and the jobs of other encoders read it.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from mdc.data.loader.batch import LabelledBatch
from mdc.data.loader.center_crops import center_crops
from mdc.data.loader.workers import ahead
from mdc.data.shards.index import ShardReader
from mdc.plan.processes.store import Store
from mdc.plan.records import atomic_path

PIECE = 256  # images: 38 MB at 224 px


@dataclass(frozen=True)
class Kept:
    """The store of crops, and their ``identity``: everything besides the shards and the size on which their pixels depend."""

    store: Store
    identity: Mapping[str, Any]


def labelled_batches(
    path: str | Path, split: str, *, image_size: int, batch_size: int, workers: int = 0, kept: Kept | None = None
) -> Iterator[LabelledBatch]:
    """All samples of a labelled set's split in order, with CLIP's central crop; the last batch may be short.

    ``workers`` processes read and decode images ahead (0: none, in this process). Crops are read from ``kept`` if they are
    there, and otherwise written there. UserError names a sample that cannot be read.
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


class Crops:
    """Maps a range of numbers to the batch of these samples of a split; can be sent to worker processes.

    Crops that take more than half of the store's limit are not cached: they would evict other entries.
    """

    def __init__(self, reader: ShardReader, image_size: int, kept: Kept | None = None) -> None:
        self.reader, self.image_size = reader, image_size
        limit = kept.store.limit if kept is not None else None
        self._kept = kept if limit is None or 2 * len(reader) * 3 * image_size**2 <= limit else None
        shards = [shard["sha256"] for shard in reader.index["splits"][reader.split]["shards"]]
        self._identity = {"crops": image_size, "shards": shards}

    def pieces(self) -> list[range]:
        """The whole split in pieces, in order."""
        return [range(first, min(first + PIECE, len(self.reader))) for first in range(0, len(self.reader), PIECE)]

    def __call__(self, numbers: range) -> LabelledBatch:
        """The samples of these numbers, one of ``pieces``. UserError names one that cannot be read."""
        if self._kept is None:
            return self._decoded(numbers)
        store, numbers_key = self._kept.store, {"first": numbers.start, "stop": numbers.stop}
        path = store.path({**self._kept.identity, **self._identity, **numbers_key})
        batch = _read(path) if store.used(path) else None
        if batch is None:
            batch = self._decoded(numbers)
            _write(path, batch)
        return batch

    def _decoded(self, numbers: range) -> LabelledBatch:
        images, read = center_crops(self.reader, numbers, self.image_size)
        if "label" in read[0][1]:
            labels = torch.tensor([record["label"] for _, record in read], dtype=torch.int64)
        else:
            labels = torch.tensor([record["labels"] for _, record in read], dtype=torch.float32)
        return LabelledBatch(images, [key for key, _ in read], labels)


def _write(path: Path, piece: LabelledBatch) -> None:
    with atomic_path(path) as temporary:
        tensors = {"images": piece.images, "labels": piece.labels}
        save_file(tensors, str(temporary), metadata={"keys": json.dumps(piece.keys)})


def _read(path: Path) -> LabelledBatch | None:
    """The piece in a file; None if the file is missing or corrupt."""
    try:
        with safe_open(str(path), framework="pt") as file:
            keys = json.loads(file.metadata()["keys"])
            return LabelledBatch(file.get_tensor("images"), keys, file.get_tensor("labels"))
    except (OSError, SafetensorError, KeyError, ValueError):
        return None
