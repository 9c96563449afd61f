"""What a frozen encoder or a tokenizer made of a corpus's images once, read back by the number of the sample.

There is one array for each shard, in the shards' order: tokens (N, M, E) float16, or codes (N, M) uint16. What names the arrays
is bound to the shards by their hashes.
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

from mdc.plan.records import UserError, read_json


class PrecomputedTokens:
    """The arrays of one ``split``. ``manifest``: what names them, of ``mdc encode-corpus`` or ``mdc image-tokens``; ``index``: of
    the corpus that they must be of.

    UserError if they are of other shards than ``index`` names, or if one is missing or of another shape.
    """

    def __init__(self, manifest: Path, index: Mapping[str, Any], split: str) -> None:
        told = read_json(manifest)
        listed = told.get("splits", {}).get(split)
        shards = [shard["sha256"] for shard in index["splits"][split]["shards"]]
        if listed is None or [one["shard_sha256"] for one in listed] != shards:
            raise UserError(
                f"{manifest}: was made of other shards than {index['name']}, split {split}, has; re-encode it"
            )
        self.files = [manifest.parent / one["file"] for one in listed]
        self.starts = [0, *accumulate(int(one["samples"]) for one in listed)]
        self._codebook = _array(manifest.parent / "codebook.npy") if "codes" in told else None
        each = (int(told["tokens"]),) if self._codebook is not None else (int(told["tokens"]), int(told["width"]))
        kind = np.dtype(np.uint16 if self._codebook is not None else np.float16)
        for file, count in zip(self.files, np.diff(self.starts), strict=True):
            found = _array(file)
            if found.shape != (count, *each) or found.dtype != kind:
                raise UserError(f"{file}: holds {found.dtype} {found.shape}, not {kind} {(count, *each)}")
        self._each, self._kind = each, kind

    def of(self, numbers: Sequence[int]) -> Tensor:
        """The tokens of the samples ``numbers``, (B, M, E) float16; of codes the vectors that stand for them."""
        found = np.empty((len(numbers), *self._each), dtype=self._kind)
        opened: dict[int, np.ndarray] = {}
        for place, number in enumerate(numbers):
            shard = bisect_right(self.starts, number) - 1
            if shard not in opened:
                # opened anew for each batch: a thousand shards would hold a thousand descriptors
                opened[shard] = _array(self.files[shard])
            found[place] = opened[shard][number - self.starts[shard]]
        if self._codebook is None:
            return torch.from_numpy(found)
        try:
            return torch.from_numpy(self._codebook[found.astype(np.int64)])
        except IndexError:
            raise UserError(
                f"{self.files[0].parent}: codes above the codebook's {len(self._codebook)}; rebuild the image tokens"
            ) from None


def _array(file: Path) -> np.ndarray:
    try:
        found: np.ndarray = np.load(file, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError) as error:
        raise UserError(f"{file}: nothing can be read from it ({error}); re-encode the corpus") from None
    return found
