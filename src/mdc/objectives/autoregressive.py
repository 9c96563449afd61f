"""The objective ``autoregressive``: ARC predicts each token from the image and the tokens before it (CapPa)."""

from __future__ import annotations

from functools import partial

from mdc.config import Backbone, Method, OnTokens, ProtocolPretrain
from mdc.models.captioner import Captioner
from mdc.objectives.captioning import CaptioningObjective, build_captioner
from mdc.objectives.left_to_right import supervise
from mdc.processes.group import ALONE, Group


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
