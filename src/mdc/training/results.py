"""The outputs of a run: final weights, log, and last ``run.json``, the manifest that names the weights by hash."""

import shutil
from pathlib import Path
from typing import Any

from mdc.models.initial import count_parameters
from mdc.models.weights import CHECKPOINT, WEIGHTS_FORMAT, save_weights
from mdc.plan.jobs.call import Call, record
from mdc.plan.records import UserError, atomic_path, read_json, read_json_lines, sha256_file, write_json
from mdc.training.corpus import Corpus
from mdc.training.kept import LOG, KeptWeights, best_step, snapshot_steps, validation_losses
from mdc.training.state import Segment
from mdc.training.trainer import Training

MANIFEST = "run.json"


def write_results(
    call: Call,
    training: Training,
    corpus: Corpus,
    inputs: dict[str, str],
    segments: list[Segment],
    state: Path,
) -> list[dict[str, Any]]:
    """Write the trained model and its log (from ``state``) into ``call.out``, then the manifest; returns the log's lines.

    ``inputs``: {job: sha256} at the start of training. The manifest is the same for the same configuration, inputs and
    segments; it does not name the log, which contains times.
    """
    job, model, out = training.job, training.model, call.out
    steps = segments[-1]["last_step"]  # fewer than the corpus's if patience ended
    out.mkdir(parents=True, exist_ok=True)
    save_weights(out / CHECKPOINT, model, {"format": WEIGHTS_FORMAT, "config_sha256": job.sha256})
    snapshots = [step for step in snapshot_steps(job.recipe.snapshots, corpus.steps) if step <= steps]
    weights = [out / CHECKPOINT, *KeptWeights(state, job.sha256).deliver(out, snapshots)]
    _copy_log(state, out)
    log = read_json_lines(out / LOG)
    losses = validation_losses(out)
    best = best_step(losses)
    frozen = sum(p.numel() for p in model.parameters() if not p.requires_grad)  # imported weights
    fields = {
        "inputs": inputs,
        "parameters": {
            "all": count_parameters(model),
            "encoder": count_parameters(model.encoder),
            **({"frozen": frozen} if frozen else {}),
        },
        **({"lr": training.lr} if training.lr is not None else {}),  # chosen by a selection
        "steps": steps,
        "samples_seen": steps * job.recipe.batch_size,
        "pairs": corpus.pairs,
        **({"length": corpus.length, "cut": corpus.cut} if corpus.length is not None else {}),
        # of all splits, by reason
        "skipped": corpus.index["skipped"],
        "duplicate_share": corpus.duplicate_share,
        "loss": _last(log, "loss"),
        "validation_loss": _last(log, "validation_loss"),
        # of best.safetensors
        "best": {"step": best, "validation_loss": losses[best]} if best is not None else None,
        "snapshots": snapshots,
        "segments": segments,
    }
    write_json(out / MANIFEST, record(call, "run", weights) | fields)
    return log


def is_whole(out: Path, config: dict[str, Any], inputs: dict[str, str]) -> bool:
    """Whether ``out`` has this run complete: same configuration, same inputs, weights with the recorded hashes."""
    try:
        run = read_json(out / MANIFEST)
        named = run["outputs"]
        whole = CHECKPOINT in named and all(sha256_file(out / name) == sha256 for name, sha256 in named.items())
        return bool(run["config"] == config and run["inputs"] == inputs and whole)
    except (UserError, KeyError, TypeError):
        return False


def _last(log: list[dict[str, Any]], name: str) -> float | None:
    return next((line[name] for line in reversed(log) if name in line), None)


def _copy_log(state: Path, out: Path) -> None:
    shutil.rmtree(out / "tensorboard", ignore_errors=True)
    for path in [state / LOG, *(state / "tensorboard").iterdir()]:  # copytree would set modes, too
        with atomic_path(out / path.relative_to(state)) as temporary:
            shutil.copyfile(path, temporary)
