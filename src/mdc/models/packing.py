"""Captions without their padding: token-wise operations are computed for real tokens only.

Linear maps, norms and MLPs see N real tokens; only attention, which mixes the tokens of a caption, is laid out as (B, T).
"""

from typing import NamedTuple

import torch
from torch import Tensor


class Packing(NamedTuple):
    """Positions of N real tokens of B captions among B · T places: ``places`` (N,) int64, rising; ``lengths`` (B,) int64; T.

    ``padded``: whether there is any padding; stored, because reading it from a device would synchronise.
    """

    places: Tensor
    lengths: Tensor
    length: int
    padded: bool

    def pad(self, tokens: Tensor) -> Tensor:
        """(N, C) → (B, T, C), zeros where the padding is."""
        size = len(self.lengths), self.length, tokens.shape[1]
        if not self.padded:
            return tokens.view(size)
        flat = tokens.new_zeros(size[0] * size[1], size[2])
        return flat.index_copy(0, self.places, tokens).view(size)

    def unpad(self, tokens: Tensor) -> Tensor:
        """(B, T, C) → (N, C)."""
        flat = tokens.flatten(0, 1)
        return flat.index_select(0, self.places) if self.padded else flat

    def positions(self) -> Tensor:
        """(N,) int64: the place of each token in its caption."""
        return self.places % self.length

    def mask(self) -> Tensor | None:
        """Which places are no padding, as keys: (B, 1, 1, T) bool; None if all are."""
        return key_mask(self.lengths, self.length) if self.padded else None


def packing(lengths: Tensor, length: int) -> Packing:
    """That of captions of ``lengths`` (B,) int64 in a batch that is ``length`` wide."""
    real = torch.arange(length) < lengths[:, None]
    return Packing(real.flatten().nonzero().squeeze(1), lengths, length, not bool(real.all()))


def key_mask(lengths: Tensor, length: int) -> Tensor:
    """Which keys are real tokens: (B, 1, 1, T) bool."""
    positions = torch.arange(length, device=lengths.device)
    return (positions < lengths[:, None])[:, None, None, :]
