"""Noise schedule of masked diffusion: α, its derivative, the weight of the loss and the draw of t, in one object.

α_t = 1 − t is the probability that a token is still visible at time t (paper, section 3.2, linear schedule). Each token
is therefore masked with probability t, and the weight of the loss is −α'_t / (1 − α_t) = 1/t (equation 5).
"""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class MaskSchedule:
    """t ~ U[low, high], raised to ``least_t`` where it is smaller.

    ``inverse_t`` False gives the unweighted variant (MDC w/o t, BERT-r). ``stratified``: see :meth:`draw`.
    """

    low: float
    high: float
    inverse_t: bool = True
    least_t: float = 0.0
    stratified: bool = True

    def alpha(self, t: Tensor) -> Tensor:
        """Share of tokens kept at time t."""
        return 1 - t

    def masked(self, t: Tensor) -> Tensor:
        """Share of tokens masked at time t. It is 1 − α, but the subtraction would lose digits at small t."""
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
        """Times (B,) float32 for the samples at ``place`` (B,) int64 in a global batch of ``batch`` samples.

        ``jitter`` (B,) is uniform on [0, 1). Stratified (MDLM, MD4): the sample at place i draws from the i-th of ``batch``
        equal strata, so the global batch covers the range evenly. Since places are random, each single t is still uniform.
        """
        uniform = (place.to(torch.float64) + jitter) / batch if self.stratified else jitter.to(torch.float64)
        t = self.low + (self.high - self.low) * uniform
        return t.clamp(min=self.least_t, max=1.0).to(torch.float32)
