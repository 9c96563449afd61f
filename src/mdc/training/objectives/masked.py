"""The objective ``masked``: predict what stood under each mask. MDC, its ablations and BERT-r differ in values alone."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from mdc.data.loader.batch import CaptionBatch
from mdc.diffusion.corruption import mask_tokens
from mdc.diffusion.schedule import MaskSchedule
from mdc.models.captioner import Captioner
from mdc.plan.config.backbones import Backbone, OnTokens
from mdc.plan.config.params import ProtocolPretrain
from mdc.plan.config.pretrain import Method
from mdc.plan.processes.group import ALONE, Group
from mdc.training.objectives.captioning import CaptioningObjective, Supervision, build_captioner


def masked(
    tokens: Tensor,
    lengths: Tensor,
    uniforms: Tensor,
    t: Tensor,
    schedule: MaskSchedule,
    mask_id: int,
    normaliser: str,
) -> Supervision:
    """Paper, equation 5 and Algorithm 1: predict what stood under each mask, weighted by −α'/(1 − α).

    tokens (B, T), lengths (B,), uniforms (B, T), t (B,). ``normaliser``: "valid_tokens" divides by all tokens that could
    be masked (MDLM), "masked_tokens" by those that are (MDC w/o t, BERT-r).
    """
    inputs, where = mask_tokens(tokens, lengths, uniforms, t, mask_id)
    weights = where.to(torch.float32) * schedule.weight(t)[:, None]
    count = (lengths - 1).sum() if normaliser == "valid_tokens" else where.sum()
    return Supervision(inputs, tokens, weights, count)


def on_canvas(batch: CaptionBatch, canvas: int) -> CaptionBatch:
    """The batch with captions that go on with EOT after their end, so that a model learns where captions end.

    A caption of L tokens (its pieces and EOT) becomes one of L to ``canvas`` tokens, each number equally likely; a longer one
    stays. Tokens are padded with EOT already. The draw is SOT's own number, which no mask is made of.
    """
    room = (canvas + 1 - batch.lengths).clamp(min=0)
    more = (batch.uniforms[:, 0] * (room + 1)).long().clamp(max=room)
    return replace(batch, lengths=batch.lengths + more)


def schedule_of(method: Method, protocol: ProtocolPretrain) -> MaskSchedule:
    """The noise schedule of a masked method's entry."""
    assert method.t_range is not None
    return MaskSchedule(
        low=method.t_range[0],
        high=method.t_range[1],
        inverse_t=method.weight == "inverse_t",
        least_t=protocol.least_t,
        stratified=protocol.t_draw == "stratified",
    )


def supervise(
    method: Method, protocol: ProtocolPretrain, batch: CaptionBatch, mask_id: int, global_batch: int
) -> Supervision:
    """The supervision of a batch under a masked method's entry; all randomness comes with the batch."""
    schedule = schedule_of(method, protocol)
    t = schedule.draw(batch.jitter, batch.place, global_batch)
    assert method.normaliser is not None
    return masked(batch.tokens, batch.lengths, batch.uniforms, t, schedule, mask_id, method.normaliser)


def build_model(
    method: Method,
    backbone: Backbone | OnTokens,
    protocol: ProtocolPretrain,
    vocabulary_size: int,
    context_length: int,
    seed: int,
) -> Captioner:
    """See :class:`mdc.training.objectives.objective.ObjectiveModule`."""
    return build_captioner(backbone, vocabulary_size, context_length, causal=False, seed=seed)


def build_objective(
    model: Captioner,
    method: Method,
    protocol: ProtocolPretrain,
    mask_id: int,
    batch_size: int,
    precision: str,
    duplicate_share: float = 0.0,
    group: Group = ALONE,
    canvas: int | None = None,
) -> CaptioningObjective:
    """See :class:`mdc.training.objectives.objective.ObjectiveModule`; ``batch_size`` decides the strata of t. ``canvas``: see
    :func:`on_canvas`."""

    def supervised(batch: CaptionBatch, global_batch: int) -> Supervision:
        return supervise(method, protocol, batch, mask_id, global_batch)

    def seen(batch: CaptionBatch) -> CaptionBatch:
        return batch if canvas is None else on_canvas(batch, canvas)

    return CaptioningObjective(model, supervised, batch_size, precision, group, seen)
