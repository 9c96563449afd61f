"""Captions as their jobs wrote them, read back by what is made from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mdc.evaluation.captioned import Captioned
from mdc.plan.jobs.call import Call
from mdc.plan.records import UserError, read_json, sha256_file


@dataclass(frozen=True)
class SystemCaptions:
    """One system's captions {image: caption}, their tokens in CLIP's numbers and how often a model was called for each (None if
    no run of ours wrote them, or one of before it was counted), and the facts about the run that their record has."""

    captions: dict[str, str]
    clip_ids: dict[str, list[int] | None]
    calls: dict[str, int | None]
    told: dict[str, Any]


def written(call: Call, jobs: Mapping[str, str], images: Captioned) -> dict[str, SystemCaptions]:
    """All systems of ``jobs`` {job: hash of its configuration}; UserError if one is stale or not of these ``images``."""
    found: dict[str, SystemCaptions] = {}
    for name, expected in jobs.items():
        found |= _of_record(call.input(name), expected, call.job.job, images)
    return found


def recorded(path: Path, name: str, expected: str | None, asked_by: str, again: str) -> tuple[Path, dict[str, Any]]:
    """The file ``name`` beside the record ``path``, and the record; UserError if it is stale, or not the one that it names."""
    record = read_json(path)
    if record.get("config_sha256") != expected:
        raise UserError(f"{path}: made with another configuration than {asked_by} expects; {again} again")
    file = path.parent / name
    if sha256_file(file) != record["outputs"].get(name):
        raise UserError(f"{file}: not the file that {path} names (its sha256 differs); {again} again")
    return file, record


def _of_record(path: Path, expected: str, asked_by: str, images: Captioned) -> dict[str, SystemCaptions]:
    import pyarrow
    import pyarrow.parquet as parquet

    file, record = recorded(path, "captions.parquet", expected, asked_by, "caption")
    try:
        columns = ["system", "image", "caption", "clip_ids", "calls"]  # older files lack the last, and are read without
        rows = parquet.ParquetFile(file).read(columns=columns).to_pylist()
    except (OSError, pyarrow.ArrowException) as error:
        raise UserError(f"{file}: no captions can be read from it ({str(error)[:200]}); caption again") from None
    told = {key: record[key] for key in ("training", "weights_step", "parameters", "held_out")}
    found: dict[str, SystemCaptions] = {}
    for row in rows:
        one, image = found.setdefault(row["system"], SystemCaptions({}, {}, {}, told)), row["image"]
        one.captions[image], one.clip_ids[image], one.calls[image] = row["caption"], row["clip_ids"], row.get("calls")
    for name, some in found.items():
        if list(some.captions) != images.keys:
            raise UserError(f"{file}: the images of {name} are not those that {asked_by} is of; caption again")
    return found
