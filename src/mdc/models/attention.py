"""Multi-head attention for the text transformer."""

import torch.nn.functional as F
from torch import Tensor, nn

from mdc.models.packing import Packing


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
        self,
        x: Tensor,
        memory: Tensor | tuple[Tensor, Tensor] | None = None,
        mask: Tensor | None = None,
        causal: bool = False,
        packing: Packing | None = None,
    ) -> Tensor:
        """memory: of cross-attention, or its keys and values from ``remember``; mask: broadcastable to (B, heads, T, keys), True
        where a key may be seen. Returns what x is: (B, T, width), or, with a ``packing``, (N, width)."""
        if self.cross:
            assert memory is not None
            return self.attend(x, *(memory if isinstance(memory, tuple) else self.remember(memory)), packing)
        queries = self.qkv(x) if packing is None else packing.pad(self.qkv(x))
        query, key, value = (self._heads(part) for part in queries.split(x.shape[-1], dim=-1))
        return self._attend(query, key, value, mask, causal, packing)

    def remember(self, memory: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values of a memory (B, M, memory_width), (B, heads, M, width / heads) each."""
        key, value = self.key_value(memory).chunk(2, dim=-1)
        return self._heads(key), self._heads(value)

    def attend(self, x: Tensor, key: Tensor, value: Tensor, packing: Packing | None = None) -> Tensor:
        """x (B, T, width) or (N, width) against the keys and values of a memory → the same. With k versions of each caption, all
        first ones before all second ones, the memory holds each image once."""
        query = self._heads(self.query(x) if packing is None else packing.pad(self.query(x)))
        images, versions = len(key), len(query) // len(key)
        if versions == 1:
            return self._attend(query, key, value, packing=packing)
        # one long row of queries per image, so that keys and values are not copied
        folded = query.unflatten(0, (versions, images)).permute(1, 2, 0, 3, 4).flatten(2, 3)
        mixed = F.scaled_dot_product_attention(folded, key, value)
        mixed = mixed.unflatten(2, (versions, -1)).permute(2, 0, 3, 1, 4).flatten(3).flatten(0, 1)
        return self.out(mixed if packing is None else packing.unpad(mixed))

    def _heads(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        return x.view(batch, length, self.heads, width // self.heads).transpose(1, 2)

    def _attend(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask: Tensor | None = None,
        causal: bool = False,
        packing: Packing | None = None,
    ) -> Tensor:
        mixed = F.scaled_dot_product_attention(query, key, value, attn_mask=mask, is_causal=causal)
        mixed = mixed.transpose(1, 2).flatten(2)
        return self.out(mixed if packing is None else packing.unpad(mixed))
