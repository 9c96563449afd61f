"""The encoder of a run of ours, frozen."""

from pathlib import Path

from torch import Tensor

from mdc.models.encoder import build_encoder
from mdc.models.encoders.tower import Tower, fill
from mdc.models.normalise import OPENAI_MEAN, OPENAI_STD
from mdc.models.weights import load_weights
from mdc.plan.config.kinds.backbones import Backbone
from mdc.plan.config.kinds.known import RunBehind
from mdc.plan.jobs.model import EncoderJob


class RunEncoder(Tower):
    """Its tokens are the patch tokens after the final norm, as its own decoder read them; its feature is [CLS] of a contrastive
    method, and the mean of the patches of others (paper, section 4.2)."""

    def __init__(self, backbone: Backbone, contrastive: bool) -> None:
        super().__init__(OPENAI_MEAN, OPENAI_STD)
        self.encoder, self.contrastive = build_encoder(backbone, seed=0), contrastive

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        cls, patches = self.encoder(images)
        return cls if self.contrastive else patches.mean(dim=1), patches


def tower(job: EncoderJob, root: Path | None = None, checkpoint: Path | None = None) -> RunEncoder:
    """The weights are those of a run's ``checkpoint``."""
    assert isinstance(job.behind, RunBehind)
    built = RunEncoder(job.behind.backbone, job.behind.contrastive)
    if checkpoint is not None:
        fill(built.encoder, load_weights(checkpoint, prefix="encoder."), checkpoint)
    return built
