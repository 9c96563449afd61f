"""The job ``mdc pretrain``: one run, from its resolved configuration to ``run.json``.

Writes into the run's folder: ``checkpoint.safetensors`` (final weights), ``log.jsonl`` and ``tensorboard/`` (how it
went) and last ``run.json``, the manifest that names the checkpoint by hash. Everything in run.json is the same for the
same inputs, seed and machine; how fast it went is returned, for ``host.json``.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
from pydantic import ValidationError

from mdc.config import Backbone, Method, ProtocolData, ProtocolPretrain, Recipe, Runtime, first_problem
from mdc.loader.batches import Batch, CaptionBatches, evaluation_batches
from mdc.models.build import build_model
from mdc.models.initial import count_parameters
from mdc.objectives.objective import build_objective
from mdc.processes.group import Group, global_rank, local_rank, process_group
from mdc.processes.lock import another_was_waited_for, locked
from mdc.records import (
    UserError,
    atomic_path,
    clear_leftovers,
    read_json,
    read_json_lines,
    sha256_file,
    sha256_json,
    versions,
    write_json,
)
from mdc.shards.index import read_index
from mdc.text import Vocabulary
from mdc.training.checkpoint import WEIGHTS_FORMAT, save_weights
from mdc.training.clock import RunClock
from mdc.training.device import choose_device
from mdc.training.trainer import to_device, train


def main(args: argparse.Namespace) -> dict[str, Any]:
    """Run the job, or one process's part of it; returns what ``pretrain`` does, or that another process had done it all.

    ``args``: config, shards, vocabulary, runtime, out, state (paths), wait.
    """
    config = read_json(args.config)
    try:
        runtime = Runtime.model_validate(read_json(args.runtime))
    except ValidationError as error:
        raise UserError(f"{args.runtime}: {first_problem(error)}") from None
    shards, vocabulary, out, state = (Path(p) for p in (args.shards, args.vocabulary, args.out, args.state))
    recipe = Recipe.model_validate(config["recipe"])
    torch.set_num_threads(recipe.threads)
    device = choose_device(recipe.device, local_rank())
    # the first process holds the state for all; the others meet it only after that
    first = global_rank() == 0
    with locked(state, args.wait and recipe.processes == 1) if first else nullcontext(False) as waited:
        if (waited or another_was_waited_for()) and _is_done(config, shards, vocabulary, out):
            print(f"{out}: the process that was waited for has finished this run", file=sys.stderr)
            return {"taken_over": True}
        if first:
            clear_leftovers(state)
            clear_leftovers(out)
        with process_group(recipe.processes, device) as group:
            return pretrain(config, shards, vocabulary, runtime, out, state, device, group)


def _is_done(config: dict[str, Any], shards: Path, vocabulary: Path, out: Path) -> bool:
    """Whether ``out`` holds this very run, whole: same configuration, same inputs, the checkpoint that it names."""
    try:
        run = read_json(out / "run.json")
        return bool(
            run["config"] == config
            and run["inputs"]["shards_sha256"] == sha256_file(shards)
            and run["inputs"]["vocabulary_sha256"] == Vocabulary.read(vocabulary).sha256
            and run["checkpoint"]["sha256"] == sha256_file(out / run["checkpoint"]["file"])
        )
    except (UserError, KeyError, TypeError):
        return False


def pretrain(
    config: dict[str, Any],
    shards: Path,
    vocabulary_path: Path,
    runtime: Runtime,
    out: Path,
    state: Path,
    device: torch.device,
    group: Group,
) -> dict[str, Any]:
    """Train the run that ``config`` (see mdc.jobs.run_config) describes; the first process writes its folder.

    That one returns where and how fast it ran: device, threads, images_per_second (median), seconds_before, which
    earlier processes of this run took before they were killed, and log_sha256: a log holds clocks, so run.json cannot
    name it. The others return nothing in it.
    """
    recipe = Recipe.model_validate(config["recipe"])
    method = Method.model_validate(
        {**config["method"], "label": config["method_name"], "pooling": "patch_mean"}  # pooling is the probe's choice
    )
    backbone = Backbone.model_validate({**config["backbone"], "label": config["backbone_name"]})
    protocol = ProtocolPretrain.model_validate(config["protocol"]["pretrain"])
    text = ProtocolData.model_validate(config["protocol"]["data"])
    seed = config["seed"]
    index = read_index(shards, verify="auto", kind="corpus")
    vocabulary = Vocabulary.read(vocabulary_path)
    samples = index["splits"]["train"]["samples"]
    held_out = index["splits"].get("val", {}).get("samples", 0)
    steps = recipe.epochs * (samples // recipe.batch_size)
    if steps == 0:
        raise UserError(
            f"{shards}: {samples} training samples are fewer than one batch of {recipe.batch_size}; "
            "lower recipe.batch_size or add data"
        )
    config_sha256 = sha256_json({"config": config, "shards": sha256_file(shards), "vocabulary": vocabulary.sha256})
    clock = RunClock(state, config_sha256)

    model = build_model(method, backbone, protocol, vocabulary.size, text.context_length, seed).to(device)
    duplicates = _duplicate_share(index, recipe.batch_size)
    objective = build_objective(
        model, method, protocol, vocabulary.mask_id, recipe.batch_size, recipe.precision, duplicates, group
    )
    if recipe.compile:
        model.encoder.compile()
        model.text.compile(dynamic=True)

    def batches(start: int) -> Iterator[Batch]:
        found = CaptionBatches(
            shards,
            "train",
            vocabulary,
            image_size=backbone.image_size,
            batch_size=recipe.batch_size,
            seed=seed,
            steps=steps,
            start_step=start,
            crop_scale=protocol.crop_scale,
            crop_ratio=protocol.crop_ratio,
            context_length=text.context_length,
            rank=group.rank,
            world=group.world,
            workers=runtime.workers,
        )
        return clock.over(found) if group.rank == 0 else iter(found)

    def validate() -> dict[str, float]:
        """The run's own objective on the held-out split, always with the same crops, captions and noise."""
        total, count = 0.0, 0.0
        for batch in evaluation_batches(
            shards,
            "val",
            image_size=backbone.image_size,
            batch_size=recipe.batch_size,
            # full batches only: a contrastive loss depends on the batch's size
            limit=held_out // recipe.batch_size * recipe.batch_size or None,
            vocabulary=vocabulary,
            context_length=text.context_length,
            rank=group.rank,
            world=group.world,
        ):
            part, number = objective.evaluate(to_device(batch, device))
            total, count = total + float(part), count + float(number)
        total, count = group.sum(torch.tensor([total, count], dtype=torch.float64, device=device)).tolist()
        return {"loss": total / max(count, 1.0)}

    train(
        model,
        objective,
        batches,
        steps,
        recipe,
        protocol,
        runtime,
        state,
        config_sha256,
        config["job"].removeprefix("runs/"),
        device,
        validate if held_out else None,
        group,
    )
    if group.rank > 0:
        return {}

    out.mkdir(parents=True, exist_ok=True)
    checkpoint = out / "checkpoint.safetensors"
    save_weights(checkpoint, model, {"format": WEIGHTS_FORMAT, "config_sha256": sha256_json(config)})
    _copy_log(state, out)
    log = read_json_lines(out / "log.jsonl")
    write_json(
        out / "run.json",
        {
            "kind": "run",
            "id": config["job"],
            "config": config,
            "config_sha256": sha256_json(config),
            "inputs": {"shards_sha256": sha256_file(shards), "vocabulary_sha256": vocabulary.sha256},
            "checkpoint": {
                "file": checkpoint.name,
                "bytes": checkpoint.stat().st_size,
                "sha256": sha256_file(checkpoint),
            },
            "parameters": {"all": count_parameters(model), "encoder": count_parameters(model.encoder)},
            "steps": steps,
            "samples_seen": steps * recipe.batch_size,
            "pairs": samples,
            # of all splits, by reason; the set's index names the list of them
            "skipped": index["skipped"],
            "duplicate_share": duplicates,
            "loss": next((line["loss"] for line in reversed(log) if "loss" in line), None),
            "validation_loss": next(
                (line["validation_loss"] for line in reversed(log) if "validation_loss" in line), None
            ),
            "versions": versions(),
        },
    )
    for leftover in ("state.safetensors", "state.previous.safetensors"):
        (state / leftover).unlink(missing_ok=True)
    clock.finish()
    return {
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu",
        "threads": recipe.threads,
        "images_per_second": _median([line["images_per_second"] for line in log if "images_per_second" in line]),
        "seconds_before": round(clock.before, 3),
        "log_sha256": sha256_file(out / "log.jsonl"),
    }


def _duplicate_share(index: dict[str, Any], batch: int) -> float:
    """The corpus's share of duplicate captions in the smallest batch listed that is no smaller than ours."""
    listed = {int(size): share for size, share in index["captions"]["duplicate_share"].items()}
    enough = [size for size in listed if size >= batch]
    return float(listed[min(enough) if enough else max(listed)])


def _copy_log(state: Path, out: Path) -> None:
    with atomic_path(out / "log.jsonl") as temporary:
        shutil.copyfile(state / "log.jsonl", temporary)
    shutil.rmtree(out / "tensorboard", ignore_errors=True)
    shutil.copytree(state / "tensorboard", out / "tensorboard")


def _median(values: list[float]) -> float | None:
    return sorted(values)[len(values) // 2] if values else None
