"""Multi-head attention for the text transformer."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Attention(nn.Module):
    """Queries come from x (B, T, width); keys and values from x itself, or from a memory (B, M, memory_width)."""

    def __init__(self, width: int, heads: int, memory_width: int | None = None) -> None:
        super().__init__()
        self.heads = heads
        self.cross = memory_width is not None
        if memory_width is None:
            self.qkv = nn.Linear(width, 3 * width)
        else:
            self.query = nn.Linear(width, width)
            self.key_value = nn.Linear(memory_width, 2 * width)
        self.out = nn.Linear(width, width)

    def forward(
        self, x: Tensor, memory: Tensor | None = None, mask: Tensor | None = None, causal: bool = False
    ) -> Tensor:
        """mask: broadcastable to (B, heads, T, keys), True where a key may be seen. Returns (B, T, width)."""
        batch, length, width = x.shape
        if self.cross:
            assert memory is not None
            query = self.query(x)
            key, value = self.key_value(memory).split(width, dim=-1)
        else:
            query, key, value = self.qkv(x).split(width, dim=-1)
        query, key, value = (
            t.view(batch, -1, self.heads, width // self.heads).transpose(1, 2) for t in (query, key, value)
        )
        mixed = F.scaled_dot_product_attention(query, key, value, attn_mask=mask, is_causal=causal)
        return self.out(mixed.transpose(1, 2).reshape(batch, length, width))


def key_mask(lengths: Tensor, length: int) -> Tensor | None:
    """Which keys are real tokens: (B, 1, 1, T) bool. None on a CPU when nothing is padded, because a mask costs time."""
    positions = torch.arange(length, device=lengths.device)
    if lengths.device.type == "cpu" and bool((lengths == length).all()):
        return None
    return (positions < lengths[:, None])[:, None, None, :]
