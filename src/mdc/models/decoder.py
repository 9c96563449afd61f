"""Text transformer: the captioners' decoder and, without cross-attention, CLIP's text encoder.

Each layer is self-attention → cross-attention to the visual tokens → one MLP, pre-norm (paper, section 4.1; CapPa).
Keys and values of the cross-attention are the encoder's tokens after its final norm. The decoder is not told the time
step (paper, section 3.2: time-independent parameterisation).

Shapes: B captions, T tokens, W the decoder's width, M visual tokens, E their width, V tokens that can be predicted.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mdc.models.attention import Attention
from mdc.models.initial import normal_
from mdc.models.packing import Packing, key_mask
from mdc.plan.config.backbones import Decoder as DecoderShape


class Block(nn.Module):
    def __init__(self, width: int, heads: int, memory_width: int | None) -> None:
        super().__init__()
        self.norm_self = nn.LayerNorm(width)
        self.self_attention = Attention(width, heads)
        self.cross = memory_width is not None
        if memory_width is not None:
            self.norm_cross = nn.LayerNorm(width)
            self.cross_attention = Attention(width, heads, memory_width)
        self.norm_mlp = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(
        self, x: Tensor, memory: Tensor | None, mask: Tensor | None, causal: bool, packing: Packing | None = None
    ) -> Tensor:
        x = x + self.self_attention(self.norm_self(x), mask=mask, causal=causal, packing=packing)
        if self.cross:
            x = x + self.cross_attention(self.norm_cross(x), memory, packing=packing)
        return x + self.mlp(self.norm_mlp(x))


def initialise(text: nn.Module, shape: DecoderShape, seed: int) -> None:
    """The initial weights of a text transformer: OpenCLIP's text-tower standard deviations; gains 1, biases 0."""
    fan = shape.width**-0.5
    residual = fan * (2 * shape.layers) ** -0.5
    for name, parameter in text.named_parameters():
        if name == "token_embedding.weight":
            std = 0.02
        elif name == "positional_embedding":
            std = 0.01
        elif parameter.ndim == 1:
            nn.init.constant_(parameter, 1.0 if name.endswith("weight") else 0.0)
            continue
        elif name.endswith(("attention.out.weight", "mlp.2.weight")):
            std = residual
        elif name.endswith("mlp.0.weight"):
            std = (2 * shape.width) ** -0.5
        else:
            std = parameter.shape[1] ** -0.5
        normal_(parameter, std, seed, f"text.{name}")


class TextTransformer(nn.Module):
    """Token ids to hidden states after the final norm.

    ``vocabulary_size`` V counts the tokens that can be predicted. The embedding has V + 1 rows; the last is for [MASK].
    Every method has that row, whether it uses it or not, so that all of them start from the same weights.
    """

    def __init__(
        self,
        shape: DecoderShape,
        vocabulary_size: int,
        context_length: int,
        causal: bool,
        seed: int,
        memory_width: int | None = None,
    ) -> None:
        super().__init__()
        self.causal = causal
        self.token_embedding = nn.Embedding(vocabulary_size + 1, shape.width)
        self.positional_embedding = nn.Parameter(torch.empty(context_length, shape.width))
        self.blocks = nn.ModuleList(Block(shape.width, shape.heads, memory_width) for _ in range(shape.layers))
        self.norm = nn.LayerNorm(shape.width)
        initialise(self, shape, seed)

    def forward(
        self,
        tokens: Tensor,
        lengths: Tensor | None = None,
        memory: Tensor | None = None,
        packing: Packing | None = None,
    ) -> Tensor:
        """tokens (B, T) int64, of which the first ``lengths`` (B,) are real, or all; memory (B, M, E) → hidden states (B, T, W).

        The padding changes no hidden state of a real token. With a ``packing``: tokens (N,), those alone → (N, W).
        """
        # The padding stands on the right, where causal attention never looks, so no mask is needed.
        mask = None
        if packing is not None:
            x = self.token_embedding(tokens) + F.embedding(packing.positions(), self.positional_embedding)
            mask = None if self.causal else packing.mask()
        else:
            x = self.token_embedding(tokens) + self.positional_embedding[: tokens.shape[1]]
            mask = None if self.causal or lengths is None else key_mask(lengths, tokens.shape[1])
        for block in self.blocks:
            x = block(x, memory, mask, self.causal, packing)
        return self.norm(x)
