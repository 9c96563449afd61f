"""Precomputed tokens or codes of a corpus's images, by a frozen encoder, read by the sample's number.

There is one array for each shard, in the shards' order: tokens (N, M, E) float16, or codes (N, M) uint16. Their manifest has the
shards' hashes.
"""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from mdc.plan.records import UserError, read_json

CODEBOOK = "codebook.npy"


class PrecomputedTokens:
    """The arrays of one ``split`` in the ``manifest`` of ``mdc encode-corpus``; ``index``: the corpus's.

    UserError if they are of other shards than those of ``index``, or if one is missing or of another shape.
    """

    def __init__(self, manifest: Path, index: Mapping[str, Any], split: str) -> None:
        record = read_json(manifest)
        listed = record.get("splits", {}).get(split)
        shards = [shard["sha256"] for shard in index["splits"][split]["shards"]]
        if listed is None or [entry["shard_sha256"] for entry in listed] != shards:
            raise UserError(
                f"{manifest}: was made of other shards than {index['name']}, split {split}, has; re-encode it"
            )
        self.files = [manifest.parent / entry["file"] for entry in listed]
        self.starts = [0, *accumulate(int(entry["samples"]) for entry in listed)]
        self._codebook = _array(manifest.parent / CODEBOOK) if "codes" in record else None
        shape = (
            (int(record["tokens"]),) if self._codebook is not None else (int(record["tokens"]), int(record["width"]))
        )
        dtype = np.dtype(np.uint16 if self._codebook is not None else np.float16)
        for file, count in zip(self.files, np.diff(self.starts), strict=True):
            array = _array(file)
            if array.shape != (count, *shape) or array.dtype != dtype:
                raise UserError(f"{file}: holds {array.dtype} {array.shape}, not {dtype} {(count, *shape)}")
        self._shape, self._dtype = shape, dtype

    def of(self, numbers: Sequence[int]) -> Tensor:
        """The tokens of the samples ``numbers``, (B, M, E) float16; codes are replaced by their codebook vectors."""
        values = np.empty((len(numbers), *self._shape), dtype=self._dtype)
        opened: dict[int, np.ndarray] = {}
        for place, number in enumerate(numbers):
            shard = bisect_right(self.starts, number) - 1
            if shard not in opened:
                # reopened for each batch, since each open shard takes a descriptor
                opened[shard] = _array(self.files[shard])
            values[place] = opened[shard][number - self.starts[shard]]
        if self._codebook is None:
            return torch.from_numpy(values)
        try:
            return torch.from_numpy(self._codebook[values.astype(np.int64)])
        except IndexError:
            raise UserError(
                f"{self.files[0].parent}: codes above the codebook's {len(self._codebook)}; encode the corpus again"
            ) from None


def _array(file: Path) -> np.ndarray:
    try:
        array: np.ndarray = np.load(file, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError) as error:
        raise UserError(f"{file}: nothing can be read from it ({error}); re-encode the corpus") from None
    return array
