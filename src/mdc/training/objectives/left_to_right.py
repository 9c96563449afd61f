"""The supervision of autoregressive models, left to right or right to left."""

import torch

from mdc.data.loader.batch import CaptionBatch
from mdc.diffusion.direction import right_to_left
from mdc.training.objectives.captioning import Supervision


def supervise(batch: CaptionBatch, global_batch: int = 0, reverse: bool = False) -> Supervision:
    """Position i predicts token i + 1, up to EOT; mean over the valid tokens of the global batch (CapPa, OpenCLIP).

    ``reverse``: of the sequence whose BPE tokens are reversed (:func:`right_to_left`).
    """
    tokens = right_to_left(batch.tokens, batch.lengths) if reverse else batch.tokens
    positions = torch.arange(tokens.shape[1], device=tokens.device)
    supervised = positions < batch.lengths[:, None] - 1
    targets = torch.roll(tokens, -1, dims=1)
    return Supervision(tokens, targets, supervised.to(torch.float32), (batch.lengths - 1).sum())
