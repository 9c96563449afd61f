"""The model that a scoring job asks for: a run of ours, read by its own configuration, or an open_clip model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from mdc.evaluation.trained_run import TrainedRun, trained_run
from mdc.models.runs import RunModel
from mdc.plan.config.caption import Captioning
from mdc.plan.config.score import Scoring
from mdc.plan.jobs.call import Call
from mdc.plan.parts import ABILITIES, load
from mdc.plan.records import sha256_file


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


def clip_scorer(run: RunModel, how: Captioning, device: torch.device) -> Any:
    """The scorer of a CLIP run as jobs of captions need it; it draws nothing."""
    values = how.model_dump(mode="json") | {"samples": 16, "mismatched": 1, "seed": 0}
    return run_scorer(run, Scoring(**values), device)


def open_clip_scorer(model: str, weights: str | None, precision: str, device: torch.device) -> tuple[Any, Any]:
    """The scorer of an open_clip model, and what identifies its weights: hashes of local files, else its names."""
    module = load(ABILITIES, "score_open_clip")
    files = module.weights_files(model, weights)
    known: Any = {path.name: sha256_file(path) for path in files} or [model, weights]
    return module.OpenClipScorer(model, weights, precision, device), known
