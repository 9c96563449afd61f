"""The job ``mdc pretrain``: one run, from its resolved configuration to ``run.json``.

Writes into the run's folder: ``checkpoint.safetensors`` (final weights), ``log.jsonl`` and ``tensorboard/`` (how it
went), ``host.json`` (where and how fast; differs from machine to machine) and last ``run.json``, the manifest that
names the checkpoint by hash. Everything in run.json is the same for the same inputs, seed and machine.
"""

from __future__ import annotations

import argparse
import platform
import shutil
import time
from pathlib import Path
from typing import Any

import torch
from pydantic import ValidationError

from mdc.config import Backbone, Method, ProtocolData, ProtocolPretrain, Recipe, Runtime, first_problem
from mdc.data.loader import CaptionBatches, evaluation_batches
from mdc.data.shards import read_index
from mdc.models.build import build_model
from mdc.models.initial import count_parameters
from mdc.objectives.objective import build_objective
from mdc.records import UserError, read_json, read_json_lines, sha256_file, sha256_json, versions, write_json
from mdc.text import Vocabulary
from mdc.training.checkpoint import WEIGHTS_FORMAT, locked, save_weights
from mdc.training.device import choose_device
from mdc.training.trainer import to_device, train


def main(args: argparse.Namespace) -> None:
    """Run the job. ``args``: config, shards, vocabulary, runtime, out, state (paths)."""
    config = read_json(args.config)
    try:
        runtime = Runtime.model_validate(read_json(args.runtime))
    except ValidationError as error:
        raise UserError(f"{args.runtime}: {first_problem(error)}") from None
    with locked(Path(args.state)):
        pretrain(config, Path(args.shards), Path(args.vocabulary), runtime, Path(args.out), Path(args.state))


def pretrain(
    config: dict[str, Any], shards: Path, vocabulary_path: Path, runtime: Runtime, out: Path, state: Path
) -> None:
    """Train the run that ``config`` (see mdc.jobs.run_config) describes and write its folder."""
    recipe = Recipe.model_validate(config["recipe"])
    method = Method.model_validate(
        {**config["method"], "label": config["method_name"], "pooling": "patch_mean"}  # pooling is the probe's choice
    )
    backbone = Backbone.model_validate({**config["backbone"], "label": config["backbone_name"]})
    protocol = ProtocolPretrain.model_validate(config["protocol"]["pretrain"])
    text = ProtocolData.model_validate(config["protocol"]["data"])
    seed = config["seed"]
    torch.set_num_threads(recipe.threads)
    device = choose_device(recipe.device)
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

    model = build_model(method, backbone, protocol, vocabulary.size, text.context_length, seed).to(device)
    duplicates = _duplicate_share(index, recipe.batch_size)
    objective = build_objective(
        model, method, protocol, vocabulary.mask_id, recipe.batch_size, recipe.precision, duplicates
    )
    if recipe.compile:
        model.encoder.compile()
        model.text.compile(dynamic=True)

    def batches(start: int) -> CaptionBatches:
        return CaptionBatches(
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
            workers=runtime.workers,
        )

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
        ):
            part, number = objective.evaluate(to_device(batch, device))
            total, count = total + float(part), count + float(number)
        return {"loss": total / max(count, 1.0)}

    began = time.perf_counter()
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
    )
    seconds = time.perf_counter() - began

    out.mkdir(parents=True, exist_ok=True)
    checkpoint = out / "checkpoint.safetensors"
    save_weights(checkpoint, model, {"format": WEIGHTS_FORMAT, "config_sha256": sha256_json(config)})
    _copy_log(state, out)
    log = read_json_lines(out / "log.jsonl")
    write_json(
        out / "host.json",
        {
            "machine": platform.machine(),
            "processor": _processor(),
            "device": torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu",
            "threads": recipe.threads,
            "seconds_of_this_process": round(seconds, 3),
            "images_per_second": _median([line["images_per_second"] for line in log if "images_per_second" in line]),
        },
    )
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


def _duplicate_share(index: dict[str, Any], batch: int) -> float:
    """The corpus's share of duplicate captions in the smallest batch listed that is no smaller than ours."""
    listed = {int(size): share for size, share in index["captions"]["duplicate_share"].items()}
    enough = [size for size in listed if size >= batch]
    return float(listed[min(enough) if enough else max(listed)])


def _copy_log(state: Path, out: Path) -> None:
    temporary = out / "log.jsonl.tmp"
    shutil.copyfile(state / "log.jsonl", temporary)
    temporary.replace(out / "log.jsonl")
    shutil.rmtree(out / "tensorboard", ignore_errors=True)
    shutil.copytree(state / "tensorboard", out / "tensorboard")


def _median(values: list[float]) -> float | None:
    return sorted(values)[len(values) // 2] if values else None


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown")
