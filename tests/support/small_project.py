"""The golden case with more seeds: every table and figure made by the real jobs in this process, and its copies."""

from __future__ import annotations

import copy
import os
import shutil
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from mdc import golden
from mdc.artefacts import ARTEFACTS
from mdc.config import read_yaml, validate
from mdc.golden import SCALE as SCALE
from mdc.jobs.folder import ScaleFolder
from mdc.jobs.plan import Plan
from mdc.records import write_text

ROOT = Path(__file__).resolve().parents[2]


@cache
def _params() -> dict[str, Any]:
    return read_yaml(ROOT / "params.yaml")


def values(seeds: tuple[int, ...] = (0,)) -> dict[str, Any]:
    """The project's params.yaml with the golden scale as its only one."""
    return golden.params(copy.deepcopy(_params()), seeds)


def write_params(folder: Path, found: dict[str, Any]) -> None:
    write_text(folder / "params.yaml", yaml.safe_dump(found, sort_keys=False))  # a new file: it may be a hard link


def plan(seeds: tuple[int, ...] = (0,)) -> Plan:
    return Plan(validate(values(seeds)))


def make(folder: Path, seeds: tuple[int, ...] = (0,)) -> None:
    """Every job, called with relative paths in ``folder``, as the workflow does; then the copies."""
    write_params(folder, values(seeds))
    before = Path.cwd()
    os.chdir(folder)
    try:
        golden.make(plan(seeds), Path())
        publish(Path("results") / SCALE)
    finally:
        os.chdir(before)


def config(r: Path, job: str) -> Path:
    """The file with a job's configuration, below the scale's folder ``r``."""
    return ScaleFolder(r).config(job)


def publish(r: Path) -> None:
    """The copies at ``results/``, as the workflow's rules make them."""
    for name, artefact in ARTEFACTS.items():
        record = ScaleFolder(r).record(name, "make")
        for file in (record.name, *artefact.files) if record.is_file() else ():
            (r.parent / file).unlink(missing_ok=True)  # it may be a hard link
            shutil.copy(record.parent / file, r.parent / file)
