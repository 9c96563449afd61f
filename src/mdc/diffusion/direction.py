"""The order in which an autoregressive model reads a caption."""

import torch
from torch import Tensor


def right_to_left(tokens: Tensor, lengths: Tensor) -> Tensor:
    """[SOT, pieces…, EOT, padding] (B, T) with each caption's tokens reversed; SOT, EOT and padding stay in place (VirTex).

    ``lengths`` (B,) count SOT to EOT. Applied twice it changes nothing.
    """
    positions = torch.arange(tokens.shape[1], device=tokens.device)
    last = (lengths - 1)[:, None]
    piece = (positions > 0) & (positions < last)
    return tokens.gather(1, torch.where(piece, last - positions, positions))


def reads_backwards(method: object) -> bool:
    """Whether a method has a ``direction``, which is right to left."""
    return getattr(method, "direction", None) is not None
