"""The objective ``autoregressive``: ARC predicts each token from the image and the tokens before it (CapPa)."""

from __future__ import annotations

from functools import partial

import torch

from mdc.autoregressive.direction import right_to_left
from mdc.config import Backbone, Method, OnTokens, ProtocolPretrain
from mdc.loader.batch import CaptionBatch
from mdc.models.captioner import Captioner
from mdc.objectives.captioning import CaptioningObjective, Supervision, build_captioner
from mdc.processes.group import ALONE, Group


def supervise(batch: CaptionBatch, global_batch: int = 0, reverse: bool = False) -> Supervision:
    """Position i predicts token i + 1, up to EOT; mean over the valid tokens of the global batch (CapPa, OpenCLIP).

    ``reverse``: of the sequence whose pieces stand from right to left (:func:`right_to_left`).
    """
    tokens = right_to_left(batch.tokens, batch.lengths) if reverse else batch.tokens
    positions = torch.arange(tokens.shape[1], device=tokens.device)
    supervised = positions < batch.lengths[:, None] - 1
    targets = torch.roll(tokens, -1, dims=1)
    return Supervision(tokens, targets, supervised.to(torch.float32), (batch.lengths - 1).sum())


def build_model(
    method: Method,
    backbone: Backbone | OnTokens,
    protocol: ProtocolPretrain,
    vocabulary_size: int,
    context_length: int,
    seed: int,
) -> Captioner:
    """See :class:`mdc.objectives.objective.ObjectiveModule`."""
    return build_captioner(backbone, vocabulary_size, context_length, causal=True, seed=seed)


def build_objective(
    model: Captioner,
    method: Method,
    protocol: ProtocolPretrain,
    mask_id: int,
    batch_size: int,
    precision: str,
    duplicate_share: float = 0.0,
    group: Group = ALONE,
) -> CaptioningObjective:
    """See :class:`mdc.objectives.objective.ObjectiveModule`."""
    supervised = partial(supervise, reverse=method.direction is not None)
    return CaptioningObjective(model, supervised, batch_size, precision, group)
