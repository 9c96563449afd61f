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


def suffix_starts(t: Tensor, lengths: Tensor) -> Tensor:
    """The first masked place (B,) int64 in 1…L of a caption whose every token from there on is masked; uniform on the L tokens if
    t (B,) is uniform on [0, 1]. ``lengths`` (B,) count SOT to EOT, so L is one less."""
    tokens = lengths - 1
    hidden = (t.double() * tokens).long().clamp(max=tokens - 1) + 1
    return tokens - hidden + 1
