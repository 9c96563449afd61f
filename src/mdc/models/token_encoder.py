"""Tokens of a frozen encoder, projected to the decoder's width."""

from typing import Any

import torch
from torch import Tensor, nn

from mdc.models.initial import normal_
from mdc.plan.config.backbones import FrozenEncoderBackbone

#: images per tower call: larger batches are bound by memory on a CPU
_AT_ONCE = 8


class TokenEncoder(nn.Module):
    """M tokens of width E to M tokens of the decoder's width W: a linear map, a vector for each place, and a norm, all trained.

    Position embeddings are learnt, because a feature map has none. B images of S×S pixels.

    ``tower`` is the encoder itself (:class:`mdc.models.encoders.tower.Tower`). Training reads precomputed tokens and has none;
    new images need one. It is no part of the model's weights.
    """

    def __init__(self, backbone: FrozenEncoderBackbone, seed: int) -> None:
        super().__init__()
        shape = backbone.frozen
        self.width = backbone.decoder.width
        self.projection = nn.Linear(shape.width, self.width)
        self.positions = nn.Parameter(torch.empty(shape.tokens, self.width))
        self.norm = nn.LayerNorm(self.width)
        normal_(self.projection.weight, shape.width**-0.5, seed, "encoder.projection.weight")
        nn.init.zeros_(self.projection.bias)
        normal_(self.positions, self.width**-0.5, seed, "encoder.positions")
        self._tower: list[nn.Module] = []

    def use_pretrained_tower(self, tower: nn.Module) -> None:
        """Let images pass through ``tower``, which no optimiser and no checkpoint sees."""
        self._tower = [tower]

    @torch.no_grad()
    def prepared(self, inputs: Tensor) -> Tensor:
        """Stored tokens (B, M, E) float16, or images (B, 3, S, S) uint8 → the tokens in float32.

        Tokens of images are rounded to float16 as the stored ones, which the model was trained on.
        """
        if inputs.dtype != torch.uint8:
            return inputs.float()
        tower: Any = self._tower[0].to(inputs.device)
        with torch.autocast(inputs.device.type, enabled=False):
            parts = [tower(tower.prepared(part))[1].half() for part in inputs.split(_AT_ONCE)]
        return torch.cat(parts).float()

    def forward(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """(B, M, E) float32 → their mean (B, W), tokens (B, M, W)."""
        out = self.norm(self.projection(tokens) + self.positions)
        return out.mean(dim=1), out
