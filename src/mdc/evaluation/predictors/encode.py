"""The ability ``encode``: images to the features that a method is probed with."""

from pathlib import Path

import torch
from torch import Tensor

from mdc.models.encoder import build_encoder, pool
from mdc.models.encoders.tower import Tower, fill
from mdc.models.pixel_encoder import PixelEncoder
from mdc.models.precision import autocast
from mdc.models.weights import load_weights
from mdc.plan.config.kinds.backbones import Backbone


class ImageEncoder:
    """An encoder of ours, or a frozen one, with the pooling that it is probed with, or ``tokens``: all that it gives."""

    def __init__(self, encoder: PixelEncoder | Tower, pooling: str, precision: str, device: torch.device) -> None:
        self.encoder = encoder.to(device).eval()
        self.pooling, self.precision, self.device = pooling, precision, device

    @torch.no_grad()
    def encode(self, images: Tensor) -> Tensor:
        """images (B, 3, S, S) uint8 → features (B, D) float32 on the CPU, not normalised; ``tokens``: the feature and the M patch
        tokens, (B, 1 + M, D) float16."""
        batch = images.to(self.device)
        with autocast(self.device, self.precision):
            cls, patches = self.encoder(self.encoder.prepared(batch))
        if self.pooling == "tokens":
            return torch.cat([cls[:, None], patches], dim=1).half().cpu()
        return pool(cls.float(), patches.float(), self.pooling).cpu()


def trained_encoder(checkpoint: Path, backbone: Backbone) -> PixelEncoder:
    """The encoder of a checkpoint, whatever method it belongs to; UserError if it is not of this backbone."""
    encoder = build_encoder(backbone, seed=0)
    fill(encoder, load_weights(checkpoint, prefix="encoder."), checkpoint)
    return encoder
