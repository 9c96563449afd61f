"""The verb ``mdc export``: a run as a folder that open_clip, timm and transformers read, or as a model folder for the Hugging
Face hub.

Weights are safetensors. A folder is built beside its place and moved there when complete.
"""

import argparse
import os
import shutil
from pathlib import Path
from typing import Any

from safetensors.torch import save_file

from mdc.app.export import open_clip_model, timm_model
from mdc.app.export.model_card import Stage, data_of, write_model_card
from mdc.app.export.results import results_of
from mdc.app.find_run import run_folder
from mdc.models.runs import WEIGHTS as RUN_WEIGHTS
from mdc.models.runs import RunModel, open_run, scale_of, weights_of
from mdc.models.weights import saving
from mdc.plan.config.kinds.backbones import FrozenEncoderBackbone
from mdc.plan.jobs.folder import ScaleFolder
from mdc.plan.jobs.model import PretrainJob
from mdc.plan.jobs.read import as_job
from mdc.plan.records import UserError, atomic_path, read_json, sha256_file, write_json

#: library → the module that makes its files, if it can run the model
FORMATS: dict[str, Any] = {"open_clip": open_clip_model, "timm": timm_model}


def main(args: argparse.Namespace) -> None:
    """``args``: run, folder, to, weights, params, scale."""
    place = Path(args.folder).resolve()
    if place.exists() and (not place.is_dir() or any(place.iterdir())):
        raise UserError(f"{place}: already exists; choose a new or an empty folder")
    if place == Path.cwd():  # which is about to be replaced
        raise UserError(f"{place}: is the current folder; choose another")
    source = run_folder(args.run, args.params, args.scale)
    weights = args.weights or weights_of(source)
    run, manifest = open_run(source, weights)
    beside = place.with_name(f".{place.name}.{os.getpid()}")
    with saving(place, "nothing was written; free some space there, or choose another folder"):
        beside.mkdir(parents=True)
        try:
            write(beside, args.to, source, run, manifest, weights)
            if place.is_dir():
                place.rmdir()
            beside.rename(place)
        finally:
            shutil.rmtree(beside, ignore_errors=True)
    usage = (
        "README.md says how it is loaded" if args.to == "hub" else f"open_clip and timm load it by 'local-dir:{place}'"
    )
    print(f"{place}: {manifest['id']}; {usage}")


def write(folder: Path, to: str, source: Path, run: RunModel, manifest: dict[str, Any], weights: str) -> None:
    """Fill an empty ``folder`` with a run, whose own folder is ``source``."""
    if isinstance(run.job.backbone, FrozenEncoderBackbone):
        raise UserError(
            f"{run.job.job}: uses the frozen encoder {run.job.backbone.frozen.job} and has none of its own to export; "
            "allowed: runs that train their encoder"
        )
    pieces = run.vocabulary.pieces
    metadata: dict[str, Any] = {
        "run": manifest["id"],
        "scale": run.job.scale,
        "weights": weights,
        "config_sha256": manifest["config_sha256"],
        "checkpoint_sha256": sha256_file(run.checkpoint),
        "pieces": None if pieces is None else list(pieces),
    }
    missing = {name: reason for name, module in FORMATS.items() if (reason := module.cannot(run.job))}
    if to == "hub":
        metadata["folder"] = f"mdc/{manifest['id']}"
        _whole_run(folder / "mdc", source, run, manifest)
        scale = scale_of(source, manifest)
        exported = manifest["outputs"].get(run.checkpoint.name)
        same = {name for name, file in RUN_WEIGHTS.items() if manifest["outputs"].get(file) == exported}
        results = results_of(scale, str(manifest["id"]).removeprefix("runs/"), same)
        stages = _stages(ScaleFolder(scale), manifest, run.job)
        write_model_card(folder / "README.md", stages, metadata, missing, results, run.job.scale)
        for table, reason in results.left_out:
            print(f"{table}: left out of the card, since {reason}")
    elif "open_clip" in missing:
        raise UserError(f"{run.job.job}: {missing['open_clip']}; allowed: --to hub, for mdc.load")
    for name, module in FORMATS.items():
        if name in missing:
            print(f"{name}: cannot load it, since {missing[name]}; mdc.load can")
            continue
        config, tensors = module.parts(run, metadata)
        # atomic_path sets usual permissions; safetensors' are for the owner alone
        with atomic_path(folder / module.WEIGHTS) as temporary:
            save_file(tensors, str(temporary), metadata=module.metadata(manifest["id"]))
        write_json(folder / module.CONFIG, config)


def _stages(scale: ScaleFolder, manifest: dict[str, Any], job: PretrainJob) -> list[Stage]:
    """All trainings of a run, from the first on."""
    index = read_json(scale.manifest(f"data/corpora/{job.corpus}", "corpus"))
    before: list[Stage] = []
    if job.start is not None:
        path = scale.manifest(job.start.run, "pretrain")
        first = read_json(path)
        before = _stages(scale, first, as_job(first.get("config", {}), "pretrain", str(path)))
    return [*before, Stage(manifest, job, data_of(index))]


def _whole_run(folder: Path, source: Path, run: RunModel, manifest: dict[str, Any]) -> None:
    """The run with its BPE tokens, laid out as in a scale's folder, so that the verbs which use a run (caption, score,
    features, demo) take it."""
    place = folder / manifest["id"]
    place.mkdir(parents=True)
    for name in ("run.json", *{file for file in RUN_WEIGHTS.values() if file in manifest["outputs"]}):
        shutil.copyfile(source / name, place / name)
    write_json(folder / f"data/vocabularies/{run.job.vocabulary}/vocabulary.json", run.vocabulary.to_json())
