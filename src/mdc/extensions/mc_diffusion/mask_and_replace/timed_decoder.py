"""The decoder of mask-and-replace diffusion, conditioned on the whole caption, the image and the time step.

Its layers are those of :mod:`mdc.models.decoder` and attend to the condition, but the norms before the two attentions take
the time: their gain and shift follow from it (adaptive layer norm, as in VQ-Diffusion, whose sizes are the ones that give
MC-Diffusion's 122 million trainable parameters; each norm has a time embedding of its own).

Shapes: B captions, L places, W the decoder's width, M vectors of the condition, K classes, T diffusion steps.
"""

from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mdc.models.decoder import Block, initialise
from mdc.models.initial import normal_
from mdc.models.memory import Memory
from mdc.plan.config.kinds.backbones import Decoder as DecoderShape


class TimedNorm(nn.Module):
    """A layer norm whose gain and shift depend on the time; initially they are 1 and 0 at all times."""

    def __init__(self, width: int, steps: int) -> None:
        super().__init__()
        self.times = nn.Embedding(steps, width)
        self.change = nn.Linear(width, 2 * width)
        self.norm = nn.LayerNorm(width, elementwise_affine=False)

    def forward(self, x: Tensor, t: Tensor) -> Tensor:
        """x (B, L, W); t (B,) int64 in 1…T, or (1,) if it is the same for all."""
        gain, shift = self.change(F.silu(self.times(t - 1)))[:, None].chunk(2, dim=-1)
        return self.norm(x) * (1 + gain) + shift


class TimedDecoder(nn.Module):
    """Classes, or [MASK], at each place to hidden states after the final norm. ``places``: the most that a caption can have."""

    def __init__(
        self, shape: DecoderShape, classes: int, places: int, steps: int, seed: int, memory_width: int
    ) -> None:
        super().__init__()
        self.token_embedding = nn.Embedding(classes + 1, shape.width)
        self.positional_embedding = nn.Parameter(torch.empty(places, shape.width))
        norm = partial(TimedNorm, steps=steps)
        self.blocks = nn.ModuleList(Block(shape.width, shape.heads, memory_width, norm) for _ in range(shape.layers))
        self.norm = nn.LayerNorm(shape.width)
        initialise(self, shape, seed)
        for name, part in self.named_modules():
            if isinstance(part, TimedNorm):
                normal_(part.times.weight, 0.02, seed, f"text.{name}.times.weight")
                nn.init.zeros_(part.change.weight)

    def forward(self, tokens: Tensor, t: Tensor, memory: Memory) -> Tensor:
        """tokens (B, L) int64 in 0…K, t as :class:`TimedNorm` takes it → hidden states (B, L, W)."""
        x = self.token_embedding(tokens) + self.positional_embedding[: tokens.shape[1]]
        for block, remembered in zip(self.blocks, memory.layers, strict=True):
            x = block(x, remembered, time=t)
        return self.norm(x)

    @torch.no_grad()
    def take_embeddings(self, words: Tensor) -> None:
        """Take the embeddings of the classes (K, W) from others."""
        self.token_embedding.weight[: len(words)].copy_(words)

    def remember(self, condition: Tensor) -> Memory:
        """Keys and values of conditions (B, M, E) in every layer."""
        return Memory(tuple(block.cross_attention.remember(condition) for block in self.blocks))  # type: ignore[operator, union-attr]
