"""The parts of a model that every objective has, and those that all captioners have."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from mdc.models.encoder import build_encoder
from mdc.models.initial import normal_
from mdc.models.memory import Memory
from mdc.models.pixel_encoder import PixelEncoder
from mdc.plan.config.kinds.backbones import Backbone, FrozenEncoderBackbone, visual_contexts

_AT_ONCE = 8  # images per tower call: larger batches are bound by memory on a CPU


class TokenEncoder(nn.Module):
    """M tokens of a frozen encoder, of width E, to M tokens of the decoder's width W: a linear map, a vector for each place, and
    a norm, all trained. Position embeddings are learnt, because a feature map has none. B images of S×S pixels.

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


class ImageText(nn.Module):
    """An image encoder, which is evaluated later, and the text tower that it is trained with."""

    encoder: PixelEncoder | TokenEncoder
    text: nn.Module

    def __init__(self, backbone: Backbone | FrozenEncoderBackbone, seed: int) -> None:
        super().__init__()
        self.encoder = build_encoder(backbone, seed) if isinstance(backbone, Backbone) else TokenEncoder(backbone, seed)


class ImageCaptioner(ImageText):
    """A captioner: an encoder, what of its tokens the decoder reads (``visual_context``), and a ``head`` from hidden states to
    words."""

    head: nn.Linear

    def __init__(self, backbone: Backbone | FrozenEncoderBackbone, seed: int) -> None:
        super().__init__(backbone, seed)
        self.visual_context = backbone.visual_context if isinstance(backbone, Backbone) else "patches"
        self._read: Callable[..., Tensor] = visual_contexts()[self.visual_context].load().read

    def visual(self, images: Tensor) -> Tensor:
        """Of images as the encoder's ``prepared`` gives them, the visual tokens that the decoder reads, (B, k, E)."""
        cls, tokens = self.encoder(images)
        encoder: Any = self.encoder  # a frozen one has no pixels, and its patches are read
        return self._read(self.visual_context, cls, tokens, lambda: encoder.pixels(images))


class TokenCaptioner(ImageCaptioner, ABC):
    """A captioner whose captions are scored and generated token by token."""

    @abstractmethod
    def remember(self, visual: Tensor) -> Memory:
        """What the decoder reads of visual tokens (I, M, E), computed once."""

    @abstractmethod
    def hidden_states(self, tokens: Tensor, memory: Memory) -> Tensor:
        """What ``head`` reads of ``tokens`` (C, n, T) int64, n versions of each of C captions, against the ``memory`` of C
        images: (C, n, T, W)."""


def word_head(width: int, vocabulary_size: int, seed: int) -> nn.Linear:
    """Hidden states to logits of V tokens: [MASK] is an input (row V of the embedding), but no output."""
    head = nn.Linear(width, vocabulary_size, bias=False)
    normal_(head.weight, width**-0.5, seed, "head.weight")
    return head
