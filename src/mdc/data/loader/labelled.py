"""Batches of a labelled set: the same bytes in the same order with any number of workers.

Its central crops are decoded once for all encoders of one image size. They are cached beside the features, batch by batch.
The job that first decodes a batch writes it, and the jobs of other encoders read it.
"""

import json
from collections.abc import Iterator, Mapping
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
    reader = ShardReader(path, split)
    runs = [range(first, min(first + batch_size, len(reader))) for first in range(0, len(reader), batch_size)]
    return ahead(Crops(reader, image_size, kept), runs, workers)


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

    def __call__(self, numbers: range) -> LabelledBatch:
        """The samples of these numbers. UserError names one that cannot be read."""
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


def _write(path: Path, batch: LabelledBatch) -> None:
    with atomic_path(path) as temporary:
        tensors = {"images": batch.images, "labels": batch.labels}
        save_file(tensors, str(temporary), metadata={"keys": json.dumps(batch.keys)})


def _read(path: Path) -> LabelledBatch | None:
    """The batch in a file; None if the file is missing or corrupt."""
    try:
        with safe_open(str(path), framework="pt") as file:
            keys = json.loads(file.metadata()["keys"])
            return LabelledBatch(file.get_tensor("images"), keys, file.get_tensor("labels"))
    except (OSError, SafetensorError, KeyError, ValueError):
        return None
