"""Features of a labelled image set, cached by content: same weights, same images, same preprocessing, same features.

The cache key is a hash of everything the features depend on, so a changed checkpoint never meets stale features.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from mdc.loader.batches import labelled_batches
from mdc.records import atomic_path, clear_leftovers, sha256_json


class Encodes(Protocol):
    """What ``mdc.predictors.encode`` makes."""

    def encode(self, images: Tensor) -> Tensor:
        """images (B, 3, S, S) uint8 → features (B, D) float32 on the CPU."""
        ...


class FeatureCache:
    """Features of one encoder, kept in ``folder``.

    ``identity`` names the encoder's weights and whatever else decides a feature; the shards' hashes and the
    preprocessing are added here.
    """

    def __init__(
        self, encoder: Encodes, folder: Path, *, image_size: int, batch_size: int, identity: Mapping[str, Any]
    ) -> None:
        self.encoder, self.folder = encoder, folder
        self.image_size, self.batch_size = image_size, batch_size
        self.identity = {**identity, "image_size": image_size, "batch_size": batch_size}

    def features(self, manifest: Path, index: Mapping[str, Any], split: str) -> tuple[Tensor, Tensor, list[str]]:
        """Features (N, D) float32, targets (N,) int64 or (N, K) float32, and keys, in the order of the shards.

        ``index`` is what stands in ``manifest``, a labelled set's index.json.
        """
        shards = [shard["sha256"] for shard in index["splits"][split]["shards"]]
        key = sha256_json({**self.identity, "shards": shards})
        path = self.folder / key[:2] / f"{key}.safetensors"
        found = _read(path)
        if found is not None:
            return found
        features, targets, keys = [], [], []
        for batch in labelled_batches(manifest, split, image_size=self.image_size, batch_size=self.batch_size):
            features.append(self.encoder.encode(batch.images))
            targets.append(batch.labels)
            keys.extend(batch.keys)
        result = torch.cat(features), torch.cat(targets), keys
        clear_leftovers(path.parent, path.name)
        with atomic_path(path) as temporary:
            tensors = {"features": result[0].contiguous(), "targets": result[1].contiguous()}
            save_file(tensors, str(temporary), metadata={"keys": json.dumps(keys)})
        return result


def _read(path: Path) -> tuple[Tensor, Tensor, list[str]] | None:
    """The cached features, or None if there are none or the file is damaged (they are then made again)."""
    if not path.exists():
        return None
    try:
        with safe_open(str(path), framework="pt") as file:
            keys = json.loads(file.metadata()["keys"])
            return file.get_tensor("features"), file.get_tensor("targets"), keys
    except (OSError, SafetensorError, KeyError, ValueError):
        return None
