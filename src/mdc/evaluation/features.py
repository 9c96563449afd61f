"""Features of a labelled image set, cached by content: same weights, same images, same preprocessing, same features.

The cache key is a hash of everything the features depend on, so a changed checkpoint never meets stale features.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from mdc.data.loader.labelled import Kept, labelled_batches
from mdc.evaluation.predictors.encode import ImageEncoder
from mdc.plan.processes.store import Store
from mdc.plan.progress import progress
from mdc.plan.records import atomic_path


class FeatureCache:
    """Features of one encoder, kept in ``store``, and the crops, for other encoders of this image size.

    ``identity`` names the encoder's weights and all else that a feature depends on, except the shards' hashes and the
    preprocessing, which are added here. ``pixels``: what a crop depends on besides these. ``workers`` processes decode images;
    they do not change features.
    """

    def __init__(
        self,
        encoder: ImageEncoder,
        store: Store,
        *,
        image_size: int,
        batch_size: int,
        identity: Mapping[str, Any],
        pixels: Mapping[str, Any],
        workers: int = 0,
    ) -> None:
        self.encoder, self.store, self.workers = encoder, store, workers
        self.image_size, self.batch_size = image_size, batch_size
        self.identity = {**identity, **pixels, "image_size": image_size, "batch_size": batch_size}
        self.crops = Kept(store, pixels)

    def features(self, manifest: Path, index: Mapping[str, Any], split: str) -> tuple[Tensor, Tensor, list[str]]:
        """Features (N, D) float32, targets (N,) int64 or (N, K) float32, and keys, in the order of the shards.

        ``index`` is the content of ``manifest``, a labelled set's index.json.
        """
        shards = [shard["sha256"] for shard in index["splits"][split]["shards"]]
        path = self.store.path({**self.identity, "shards": shards})
        cached = _read(path) if self.store.used(path) else None
        if cached is not None:
            return cached
        features, targets, keys = [], [], []
        options: dict[str, Any] = {
            "image_size": self.image_size,
            "batch_size": self.batch_size,
            "workers": self.workers,
        }
        count = index["splits"][split].get("samples")
        bar = progress(total=count, desc=f"{manifest.parent.name} {split}", unit="image", leave=False)
        for batch in labelled_batches(manifest, split, **options, kept=self.crops):
            features.append(self.encoder.encode(batch.images))
            targets.append(batch.labels)
            keys.extend(batch.keys)
            bar.update(len(batch.keys))
        bar.close()
        result = torch.cat(features), torch.cat(targets), keys
        with atomic_path(path) as temporary:
            tensors = {"features": result[0].contiguous(), "targets": result[1].contiguous()}
            save_file(tensors, str(temporary), metadata={"keys": json.dumps(keys)})
        return result


def _read(path: Path) -> tuple[Tensor, Tensor, list[str]] | None:
    """The cached features, or None if the file is missing or damaged (they are then recomputed)."""
    try:
        with safe_open(str(path), framework="pt") as file:
            keys = json.loads(file.metadata()["keys"])
            return file.get_tensor("features"), file.get_tensor("targets"), keys
    except (OSError, SafetensorError, KeyError, ValueError):
        return None
