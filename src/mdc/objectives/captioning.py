"""Captioning objectives: what is shown to the decoder, what it must predict, with which weight.

Both objectives supervise exactly the same tokens of a caption: its pieces and EOT (L of them); SOT never.
B captions of T tokens (SOT, pieces, EOT, padding), ``lengths`` counting SOT…EOT.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from mdc.config import Method, ProtocolPretrain
from mdc.diffusion.corruption import mask_tokens
from mdc.diffusion.schedule import MaskSchedule
from mdc.loader.batches import Batch


class Supervision(NamedTuple):
    """inputs, targets (B, T) int64; weights (B, T) float32, zero where nothing is supervised; normaliser: a scalar."""

    inputs: Tensor
    targets: Tensor
    weights: Tensor
    normaliser: Tensor


def autoregressive(tokens: Tensor, lengths: Tensor) -> Supervision:
    """ARC: position i predicts token i + 1, up to EOT; mean over valid tokens (CapPa)."""
    positions = torch.arange(tokens.shape[1], device=tokens.device)
    supervised = positions < lengths[:, None] - 1
    targets = torch.roll(tokens, -1, dims=1)
    return Supervision(tokens, targets, supervised.to(torch.float32), (lengths - 1).sum())


def masked(
    tokens: Tensor,
    lengths: Tensor,
    uniforms: Tensor,
    t: Tensor,
    schedule: MaskSchedule,
    mask_id: int,
    normaliser: str,
) -> Supervision:
    """MDC (paper, equation 5 and Algorithm 1): predict what stood under each mask, weighted by −α'/(1 − α).

    ``normaliser``: "valid_tokens" divides by all tokens that could be masked (MDLM), "masked_tokens" by those that are
    (MDC w/o t, BERT-r).
    """
    inputs, where = mask_tokens(tokens, lengths, uniforms, t, mask_id)
    weights = where.to(torch.float32) * schedule.weight(t)[:, None]
    count = (lengths - 1).sum() if normaliser == "valid_tokens" else where.sum()
    return Supervision(inputs, tokens, weights, count)


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


def supervise(method: Method, protocol: ProtocolPretrain, batch: Batch, mask_id: int, global_batch: int) -> Supervision:
    """The supervision of a batch under a captioning method's entry; all randomness comes with the batch."""
    tokens, lengths = batch["tokens"], batch["lengths"]
    if method.objective == "autoregressive":
        return autoregressive(tokens, lengths)
    schedule = schedule_of(method, protocol)
    t = schedule.draw(batch["jitter"], batch["place"], global_batch)
    assert method.normaliser is not None
    return masked(tokens, lengths, batch["uniforms"], t, schedule, mask_id, method.normaliser)
