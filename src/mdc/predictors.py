"""A trained model as evaluations see it, whatever its method: today ``encode``.

Evaluations know nothing else about models. What a predictor cannot do it says in one line.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from mdc.config import Backbone
from mdc.formats.images import normalise
from mdc.models.encoder import Encoder, build_encoder, pool
from mdc.models.precision import autocast
from mdc.records import UserError, read_json, sha256_file
from mdc.training.checkpoint import load_weights


class Predictor:
    """An encoder with the pooling that its method is probed with."""

    def __init__(self, encoder: Encoder, pooling: str, precision: str, device: torch.device) -> None:
        self.encoder = encoder.to(device).eval()
        self.pooling, self.precision, self.device = pooling, precision, device

    @torch.no_grad()
    def encode(self, images: Tensor) -> Tensor:
        """images (B, 3, S, S) uint8 → features (B, D) float32 on the CPU, not normalised."""
        batch = images.to(self.device)
        with autocast(self.device, self.precision):
            cls, patches = self.encoder(normalise(batch))
        return pool(cls.float(), patches.float(), self.pooling).cpu()


def run_manifest(run: str | Path) -> tuple[Path, dict[str, Any]]:
    """A run's manifest from its folder or its ``run.json``, checked against its checkpoint by hash."""
    path = Path(run)
    path = path / "run.json" if path.is_dir() else path
    manifest = read_json(path)
    try:
        checkpoint = path.parent / manifest["checkpoint"]["file"]
        expected = manifest["checkpoint"]["sha256"]
    except (KeyError, TypeError):
        raise UserError(f"{path}: not a run manifest (no checkpoint named)") from None
    if not isinstance(manifest["checkpoint"]["file"], str) or checkpoint.parent != path.parent:
        raise UserError(f"{path}: names a checkpoint outside its folder")
    if sha256_file(checkpoint) != expected:
        raise UserError(f"{checkpoint}: not the checkpoint that {path} names (its sha256 differs); train the run again")
    return checkpoint, manifest


def trained_encoder(checkpoint: Path, backbone: Backbone) -> Encoder:
    """The encoder of a checkpoint, whatever method it belongs to."""
    encoder = build_encoder(backbone, seed=0)
    weights = load_weights(checkpoint, prefix="encoder.")
    try:
        encoder.load_state_dict(weights)
    except RuntimeError as error:
        raise UserError(f"{checkpoint}: does not fit the backbone ({' '.join(str(error).split())[:200]})") from None
    return encoder
