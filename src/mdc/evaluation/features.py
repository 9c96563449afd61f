"""Features of a labelled image set, cached by content: same weights, same images, same preprocessing, same features.

The cache key is a hash of everything the features depend on, so a changed checkpoint never meets stale features.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from mdc.loader.batches import evaluation_batches
from mdc.predictors import Predictor
from mdc.records import atomic_path, clear_leftovers, sha256_json


def split_features(
    predictor: Predictor,
    index_path: Path,
    index: dict[str, Any],
    split: str,
    image_size: int,
    batch_size: int,
    cache: Path,
    identity: dict[str, Any],
) -> tuple[Tensor, Tensor, list[str]]:
    """Features (N, D) float32, targets (N,) int64 or (N, K) int64, and keys, in the order of the shards.

    ``identity`` names the encoder's weights and whatever else decides a feature; the shards' hashes and the
    preprocessing are added here.
    """
    shards = [shard["sha256"] for shard in index["splits"][split]["shards"]]
    key = sha256_json({**identity, "shards": shards, "image_size": image_size, "batch_size": batch_size})
    path = cache / key[:2] / f"{key}.safetensors"
    found = _read(path)
    if found is not None:
        return found
    features, targets, keys = [], [], []
    for batch in evaluation_batches(index_path, split, image_size=image_size, batch_size=batch_size):
        features.append(predictor.encode(batch["images"]))
        targets.append(batch["labels"])
        keys.extend(batch["keys"])
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
