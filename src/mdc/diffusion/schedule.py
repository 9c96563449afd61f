"""Noise schedule of masked diffusion: α, its derivative, the loss weight and the draw of t, in one object.

α_t = 1 − t is the share of tokens that survive at time t (paper, section 3.2, linear schedule), so each token is masked
with probability t and the weight of the loss is −α'_t / (1 − α_t) = 1/t (equation 5).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class MaskSchedule:
    """t ~ U[low, high], at least ``least_t``; ``inverse_t`` False gives the unweighted variant (MDC w/o t, BERT-r)."""

    low: float
    high: float
    inverse_t: bool = True
    least_t: float = 1e-3
    stratified: bool = True

    def alpha(self, t: Tensor) -> Tensor:
        """Share of tokens kept at time t."""
        return 1 - t

    def masked(self, t: Tensor) -> Tensor:
        """Share of tokens masked at time t, 1 − α; written without the subtraction, which costs digits at small t."""
        return t

    def alpha_derivative(self, t: Tensor) -> Tensor:
        """dα/dt."""
        return -torch.ones_like(t)

    def weight(self, t: Tensor) -> Tensor:
        """Factor on the cross-entropy of a masked token."""
        if not self.inverse_t:
            return torch.ones_like(t)
        return -self.alpha_derivative(t) / self.masked(t)

    def draw(self, jitter: Tensor, place: Tensor, batch: int) -> Tensor:
        """Times (B,) float32 for the samples at ``place`` (B,) int64 of a global batch of ``batch``.

        ``jitter`` (B,) is uniform on [0, 1). Stratified (MDLM, MD4): sample i draws from the i-th of ``batch`` equal
        strata, so the global batch covers the range evenly; each t alone is uniform when places are random.
        """
        uniform = (place.to(torch.float64) + jitter) / batch if self.stratified else jitter.to(torch.float64)
        t = self.low + (self.high - self.low) * uniform
        return t.clamp(min=self.least_t, max=1.0).to(torch.float32)
