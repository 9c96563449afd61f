"""Tokens that a frozen encoder made of a corpus's images once, read back by the number of the sample.

There is one array (N, M, E) float16 for each shard, in the shards' order; what names them is bound to the
shards by their hashes.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from mdc.records import UserError, read_json


class StoredTokens:
    """The tokens of one ``split``. ``manifest``: the encoded.json; ``index``: of the corpus that it must be of.

    UserError if it is of other shards than ``index`` names, or if an array is missing or of another shape.
    """

    def __init__(self, manifest: Path, index: Mapping[str, Any], split: str) -> None:
        told = read_json(manifest)
        listed = told.get("splits", {}).get(split)
        shards = [shard["sha256"] for shard in index["splits"][split]["shards"]]
        if listed is None or [one["shard_sha256"] for one in listed] != shards:
            raise UserError(
                f"{manifest}: was made of other shards than {index['name']}, split {split}, has; encode it again"
            )
        self.shape = int(told["tokens"]), int(told["width"])
        self.files = [manifest.parent / one["file"] for one in listed]
        self.starts = [0, *accumulate(int(one["samples"]) for one in listed)]
        for file, count in zip(self.files, np.diff(self.starts), strict=True):
            found = self._open(file)
            if found.shape != (count, *self.shape) or found.dtype != np.float16:
                raise UserError(f"{file}: holds {found.dtype} {found.shape}, not float16 {(count, *self.shape)}")

    def of(self, numbers: Sequence[int]) -> Tensor:
        """Those of the samples ``numbers``, (B, M, E) float16."""
        found = torch.empty((len(numbers), *self.shape), dtype=torch.float16)
        opened: dict[int, np.ndarray] = {}
        for place, number in enumerate(numbers):
            shard = bisect_right(self.starts, number) - 1
            if shard not in opened:
                opened[shard] = self._open(self.files[shard])
            found[place] = torch.from_numpy(np.array(opened[shard][number - self.starts[shard]]))
        return found

    def _open(self, file: Path) -> np.ndarray:
        # opened anew for each batch: a thousand shards would hold a thousand descriptors
        try:
            found: np.ndarray = np.load(file, mmap_mode="r", allow_pickle=False)
        except (OSError, ValueError) as error:
            raise UserError(f"{file}: no tokens can be read from it ({error}); encode the corpus again") from None
        return found
