"""The run of ours that a job asks for, read by its own configuration and held to what the job expects of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mdc.models.runs import WEIGHTS, RunModel, expected_run
from mdc.models.text import Vocabulary
from mdc.plan.config.backbones import OnTokens
from mdc.plan.jobs.call import Call
from mdc.plan.jobs.model import PretrainJob
from mdc.plan.jobs.read import as_job
from mdc.plan.records import read_json


@dataclass(frozen=True)
class TrainedRun:
    """``model``: what predictors load. ``weights``: the hash of its checkpoint. ``training``: what its manifest tells."""

    model: RunModel
    weights: str
    training: dict[str, int]
    weights_step: int
    #: how many numbers are trained, and how many of its encoder are not
    parameters: dict[str, int]
    #: what its objective is on held-out pairs, in nats per token, or None; ``length``: places of a caption, if all have as many
    held_out: dict[str, Any]

    @property
    def job(self) -> PretrainJob:
        """How it was trained."""
        return self.model.job


def trained_run(call: Call, run: str, config_sha256: str | None, weights: str) -> TrainedRun:
    """The ``weights`` of the job ``run``; UserError if it was not made with that configuration."""
    checkpoint, manifest, training = expected_run(call, run, config_sha256, WEIGHTS[weights])
    trained: PretrainJob = as_job(manifest["config"], "pretrain", str(call.input(run)))
    vocabulary = Vocabulary.read(call.input(f"data/vocabularies/{trained.vocabulary}"))
    tower = call.input(trained.backbone.frozen.job) if isinstance(trained.backbone, OnTokens) else None
    frozen = int(read_json(tower)["parameters"]) if tower is not None else 0
    parameters = manifest["parameters"]
    return TrainedRun(
        RunModel(checkpoint, trained, vocabulary, tower),
        manifest["outputs"][checkpoint.name],
        training,
        manifest["best"]["step"] if weights == "best" else manifest["steps"],
        {"trained": int(parameters["all"]), "frozen": frozen + int(parameters.get("frozen", 0))},
        {
            "loss": manifest["best"]["validation_loss"] if weights == "best" else manifest.get("validation_loss"),
            "length": manifest.get("length"),
        },
    )
