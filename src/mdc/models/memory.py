"""The keys and values of a decoder's cross-attention, computed once per image."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Memory:
    """Keys and values of I images' visual tokens, (I, H, M, W/H) each, a pair for each layer."""

    layers: tuple[tuple[Tensor, Tensor], ...]

    def __len__(self) -> int:
        return len(self.layers[0][0])

    @property
    def device(self) -> torch.device:
        return self.layers[0][0].device

    def of(self, images: Tensor | Sequence[int]) -> "Memory":
        """Those of the ``images`` (C,), by number; an image may come several times."""
        chosen = torch.as_tensor(images, device=self.device)
        return Memory(tuple((key[chosen], value[chosen]) for key, value in self.layers))

    def beside(self, other: "Memory") -> "Memory":
        """These images followed by those of ``other``."""
        pairs = zip(self.layers, other.layers, strict=True)
        return Memory(tuple((torch.cat([a, c]), torch.cat([b, d])) for (a, b), (c, d) in pairs))
