"""The run of ours that a job asks for, read by its own configuration and held to what the job expects of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mdc.models.runs import WEIGHTS, RunModel, read_run
from mdc.models.text import Vocabulary
from mdc.plan.config.backbones import OnTokens
from mdc.plan.jobs.call import Call
from mdc.plan.jobs.model import PretrainJob
from mdc.plan.jobs.read import as_job
from mdc.plan.records import UserError, read_json

#: of a run's manifest, what a table says about the training
_TOLD = ("pairs", "steps", "samples_seen")


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
    path = call.input(run)
    checkpoint, manifest = read_run(path, WEIGHTS[weights])
    if not manifest.get("config_sha256") or manifest["config_sha256"] != config_sha256:
        raise UserError(f"{path}: made with another configuration than {call.job.job} expects; retrain the run")
    trained: PretrainJob = as_job(manifest["config"], "pretrain", str(path))
    if missing := [name for name in _TOLD if name not in manifest]:
        raise UserError(f"{path}: lacks {', '.join(missing)}; retrain the run")
    told: dict[str, Any] = manifest
    vocabulary = Vocabulary.read(call.input(f"data/vocabularies/{trained.vocabulary}"))
    tower = call.input(trained.backbone.frozen.job) if isinstance(trained.backbone, OnTokens) else None
    frozen = int(read_json(tower)["parameters"]) if tower is not None else 0
    return TrainedRun(
        RunModel(checkpoint, trained, vocabulary, tower),
        manifest["outputs"][checkpoint.name],
        {name: told[name] for name in _TOLD},
        told["best"]["step"] if weights == "best" else told["steps"],
        {"trained": int(told["parameters"]["all"]), "frozen": frozen + int(told["parameters"].get("frozen", 0))},
        {
            "loss": told["best"]["validation_loss"] if weights == "best" else told.get("validation_loss"),
            "length": told.get("length"),
        },
    )
