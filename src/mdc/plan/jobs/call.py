"""One call of a verb: its job, the manifests that it reads, the folder that it fills."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from mdc.plan.jobs.folder import ScaleFolder
from mdc.plan.jobs.job import Job
from mdc.plan.records import UserError, sha256_file, sha256_json, versions, write_json
from mdc.plan.verbs import verb_of


@dataclass(frozen=True)
class Call:
    """What a verb's ``main`` is given.

    ``folder``: the scale's, in which the inputs lie. ``out``: where the job's files go. ``runtime``, ``state``, ``cache``,
    ``wait`` and ``profile`` (a number of steps) are there for the verbs whose options name them. ``arguments``: the command
    line, for the processes that a training starts.
    """

    job: Any
    folder: ScaleFolder
    out: Path
    runtime: Path | None = None
    state: Path = Path()
    cache: Path = Path()
    wait: bool = False
    profile: int | None = None
    arguments: tuple[str, ...] = ()

    def input(self, job: str) -> Path:
        """The manifest of one of the job's inputs. UserError if it is not there, or if the job names no such input."""
        if job not in self.job.inputs:
            raise UserError(
                f"{self.job.job}: its inputs do not name {job}; `mdc config JOB` prints a good configuration"
            )
        path = self.folder.manifest(job, verb_of(job))
        if not path.is_file():
            raise UserError(f"{path}: no such file; {self.job.job} is made from it")
        return path

    @cached_property
    def given(self) -> Mapping[str, Path]:
        """All inputs by their jobs."""
        return {job: self.input(job) for job in self.job.inputs}

    def inputs(self) -> dict[str, str]:
        """The inputs as a record names them: job → sha256 of its manifest."""
        return {job: sha256_file(path) for job, path in self.given.items()}


def record(
    call: Call,
    kind: str,
    outputs: Iterable[Path],
    packages: Mapping[str, str] | None = None,
    **more: Any,
) -> dict[str, Any]:
    """What every record says: ``config``, ``inputs`` {job: sha256} and ``outputs`` {file: sha256}.

    ``outputs`` are files in the job's folder; ``packages``: versions of those that this job used besides. Equal files made
    from equal inputs give equal bytes.
    """
    job: Job = call.job
    config = job.config()
    return {
        "kind": kind,
        "id": job.job,
        "config": config,
        "config_sha256": sha256_json(config),
        "inputs": call.inputs(),
        "outputs": {path.name: sha256_file(path) for path in outputs},
        "versions": {**versions(), **(packages or {})},
        **more,
    }


def write_made(call: Call, outputs: Iterable[Path], packages: Mapping[str, str] | None = None) -> None:
    """Write the record of a data set beside its manifest.

    Beside it, not in it: code that writes an equal set anew makes nothing anew that rests on it.
    """
    path = call.folder.record(call.job.job, call.job.verb)
    write_json(call.out / path.name, record(call, "made", outputs, packages))
