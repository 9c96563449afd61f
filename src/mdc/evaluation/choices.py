"""The job ``mdc score-choices``: every option of choice sets under every estimator of one model (paper, section 4.2).

Writes ``scores.parquet``, a row per option and estimator: its scores with its own image, with mismatched images of the set
and with an image of the mean colour, each with its standard error; the errors of Table 2's mismatched-image controls, and the
covariance of the main one with the score (:mod:`mdc.evaluation.predictors.mismatched`); and last ``scores.json``.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from mdc.data.shards.index import read_index
from mdc.evaluation.job_models import open_clip_scorer, scored_run
from mdc.evaluation.option_scores import COLUMNS, Questions, score_items
from mdc.evaluation.parts import device_of, identity_of, ranges, sharded
from mdc.evaluation.row_files import Row, write_results
from mdc.plan.jobs.call import Call
from mdc.plan.jobs.model import ChoicesJob
from mdc.plan.processes.group import global_rank, process_group
from mdc.plan.records import sha256_json

_PART = 32  # items that are scored at a time, and lost at most by a kill


def main(call: Call) -> None:
    """Run the job, or one process's share of it. ``call.job``: a :class:`mdc.plan.jobs.model.ChoicesJob`."""
    job: ChoicesJob = call.job
    scoring = job.scoring
    device = device_of(scoring)
    metadata: dict[str, Any]
    trained: frozenset[int] | None = None
    if job.open_clip is not None:
        scorer, weights = open_clip_scorer(job.open_clip.model, job.open_clip.weights, scoring.precision, device)
        context_length = job.context_length
        metadata = {"training": None, "weights": weights}
    else:
        run = scored_run(call, device)
        scorer, weights, context_length = run.scorer, run.weights, run.job.protocol.data.context_length
        corpus = read_index(call.input(f"data/corpora/{run.job.corpus}"), kind="corpus")
        trained = frozenset(corpus["train_pieces"])
        metadata = {"training": run.training, "weights": weights, "weights_step": run.weights_step}
    metadata["estimators"] = list(scorer.estimators)
    identity = identity_of(job.fingerprint, weights, scoring, device)
    pieces = sha256_json(sorted(trained or ()))
    rows: list[Row] = []
    metadata["sets"] = {}
    with process_group(scoring.processes, device) as group:
        for name in job.sets:
            path = call.input(f"data/choices/{name}")
            index = read_index(path, verify="auto", kind="choices")
            questions = Questions.open(
                name,
                path,
                trained=trained,
                seed=scoring.seed,
                others=scoring.mismatched,
                samples=scoring.samples,
                context_length=context_length,
            )
            shards = [shard["sha256"] for shard in index["splits"]["test"]["shards"]]
            of_set = {**identity, "set": name, "shards": shards, "trained": pieces}
            parts = ranges(len(questions.images), _PART)
            results = sharded(call, group, parts, partial(_part, scorer, questions), of_set, name)
            rows += [row for part in results for row in part["rows"]]
            metadata["sets"][name] = _set_metadata(index, results)
    if global_rank():
        return
    write_results(call, "scores", {"scores.parquet": (rows, COLUMNS)}, metadata)


def _part(scorer: Any, questions: Questions, numbers: Sequence[int]) -> dict[str, Any]:
    rows, too_long = score_items(scorer, questions, numbers)
    return {"rows": rows, "too_long": too_long}


def _set_metadata(index: Mapping[str, Any], results: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Metadata of a set: how it was made and what was left out."""
    too_long = [key for part in results for key in part["too_long"]]
    metadata = {key: index[key] for key in ("tagger", "perturbed", "shortcuts") if key in index}
    return {
        **metadata,
        "items": index["splits"]["test"]["samples"] - len(too_long),
        "too_long": len(too_long),
        "skipped": index["skipped"],
        "same_as_answer": index["same_as_answer"],
    }
