"""The objective ``masked``: predict the masked tokens. MDC, its ablations and BERT-r differ in parameters only."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from mdc.data.loader.batch import CaptionBatch
from mdc.diffusion.corruption import mask_tokens
from mdc.diffusion.schedule import MaskSchedule
from mdc.methods.masked.method import MaskedMethod
from mdc.models.build import ModelSetup
from mdc.models.captioner import Captioner
from mdc.plan.config.params import ProtocolPretrain
from mdc.plan.jobs.model import PretrainJob
from mdc.training.objectives.captioning import CaptioningObjective, Supervision
from mdc.training.objectives.objective import Setup

if TYPE_CHECKING:
    from mdc.training.corpus import Corpus


def masked(
    tokens: Tensor,
    lengths: Tensor,
    uniforms: Tensor,
    t: Tensor,
    schedule: MaskSchedule,
    mask_id: int,
    normaliser: str,
) -> Supervision:
    """Paper, equation 5 and Algorithm 1: predict the masked tokens, weighted by −α'/(1 − α).

    tokens (B, T), lengths (B,), uniforms (B, T), t (B,). ``normaliser``: "valid_tokens" divides by all tokens that could
    be masked (MDLM), "masked_tokens" by those that are (MDC w/o t, BERT-r).
    """
    inputs, where = mask_tokens(tokens, lengths, uniforms, t, mask_id)
    weights = where.to(torch.float32) * schedule.weight(t)[:, None]
    count = (lengths - 1).sum() if normaliser == "valid_tokens" else where.sum()
    return Supervision(inputs, tokens, weights, count)


def on_canvas(batch: CaptionBatch, canvas: int) -> CaptionBatch:
    """The batch with captions extended by EOT, so that a model learns where captions end.

    A caption of L tokens (BPE tokens and EOT) becomes one of L to ``canvas`` tokens, uniformly; a longer one stays. Tokens are
    padded with EOT already. The draw is SOT's uniform number, which masking does not use.
    """
    room = (canvas + 1 - batch.lengths).clamp(min=0)
    more = (batch.uniforms[:, 0] * (room + 1)).long().clamp(max=room)
    return replace(batch, lengths=batch.lengths + more)


def canvas_transform(canvas: int | None) -> Callable[[CaptionBatch], CaptionBatch] | None:
    """:func:`on_canvas` as a transform of batches; None without a ``canvas``."""
    return None if canvas is None else partial(on_canvas, canvas=canvas)


def schedule_of(method: MaskedMethod, protocol: ProtocolPretrain) -> MaskSchedule:
    """The noise schedule of a masked method's entry."""
    return MaskSchedule(
        low=method.t_range[0],
        high=method.t_range[1],
        inverse_t=method.weight == "inverse_t",
        least_t=protocol.least_t,
        stratified=protocol.t_draw == "stratified",
    )


def supervise(
    method: MaskedMethod, protocol: ProtocolPretrain, mask_id: int, batch: CaptionBatch, global_batch: int
) -> Supervision:
    """The supervision of a batch under a masked method's entry; all randomness comes with the batch."""
    schedule = schedule_of(method, protocol)
    t = schedule.draw(batch.jitter, batch.place, global_batch)
    return masked(batch.tokens, batch.lengths, batch.uniforms, t, schedule, mask_id, method.normaliser)


def build_model(setup: ModelSetup) -> Captioner:
    return Captioner(setup.backbone, setup.vocabulary_size, setup.context_length, causal=False, seed=setup.seed)


def of_run(job: PretrainJob, corpus: Corpus) -> dict[str, Any]:
    """See :class:`mdc.training.objectives.objective.ObjectiveModule`: the canvas of a finetuning, if any."""
    start = job.start
    return {"canvas": start.canvas} if start is not None else {}


def build_objective(model: Captioner, setup: Setup, canvas: int | None = None) -> CaptioningObjective:
    """See :class:`mdc.training.objectives.objective.ObjectiveModule`; ``batch_size`` decides the strata of t. ``canvas``: see
    :func:`on_canvas`."""
    supervised = partial(supervise, setup.method, setup.protocol, setup.mask_id)
    return CaptioningObjective(model, supervised, setup, canvas_transform(canvas))
