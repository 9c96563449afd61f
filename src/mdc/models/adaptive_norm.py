"""Layer norms conditioned on the time t of a masked diffusion: adaptive layer norm (Peebles and Xie, 2023, DiT).

t is any number in [0, 1], embedded by sinusoids; mask-and-replace diffusion has a table of its steps
(:mod:`mdc.models.timed_decoder`). Initially the gain is 1 and the shift 0 at all times, so an untrained
conditioned decoder equals an unconditioned one.
"""

import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

_SCALE, _PERIOD = 1000.0, 10000.0  # DiT's: t counts to 1,000, and the slowest sinusoid has this period over 2π


class Time(NamedTuple):
    """Of B captions a vector (B, W) each; ``rows`` (N,) int64 says whose each of N packed tokens is, None if they lie as
    (B, T, W)."""

    vectors: Tensor
    rows: Tensor | None = None


def sinusoids(t: Tensor, width: int) -> Tensor:
    """t (B,) in [0, 1] → (B, width) float64: cosines, then sines, of ⌊width / 2⌋ frequencies each."""
    half = width // 2
    frequencies = torch.exp(-math.log(_PERIOD) * torch.arange(half, device=t.device, dtype=torch.float64) / half)
    angles = _SCALE * t.double()[:, None] * frequencies
    return F.pad(torch.cat([angles.cos(), angles.sin()], dim=1), (0, width % 2))


class TimeEmbedding(nn.Module):
    """t (B,) → (B, W): sinusoids and two layers."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(width, width), nn.SiLU(), nn.Linear(width, width), nn.SiLU())

    def forward(self, t: Tensor) -> Tensor:
        first: nn.Linear = self.layers[0]  # type: ignore[assignment]
        return self.layers(sinusoids(t, first.in_features).to(first.weight.dtype))


class Norm(nn.LayerNorm):
    """A layer norm that ignores the time."""

    def forward(self, x: Tensor, time: Time | None = None) -> Tensor:
        """x (…, W) → the same shape."""
        return super().forward(x)


class AdaptiveNorm(nn.Module):
    """A layer norm whose gain and shift depend on the time."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.change = nn.Linear(width, 2 * width)
        self.norm = nn.LayerNorm(width, elementwise_affine=False)

    def forward(self, x: Tensor, time: Time) -> Tensor:
        """x (B, T, W), or (N, W) where ``time`` has rows → the same shape."""
        change = self.change(time.vectors)
        gain, shift = (change[:, None] if time.rows is None else change.index_select(0, time.rows)).chunk(2, dim=-1)
        return self.norm(x) * (1 + gain) + shift
