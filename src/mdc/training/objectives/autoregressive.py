"""The objective ``autoregressive``: ARC predicts each token from the image and the tokens before it (CapPa)."""

from __future__ import annotations

from functools import partial

from mdc.models.captioner import Captioner
from mdc.plan.config.backbones import Backbone, OnTokens
from mdc.plan.config.params import ProtocolPretrain
from mdc.plan.config.pretrain import Method
from mdc.plan.processes.group import ALONE, Group
from mdc.training.objectives.captioning import CaptioningObjective, build_captioner
from mdc.training.objectives.left_to_right import supervise


def build_model(
    method: Method,
    backbone: Backbone | OnTokens,
    protocol: ProtocolPretrain,
    vocabulary_size: int,
    context_length: int,
    seed: int,
) -> Captioner:
    """See :class:`mdc.training.objectives.objective.ObjectiveModule`."""
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
    """See :class:`mdc.training.objectives.objective.ObjectiveModule`."""
    supervised = partial(supervise, reverse=method.direction is not None)
    return CaptioningObjective(model, supervised, batch_size, precision, group)
