"""Captions read back from the files of their jobs."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mdc.evaluation.captioned import Captioned
from mdc.plan.jobs.call import Call
from mdc.plan.outputs import recorded
from mdc.plan.records import UserError


@dataclass(frozen=True)
class SystemCaptions:
    """One system's captions {image: caption}, their tokens in CLIP's numbering and model calls per caption (None if no run of
    ours decoded them, or in older files), and ``metadata`` of the run from their record."""

    captions: dict[str, str]
    clip_ids: dict[str, list[int] | None]
    calls: dict[str, int | None]
    metadata: dict[str, Any]


def read_systems(call: Call, jobs: Mapping[str, str], images: Captioned) -> dict[str, SystemCaptions]:
    """All systems of ``jobs`` {job: hash of its configuration}; UserError if one is stale or not of these ``images``."""
    systems: dict[str, SystemCaptions] = {}
    for name, expected in jobs.items():
        systems |= _of_record(call.input(name), expected, call.job.job, images)
    return systems


def _of_record(path: Path, expected: str, job: str, images: Captioned) -> dict[str, SystemCaptions]:
    import pyarrow
    import pyarrow.parquet as parquet

    file, record = recorded(path, "captions.parquet", expected, job)
    try:
        columns = ["system", "image", "caption", "clip_ids", "calls"]  # older files lack the last, and are read without
        rows = parquet.ParquetFile(file).read(columns=columns).to_pylist()
    except (OSError, pyarrow.ArrowException) as error:
        raise UserError(f"{file}: no captions can be read from it ({str(error)[:200]}); caption again") from None
    training = {key: record[key] for key in ("training", "weights_step", "parameters", "held_out")}
    systems: dict[str, SystemCaptions] = {}
    for row in rows:
        system, image = systems.setdefault(row["system"], SystemCaptions({}, {}, {}, training)), row["image"]
        system.captions[image], system.clip_ids[image], system.calls[image] = (
            row["caption"],
            row["clip_ids"],
            row.get("calls"),
        )
    for name, captions in systems.items():
        if list(captions.captions) != images.keys:
            raise UserError(f"{file}: the images of {name} are not those that {job} is of; caption again")
    return systems
