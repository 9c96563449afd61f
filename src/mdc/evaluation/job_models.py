"""The models that a job needs: runs of ours, checked against the job's configuration, and models of open_clip."""

from dataclasses import dataclass
from typing import Any

import torch

from mdc.models.runs import WEIGHTS, RunModel, expected_run
from mdc.models.text import Vocabulary
from mdc.plan.config.decoding import Captioning
from mdc.plan.config.kinds.backbones import FrozenEncoderBackbone
from mdc.plan.config.score import Scoring
from mdc.plan.data_folder import data_folder, weights_files, weights_path
from mdc.plan.jobs.call import Call
from mdc.plan.jobs.model import PretrainJob
from mdc.plan.jobs.read import as_job
from mdc.plan.parts import ABILITIES, load
from mdc.plan.records import read_json, sha256_file


@dataclass(frozen=True)
class TrainedRun:
    """``model``: what predictors load. ``weights``: the hash of its checkpoint. ``training``: facts from its manifest."""

    model: RunModel
    weights: str
    training: dict[str, int]
    weights_step: int
    #: counts of trained parameters and of frozen ones of its encoder
    parameters: dict[str, int]
    #: ``loss`` on held-out pairs in nats per token, or None; ``length``: places of a caption, if it is fixed
    held_out: dict[str, Any]

    @property
    def job(self) -> PretrainJob:
        """How it was trained."""
        return self.model.job


def trained_run(call: Call, run: str, config_sha256: str | None, weights: str) -> TrainedRun:
    """The ``weights`` of the job ``run``; UserError if it has another configuration."""
    checkpoint, manifest, training = expected_run(call, run, config_sha256, WEIGHTS[weights])
    trained: PretrainJob = as_job(manifest["config"], "pretrain", str(call.input(run)))
    vocabulary = Vocabulary.read(call.input(f"data/vocabularies/{trained.vocabulary}"))
    tower = call.input(trained.backbone.frozen.job) if isinstance(trained.backbone, FrozenEncoderBackbone) else None
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


@dataclass(frozen=True)
class ScoredRun(TrainedRun):
    """A run with the ``scorer`` of its method."""

    scorer: Any


def scored_run(call: Call, device: torch.device) -> ScoredRun:
    """The run of ``call.job`` (run, run_config_sha256, weights, scoring)."""
    job = call.job
    run = trained_run(call, job.run, job.run_config_sha256, job.weights)
    return ScoredRun(**vars(run), scorer=run_scorer(run.model, job.scoring, device))


def run_scorer(run: RunModel, scoring: Scoring, device: torch.device) -> Any:
    """The scorer of a run's weights."""
    return load(ABILITIES, "score").RunScorer(
        run,
        samples=scoring.samples,
        precision=scoring.precision,
        device=device,
        batch_tokens=scoring.batch_tokens,
    )


def clip_scorer(run: RunModel, captioning: Captioning, device: torch.device) -> Any:
    """The scorer of a CLIP run for jobs of captions; it does not sample."""
    values = captioning.model_dump(mode="json") | {"samples": 16, "mismatched": 1, "seed": 0}
    return run_scorer(run, Scoring(**values), device)


def open_clip_scorer(model: str, weights: str | None, precision: str, device: torch.device) -> tuple[Any, Any]:
    """The scorer of an open_clip model, and what identifies its weights: hashes of local files, else its names."""
    module = load(ABILITIES, "score_open_clip")
    files = weights_files(model, weights, data_folder())
    identity: Any = {path.name: sha256_file(path) for path in files} or [model, weights]
    return module.OpenClipScorer(model, weights_path(weights, data_folder()), precision, device), identity
