"""Files that a record names by hash: checked before they are read or published, with the call that makes a damaged one again."""

import os
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mdc.plan.jobs.folder import ScaleFolder
from mdc.plan.records import UserError, atomic_path, read_json, sha256_file
from mdc.plan.verbs import verb_of

RESULTS = Path("results")


def snakemake(target: str | Path, scale: str | None = None) -> str:
    """The call that brings ``target`` up to date. ``scale``: if it is not the one that params.yaml names."""
    return f"snakemake {shlex.quote(str(target))} --cores all{f' --config scale={scale}' if scale else ''}"


def rerun(root: Path, job: str, scale: str | None = None) -> str:
    """The call that does a job of the scale's folder ``root`` once more; Snakemake trusts files that exist, hence --forcerun."""
    verb = verb_of(job)
    if verb == "make":
        return f"{snakemake(job, scale)} --forcerun make_{job}"
    manifest = ScaleFolder(root).manifest(job, verb)
    return f"{snakemake(manifest, scale)} --forcerun {shlex.quote(str(manifest))}"


def again(file: Path) -> str:
    """``to mend: snakemake …``, or ``rebuild it`` for a file that is not below ``results/SCALE/``."""
    place = Path(os.path.relpath(file.parent))
    if len(place.parts) < 3 or place.parts[0] != str(RESULTS):
        return "rebuild it"
    scale = place.parts[1]
    return f"to mend: {rerun(RESULTS / scale, '/'.join(place.parts[2:]), None if scale == _chosen() else scale)}"


def _chosen() -> str | None:
    """The scale that params.yaml names."""
    from mdc.plan.config.yaml_core import read_yaml  # only a message needs it

    try:
        return read_yaml("params.yaml").get("scale")
    except UserError:
        return None


def checked(file: Path, sha256: str | None, record: Path, sha256_of: Callable[[Path], str] = sha256_file) -> Path:
    """``file``, which ``record`` in its job's folder names by its ``sha256``. UserError if it is missing or another."""
    if not file.is_file():
        raise UserError(f"{file}: no such file, though {record} names it; {again(record)}")
    if sha256_of(file) != sha256:
        raise UserError(f"{file}: not the file that {record} names (its sha256 differs); {again(record)}")
    return file


def current(path: Path, expected: str | None, job: str) -> dict[str, Any]:
    """The record ``path``; UserError if its configuration has another hash than ``job`` expects."""
    record = read_json(path)
    if record.get("config_sha256") != expected:
        raise UserError(f"{path}: made with another configuration than {job} needs; {again(path)}")
    return record


def recorded(path: Path, name: str, expected: str | None, job: str) -> tuple[Path, dict[str, Any]]:
    """The file ``name`` beside the record ``path``, and the record; UserError if one is stale, or the file is not the one of the
    record."""
    record = current(path, expected, job)
    return checked(path.parent / name, record["outputs"].get(name), path), record


def check_outputs(record: Path, every: bool = False) -> None:
    """UserError at a file that was changed after ``record``, which names it. Only files that are newer than the record are
    hashed, or ``every`` one; missing ones are skipped."""
    made = record.stat().st_mtime
    for name, sha256 in read_json(record)["outputs"].items():
        file = record.with_name(name)
        if file.is_file() and (every or file.stat().st_mtime > made):
            checked(file, sha256, record)


def published(record: Path) -> bool:
    """Whether ``results/`` has the files that a table's or figure's record names, and the record."""
    files = {**read_json(record)["outputs"], record.name: sha256_file(record)}
    return all((RESULTS / name).is_file() and sha256_file(RESULTS / name) == sha256 for name, sha256 in files.items())


def publish(record: Path) -> None:
    """Copy a table's or figure's record and files to ``results/``. UserError, before any is copied, if one is not the file that
    the record names."""
    files = [checked(record.with_name(name), sha256, record) for name, sha256 in read_json(record)["outputs"].items()]
    for file in (*files, record):
        with atomic_path(RESULTS / file.name) as temporary:
            shutil.copyfile(file, temporary)
