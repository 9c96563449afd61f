"""The objective ``complementary``: each caption twice per encoder pass, with a mask and with its complement (LaViDa).

With t ~ U[0, 1] one version has the share t of its tokens masked, the other exactly the rest, so every token is supervised at
every step. Tokens are weighted as in MDC, by one over the version's share, and the loss is half the sum: an antithetic estimate
of the loss of ``masked`` with ``t_range: [0, 1]``.
"""

from functools import partial

import torch

from mdc.data.loader.batch import CaptionBatch
from mdc.diffusion.corruption import maskable
from mdc.diffusion.schedule import MaskSchedule
from mdc.extensions.neighbours.complementary.method import Complementary
from mdc.methods.masked import loss as masked
from mdc.models.build import ModelSetup
from mdc.models.captioner import Captioner
from mdc.plan.config.params import ProtocolPretrain
from mdc.training.objectives.captioning import CaptioningObjective, Supervision
from mdc.training.objectives.objective import Setup

of_run = masked.of_run


def build_model(setup: ModelSetup) -> Captioner:
    return Captioner(setup.backbone, setup.vocabulary_size, setup.context_length, causal=False, seed=setup.seed)


def schedule_of(method: Complementary, protocol: ProtocolPretrain) -> MaskSchedule:
    """t ~ U[0, 1]."""
    stratified = protocol.t_draw == "stratified"
    return MaskSchedule(low=0.0, high=1.0, inverse_t=True, least_t=protocol.least_t, stratified=stratified)


def supervise(
    method: Complementary, protocol: ProtocolPretrain, mask_id: int, batch: CaptionBatch, global_batch: int
) -> Supervision:
    """Two versions of each caption. Both shares, t and 1 − t, are raised to ``least_t``."""
    drawn = schedule_of(method, protocol).draw(batch.jitter, batch.place, global_batch)
    t = drawn.clamp(max=1 - protocol.least_t)[:, None]
    of_first, maybe = batch.uniforms < t, maskable(batch.tokens, batch.lengths)
    where = torch.cat([of_first & maybe, ~of_first & maybe])
    tokens = batch.tokens.repeat(2, 1)
    weights = where / torch.cat([t, 1 - t])
    return Supervision(tokens.masked_fill(where, mask_id), tokens, weights, 2 * (batch.lengths - 1).sum())


def build_objective(model: Captioner, setup: Setup, canvas: int | None = None) -> CaptioningObjective:
    """See :class:`mdc.training.objectives.objective.ObjectiveModule` and :func:`mdc.methods.masked.loss.on_canvas`."""
    supervised = partial(supervise, setup.method, setup.protocol, setup.mask_id)
    return CaptioningObjective(model, supervised, setup, masked.canvas_transform(canvas))
