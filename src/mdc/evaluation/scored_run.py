"""The model that a scoring job asks for: a run of ours, read by its own configuration, or an open_clip model."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from mdc.config import Scoring
from mdc.jobs.call import Call
from mdc.jobs.model import PretrainJob
from mdc.jobs.read import as_job
from mdc.parts import ABILITIES, load
from mdc.predictors.runs import WEIGHTS, read_run
from mdc.records import UserError, sha256_file
from mdc.text import Vocabulary

#: of a run's manifest, what a table says about the training
_TOLD = ("pairs", "steps", "samples_seen")


@dataclass(frozen=True)
class ScoredRun:
    """``job``: how the run was trained. ``weights``: hash of what is scored with. ``training``: what its manifest tells."""

    scorer: Any
    job: PretrainJob
    weights: str
    training: dict[str, int]
    weights_step: int


def scored_run(call: Call, device: torch.device) -> ScoredRun:
    """The run of ``call.job`` (run, run_config_sha256, weights, scoring) with the scorer of its method."""
    job = call.job
    path = call.input(job.run)
    checkpoint, manifest = read_run(path, WEIGHTS[job.weights])
    if not manifest.get("config_sha256") or manifest["config_sha256"] != job.run_config_sha256:
        raise UserError(f"{path}: made with another configuration than {job.job} expects; train the run again")
    trained: PretrainJob = as_job(manifest["config"], "pretrain", str(path))
    vocabulary = Vocabulary.read(call.input(f"data/vocabularies/{trained.vocabulary}"))
    scorer = run_scorer(checkpoint, trained, vocabulary, job.scoring, device)
    if missing := [name for name in _TOLD if name not in manifest]:
        raise UserError(f"{path}: lacks {', '.join(missing)}; train the run again")
    step = manifest["best"]["step"] if job.weights == "best" else manifest["steps"]
    training = {name: manifest[name] for name in _TOLD}
    return ScoredRun(scorer, trained, manifest["outputs"][checkpoint.name], training, step)


def run_scorer(
    checkpoint: Path, trained: PretrainJob, vocabulary: Vocabulary, scoring: Scoring, device: torch.device
) -> Any:
    """The scorer of a run's weights."""
    return load(ABILITIES, "score").RunScorer(
        checkpoint,
        trained.method,
        trained.backbone,
        trained.protocol.pretrain,
        vocabulary,
        trained.protocol.data.context_length,
        samples=scoring.samples,
        precision=scoring.precision,
        device=device,
        batch_tokens=scoring.batch_tokens,
    )


def open_clip_scorer(model: str, weights: str | None, scoring: Scoring, device: torch.device) -> tuple[Any, Any]:
    """The scorer of an open_clip model, and what identifies its weights: hashes of local files, else its names."""
    module = load(ABILITIES, "score_open_clip")
    files = module.weights_files(model, weights)
    known: Any = {path.name: sha256_file(path) for path in files} or [model, weights]
    return module.OpenClipScorer(model, weights, scoring.precision, device), known
