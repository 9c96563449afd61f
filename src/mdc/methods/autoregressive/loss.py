"""The objective ``autoregressive``: ARC predicts each token from the image and the tokens before it (CapPa)."""

from mdc.data.loader.batch import CaptionBatch
from mdc.models.build import ModelSetup
from mdc.models.captioner import Captioner
from mdc.plan.config.kinds.backbones import Backbone, FrozenEncoderBackbone
from mdc.training.objectives.captioning import CaptioningObjective, Supervision
from mdc.training.objectives.left_to_right import supervise
from mdc.training.objectives.objective import Setup


def build_model(setup: ModelSetup) -> Captioner:
    backbone = halved(setup.backbone) if setup.method.layers is not None else setup.backbone
    return Captioner(backbone, setup.vocabulary_size, setup.context_length, causal=True, seed=setup.seed)


def halved(backbone: Backbone | FrozenEncoderBackbone) -> Backbone | FrozenEncoderBackbone:
    """The backbone with a decoder of half the layers."""
    decoder = backbone.decoder.model_copy(update={"layers": backbone.decoder.layers // 2})
    return backbone.model_copy(update={"decoder": decoder})


def build_objective(model: Captioner, setup: Setup) -> CaptioningObjective:
    """See :class:`mdc.training.objectives.objective.ObjectiveModule`."""

    def supervised(batch: CaptionBatch, _: int) -> Supervision:
        return supervise(batch, reverse=setup.method.direction is not None)

    return CaptioningObjective(model, supervised, setup)
