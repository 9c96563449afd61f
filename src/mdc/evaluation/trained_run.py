"""The run of ours that a job asks for, read by its own configuration and held to what the job expects of it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mdc.config import Backbone, Method, ProtocolPretrain
from mdc.jobs.call import Call
from mdc.jobs.model import PretrainJob
from mdc.jobs.read import as_job
from mdc.predictors.runs import WEIGHTS, read_run
from mdc.records import UserError
from mdc.text import Vocabulary

#: of a run's manifest, what a table says about the training
_TOLD = ("pairs", "steps", "samples_seen")


@dataclass(frozen=True)
class TrainedRun:
    """``job``: how it was trained. ``weights``: the hash of ``checkpoint``. ``training``: what its manifest tells."""

    checkpoint: Path
    job: PretrainJob
    vocabulary: Vocabulary
    weights: str
    training: dict[str, int]
    weights_step: int

    @property
    def model(self) -> tuple[Path, Method, Backbone, ProtocolPretrain, Vocabulary, int]:
        """What a predictor is made of."""
        protocol = self.job.protocol
        return (
            self.checkpoint,
            self.job.method,
            self.job.backbone,
            protocol.pretrain,
            self.vocabulary,
            protocol.data.context_length,
        )


def trained_run(call: Call, run: str, config_sha256: str | None, weights: str) -> TrainedRun:
    """The ``weights`` of the job ``run``; UserError if it was not made with that configuration."""
    path = call.input(run)
    checkpoint, manifest = read_run(path, WEIGHTS[weights])
    if not manifest.get("config_sha256") or manifest["config_sha256"] != config_sha256:
        raise UserError(f"{path}: made with another configuration than {call.job.job} expects; train the run again")
    trained: PretrainJob = as_job(manifest["config"], "pretrain", str(path))
    if missing := [name for name in _TOLD if name not in manifest]:
        raise UserError(f"{path}: lacks {', '.join(missing)}; train the run again")
    told: dict[str, Any] = manifest
    return TrainedRun(
        checkpoint,
        trained,
        Vocabulary.read(call.input(f"data/vocabularies/{trained.vocabulary}")),
        manifest["outputs"][checkpoint.name],
        {name: told[name] for name in _TOLD},
        told["best"]["step"] if weights == "best" else told["steps"],
    )
