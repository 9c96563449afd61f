"""A frozen encoder, fetched by its job or read back: the architecture from its kind, the weights from safetensors."""

from pathlib import Path

import torch

from mdc.models.encoders.tower import Tower, fill, weights_of_file
from mdc.plan.config.backbones import FrozenTokens
from mdc.plan.config.encoders import RANDOM
from mdc.plan.jobs.encoder_model import EncoderJob
from mdc.plan.jobs.read import as_job
from mdc.plan.parts import TOWERS, load
from mdc.plan.records import recorded

TOWER = "encoder.safetensors"


def fetched(job: EncoderJob, root: Path, checkpoint: Path | None = None) -> Tower:
    """The encoder with its weights, in evaluation mode: those of its kind's module (see :mod:`mdc.models.encoders`), or
    ``random`` ones, always the same; the global generator is not touched."""
    module = load(TOWERS, job.entry.kind)
    tower: Tower
    if getattr(job.entry, "weights", None) == RANDOM:
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(0)
            tower = module.tower(job)
    else:
        tower = module.tower(job, root, checkpoint)
    return tower.eval()


def read_tower(path: Path, expected: FrozenTokens) -> Tower:
    """The encoder of the manifest ``path``, in evaluation mode.

    UserError if it is not ``expected``, or if its weights are not those of the manifest.
    """
    weights, manifest = recorded(path, TOWER, expected.config_sha256, expected.job, "import the encoder")
    job: EncoderJob = as_job(manifest["config"], "import-encoder", str(path))
    tower: Tower = load(TOWERS, job.entry.kind).tower(job)
    fill(tower, weights_of_file(weights), weights)
    tower.mean, tower.std = tuple(manifest["mean"]), tuple(manifest["std"])
    return tower.eval().requires_grad_(False)
