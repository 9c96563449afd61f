"""The objective ``bicaptioning``: one decoder predicts a caption from left to right, another from right to left (VirTex).

Each has half the layers of ARC's; they share embeddings and output layer. The loss is the mean of both. The first scores and
decodes captions.
"""

from mdc.extensions.neighbours.bicaptioning.model import BiCaptioner
from mdc.methods.autoregressive.loss import halved
from mdc.models.build import ModelSetup
from mdc.training.objectives.captioning import CaptioningObjective
from mdc.training.objectives.left_to_right import supervise
from mdc.training.objectives.objective import Setup


def build_model(setup: ModelSetup) -> BiCaptioner:
    return BiCaptioner(halved(setup.backbone), setup.vocabulary_size, setup.context_length, setup.seed)


def build_objective(model: BiCaptioner, setup: Setup) -> CaptioningObjective:
    return CaptioningObjective(model, supervise, setup)
