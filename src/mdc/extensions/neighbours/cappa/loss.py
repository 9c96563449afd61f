"""The objective ``cappa``: one decoder, trained autoregressively or by parallel decoding (Tschannen et al., 2023, CapPa).

Each sample is trained by parallel decoding with probability 0.75 (big_vision's ``masked_pred_prob``): all its inputs are [MASK],
attention is not causal, and place i predicts token i + 1. The others are trained as ARC.
"""

from functools import partial

from mdc.data.loader.batch import CaptionBatch
from mdc.models.build import ModelSetup
from mdc.models.captioner import Captioner
from mdc.training.objectives import left_to_right
from mdc.training.objectives.captioning import CaptioningObjective, Supervision
from mdc.training.objectives.objective import Setup

PARALLEL = 0.75


def build_model(setup: ModelSetup) -> Captioner:
    return Captioner(setup.backbone, setup.vocabulary_size, setup.context_length, causal=True, seed=setup.seed)


def supervise(batch: CaptionBatch, global_batch: int, mask_id: int) -> Supervision:
    """As ARC, but samples whose ``jitter`` is below 0.75 have only [MASK] as inputs."""
    supervision, parallel = left_to_right.supervise(batch), batch.jitter < PARALLEL
    inputs = supervision.inputs.masked_fill(parallel[:, None], mask_id)
    return supervision._replace(inputs=inputs, extra_inputs={"parallel": parallel})


def build_objective(model: Captioner, setup: Setup) -> CaptioningObjective:
    return CaptioningObjective(model, partial(supervise, mask_id=setup.mask_id), setup)
