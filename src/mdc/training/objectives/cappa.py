"""The objective ``cappa``: one decoder that now writes from left to right and now in parallel (Tschannen et al., 2023, CapPa).

Each sample is trained by parallel decoding with probability 0.75 (big_vision's ``masked_pred_prob``): all its inputs are [MASK],
every place sees every other, and place i predicts token i + 1, as it does for the others, which are trained as ARC.
"""

from __future__ import annotations

from functools import partial

from mdc.data.loader.batch import CaptionBatch
from mdc.models.captioner import Captioner
from mdc.training.objectives import autoregressive, left_to_right
from mdc.training.objectives.captioning import CaptioningObjective, Supervision
from mdc.training.objectives.objective import Setup

PARALLEL = 0.75

build_model = autoregressive.build_model


def supervise(batch: CaptionBatch, global_batch: int, mask_id: int) -> Supervision:
    """As ARC, but that the samples whose ``jitter`` is below 0.75 show none of their tokens."""
    found, parallel = left_to_right.supervise(batch), batch.jitter < PARALLEL
    return found._replace(inputs=found.inputs.masked_fill(parallel[:, None], mask_id), told={"parallel": parallel})


def build_objective(model: Captioner, setup: Setup) -> CaptioningObjective:
    """See :class:`mdc.training.objectives.objective.ObjectiveModule`."""
    return CaptioningObjective(model, partial(supervise, mask_id=setup.mask_id), setup)
