"""Captions by open_clip's CoCa, which runs in an environment of its own (:mod:`mdc.evaluation.others.coca`)."""

import json
import os
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mdc.data.formats.images import as_shown
from mdc.evaluation.captioned import Captioned
from mdc.evaluation.others import coca as script
from mdc.plan.data_folder import data_folder, weights_files, weights_path
from mdc.plan.jobs.call import Call
from mdc.plan.jobs.model import CaptionsJob, CocaModel
from mdc.plan.records import UserError, sha256_file, sha256_json
from mdc.training.device import choose_device

#: the environment's folder, unless MDC_COCA names another
FOLDER = ".coca"
#: columns that captions by other models lack
NOTHING: Mapping[str, Any] = {
    **{"clip_ids": None, "pieces": [], "step": [], "confidence": []},
    **{"log_prob": None, "calls": None},
}


def of_coca(call: Call, model: CocaModel, images: Captioned) -> list[dict[str, Any]]:
    """A caption of each image; finished ones are kept in ``call.cache``, so a killed job resumes.

    UserError if the environment is missing, if the model cannot be loaded in it, or if captions are missing.
    """
    job: CaptionsJob = call.job
    python = Path(os.environ.get("MDC_COCA", FOLDER)) / "bin/python"
    if not python.is_file():
        raise UserError(
            f"{python}: no such Python; `make .coca/.ready` makes the environment in which CoCa writes captions"
        )
    device = choose_device(job.captioning.device)
    files = weights_files(model.model, model.weights, data_folder())
    identity = {"model": model.model_dump(mode="json"), "shards": images.shards, "code": job.fingerprint}
    identity |= {"files": {file.name: sha256_file(file) for file in files}} if files else {}
    call.cache.mkdir(parents=True, exist_ok=True)
    out = call.cache / f"coca-{sha256_json(identity)}.jsonl"
    with tempfile.TemporaryDirectory(prefix="mdc-coca-") as folder:
        listed = Path(folder) / "images.json"
        listed.write_text(json.dumps(_files(images, Path(folder))))
        weights = weights_path(model.weights, data_folder())
        words = ["--model", model.model, *(["--weights", weights] if weights is not None else [])]
        words += [
            "--beams",
            str(model.num_beams),
            "--seq-len",
            str(model.max_tokens),
            "--threads",
            str(job.captioning.threads),
        ]
        command = [str(python), str(script.__file__), str(listed), str(out), *words, "--device", device.type]
        done = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        message = done.stderr.strip().splitlines()[-1:] or [f"ended with {done.returncode}"]
        raise UserError(f"{job.job}: {message[0]}")
    captions = _read(out)
    missing = [key for key in images.keys if key not in captions]
    if missing:
        raise UserError(
            f"{out}: lacks captions of {len(missing)} images, {missing[0]} for one; delete it and try again"
        )
    return [{"system": model.system, "image": key, "caption": captions[key], **NOTHING} for key in images.keys]


def _files(images: Captioned, folder: Path) -> dict[str, str]:
    """The images as all systems see them, in files under numbers: a name may hold anything."""
    paths = {}
    for number, key in enumerate(images.keys):
        path = folder / f"{number:06d}"
        path.write_bytes(as_shown(images.reader.read(number)[1])[0])
        paths[key] = str(path)
    return paths


def _read(path: Path) -> dict[str, str]:
    try:
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        return {str(line["image_id"]): str(line["caption"]) for line in lines}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(f"{path}: no captions can be read from it ({error}); delete it and try again") from None
