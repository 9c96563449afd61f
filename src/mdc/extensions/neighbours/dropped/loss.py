"""The objective ``dropped``: that of masked methods, with a random share of the patch tokens (OpenVision 2, Liu et al., 2025)."""

from functools import partial

from torch import Tensor

from mdc.data.loader.batch import CaptionBatch
from mdc.extensions.neighbours.dropped.method import Dropped
from mdc.methods.masked import loss as masked
from mdc.models.captioner import Captioner
from mdc.plan.config.params import ProtocolPretrain
from mdc.training.objectives.captioning import CaptioningObjective, Supervision
from mdc.training.objectives.objective import Needs, Setup

build_model, of_run, schedule_of = masked.build_model, masked.of_run, masked.schedule_of


def needs(method: Dropped) -> Needs:
    """See :class:`mdc.training.objectives.objective.ObjectiveModule`."""
    return Needs(patches=True)


def kept_patches(draws: Tensor | None, share: float) -> dict[str, Tensor]:
    """Which patch tokens a decoder reads that sees only a ``share`` of N: ``kept`` (B, k) int64, rising, at least one per image.
    Empty without ``draws`` (B, 1 + N), which held-out batches lack."""
    if draws is None:
        return {}
    count = max(round(share * (draws.shape[1] - 1)), 1)
    return {"kept": draws[:, 1:].argsort(dim=1)[:, :count].sort(dim=1).values}


def supervise(
    method: Dropped, protocol: ProtocolPretrain, mask_id: int, batch: CaptionBatch, global_batch: int
) -> Supervision:
    """As of masked methods, with the patches that the decoder reads."""
    found = masked.supervise(method, protocol, mask_id, batch, global_batch)
    return found._replace(extra_inputs=kept_patches(batch.image_draws, method.patches_kept))


def build_objective(model: Captioner, setup: Setup, canvas: int | None = None) -> CaptioningObjective:
    """See :class:`mdc.training.objectives.objective.ObjectiveModule` and :func:`mdc.methods.masked.loss.build_objective`."""
    supervised = partial(supervise, setup.method, setup.protocol, setup.mask_id)
    return CaptioningObjective(model, supervised, setup, masked.canvas_transform(canvas))
