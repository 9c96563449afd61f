"""Left-to-right decoding one token at a time, with a cache of keys and values.

Beams of an image share the keys and values of its visual tokens. Results equal those of the decoder on the whole prefix.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from mdc.models.captioner import Captioner
from mdc.models.decoder import Block
from mdc.models.memory import Memory
from mdc.models.precision import autocast


class Stepwise:
    """``following`` of :func:`mdc.diffusion.beam.beam_search`, for the images of ``memory``; ``most`` tokens at most."""

    def __init__(self, model: Captioner, memory: Memory, max_tokens: int, precision: str) -> None:
        self.model, self.memory, self.max_tokens, self.precision = model, memory, max_tokens, precision
        self.blocks = model.blocks
        self.images = torch.arange(len(memory), device=memory.device)
        self.length = 0
        self.cache: list[Tensor] = []

    @torch.no_grad()
    def __call__(self, images: Tensor, parents: Tensor, tokens: Tensor) -> Tensor:
        """images (I,), parents (I, B), tokens (I, B) → log p of the next token (I, B, V) float32."""
        with autocast(self.memory.device, self.precision):
            self._follow(images, parents)
            text, count = self.model.text, tokens.numel()
            x = (text.token_embedding(tokens) + text.positional_embedding[self.length]).flatten(0, 1)
            for number, (block, (key, value)) in enumerate(zip(self.blocks, self.memory.layers, strict=True)):
                x = x + self._self_attention(number, block, x)
                attention = block.cross_attention
                query = attention.query(block.norm_cross(x)).view(*tokens.shape, attention.heads, -1)
                mixed = F.scaled_dot_product_attention(query.transpose(1, 2), key, value)
                x = x + attention.out(mixed.transpose(1, 2).reshape(count, -1))
                x = x + block.mlp(block.norm_mlp(x))
            self.length += 1
            logits = self.model.head(text.norm(x))
        return logits.float().log_softmax(dim=-1).view(*tokens.shape, -1)

    def _follow(self, images: Tensor, parents: Tensor) -> None:
        """Keep the unfinished images, and for each beam the cache of its parent."""
        if len(images) < len(self.images):
            places = torch.searchsorted(self.images, images)
            self.images, self.memory = images, self.memory.of(places)
            self.cache = [cached[:, places] for cached in self.cache]
        if self.length:
            rows = torch.arange(len(images), device=images.device)[:, None]
            self.cache = [cached[:, rows, parents] for cached in self.cache]

    def _self_attention(self, number: int, block: Block, x: Tensor) -> Tensor:
        """The newest token's attention to itself and all before it; x (I·B, W)."""
        attention = block.self_attention
        query, key, value = attention.qkv(block.norm_self(x)).chunk(3, dim=-1)
        images, beams = len(self.images), len(x) // len(self.images)
        heads = (images, beams, attention.heads, 1, x.shape[1] // attention.heads)
        newest = torch.stack([key.reshape(heads), value.reshape(heads)])
        if number == len(self.cache):
            # allocate the whole caption once
            self.cache.append(newest.new_zeros((*newest.shape[:4], self.max_tokens, newest.shape[-1])))
        self.cache[number][..., self.length, :] = newest[..., 0, :]
        keys, values = self.cache[number][..., : self.length + 1, :].flatten(1, 2)
        mixed = F.scaled_dot_product_attention(query.reshape(heads).flatten(0, 1), keys, values)
        return torch.as_tensor(attention.out(mixed.reshape(x.shape)))
