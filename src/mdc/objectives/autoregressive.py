"""The objective ``autoregressive``: ARC predicts each token from the image and the tokens before it (CapPa)."""

from __future__ import annotations

import torch

from mdc.config import Backbone, Method, ProtocolPretrain
from mdc.loader.batch import CaptionBatch
from mdc.models.captioner import Captioner
from mdc.objectives.captioning import CaptioningObjective, Supervision, build_captioner
from mdc.processes.group import ALONE, Group


def supervise(batch: CaptionBatch, global_batch: int = 0) -> Supervision:
    """Position i predicts token i + 1, up to EOT; mean over the valid tokens of the global batch (CapPa, OpenCLIP)."""
    positions = torch.arange(batch.tokens.shape[1], device=batch.tokens.device)
    supervised = positions < batch.lengths[:, None] - 1
    targets = torch.roll(batch.tokens, -1, dims=1)
    return Supervision(batch.tokens, targets, supervised.to(torch.float32), (batch.lengths - 1).sum())


def build_model(
    method: Method,
    backbone: Backbone,
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
    return CaptioningObjective(model, supervise, batch_size, precision, group)
