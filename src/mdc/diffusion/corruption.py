"""The forward process: which tokens of a caption are masked (paper, section 3.2 and Algorithm 1)."""

import torch
from torch import Tensor


def mask_tokens(tokens: Tensor, lengths: Tensor, uniforms: Tensor, t: Tensor, mask_id: int) -> tuple[Tensor, Tensor]:
    """Algorithm 1's corruption: token i of a caption becomes [MASK] where its uniform is below t.

    tokens (B, T) int64: SOT, pieces, EOT, then padding. lengths (B,): the number of tokens from SOT to EOT.
    uniforms (B, T): in [0, 1). t (B,): the time of each caption. Returns the corrupted tokens (B, T) and where they are
    masked (B, T) bool. SOT and padding are never masked; EOT can be.
    """
    masked = (uniforms < t[:, None]) & maskable(tokens, lengths)
    return tokens.masked_fill(masked, mask_id), masked


def maskable(tokens: Tensor, lengths: Tensor) -> Tensor:
    """Which of tokens (B, T) can be masked, (B, T) bool: pieces and EOT."""
    positions = torch.arange(tokens.shape[1], device=tokens.device)
    return (positions > 0) & (positions < lengths[:, None])
