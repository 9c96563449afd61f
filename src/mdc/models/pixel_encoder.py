"""Pixel normalisation, common to all encoders that are trained here."""

from abc import ABC, abstractmethod
from typing import Any

import torch
from torch import Tensor, nn

from mdc.models.normalise import OPENAI_MEAN, OPENAI_STD, pixel_statistics, scaled


class PixelEncoder(nn.Module, ABC):
    """``width``: of the tokens that its ``tower`` makes of an image. ``forward`` gives a feature of the whole image, (B, D), and
    tokens, (B, M, D)."""

    tower: Any
    width: int
    pixel_scale: Tensor
    pixel_shift: Tensor

    def __init__(self) -> None:
        super().__init__()
        scale, shift = pixel_statistics(OPENAI_MEAN, OPENAI_STD)
        self.register_buffer("pixel_scale", scale, persistent=False)
        self.register_buffer("pixel_shift", shift, persistent=False)

    def prepared(self, images: Tensor) -> Tensor:
        """images (B, 3, S, S) uint8 → what ``forward`` takes, float32."""
        return scaled(images, self.pixel_scale, self.pixel_shift)

    @property
    @abstractmethod
    def layers(self) -> list[nn.Module]:
        """The layers of its tower, each of which is compiled, or recomputed, by itself."""

    def pixels(self, prepared: Tensor) -> Tensor:
        """The images (B, 3, S, S) uint8 of ``prepared``: its inverse."""
        return prepared.add(self.pixel_shift).div(self.pixel_scale).round().to(torch.uint8)
