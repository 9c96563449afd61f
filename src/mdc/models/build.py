"""A method's model with its initial weights, by the module of its objective."""

from dataclasses import dataclass
from typing import Any

from mdc.models.initial import seeded
from mdc.plan.config.kinds.backbones import Backbone, FrozenEncoderBackbone
from mdc.plan.config.params import ProtocolPretrain
from mdc.plan.jobs.model import PretrainJob


@dataclass(frozen=True)
class ModelSetup:
    """What a model is built from. ``method``: of the class of its objective. ``seed``: of its initial weights."""

    method: Any
    backbone: Backbone | FrozenEncoderBackbone
    protocol: ProtocolPretrain
    vocabulary_size: int
    context_length: int
    seed: int


def build(setup: ModelSetup) -> Any:
    """An :class:`mdc.models.image_text.ImageText`; the global generator is not touched."""
    # PyTorch's layers draw weights that ours then replace
    with seeded(setup.seed, "replaced"):
        return setup.method.load("train").build_model(setup)


def build_for(job: PretrainJob, vocabulary_size: int, seed: int = 0) -> Any:
    """The model of a run."""
    protocol = job.protocol
    context_length = protocol.data.context_length
    return build(ModelSetup(job.method, job.backbone, protocol.pretrain, vocabulary_size, context_length, seed))
