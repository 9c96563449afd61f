"""One call of a verb: its job, the manifests that it reads, the folder that it writes."""

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
    """The argument of a verb's ``main``.

    ``folder``: the scale's, with the inputs. ``out``: the folder of the job's files. ``runtime``, ``state``, ``cache``, ``wait``
    and ``profile`` (a number of steps): for the verbs whose options name them. ``arguments``: the command line, for the processes
    that a training starts.
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
        """The manifest of one of the job's inputs. UserError if it is missing, or if the job has no such input."""
        if job not in self.job.inputs:
            raise UserError(
                f"{self.job.job}: its inputs do not name {job}; `mdc config JOB` prints a good configuration"
            )
        path = self.folder.manifest(job, verb_of(job))
        if not path.is_file():
            raise UserError(f"{path}: no such file; {self.job.job} is made from it")
        return path

    @cached_property
    def manifests(self) -> Mapping[str, Path]:
        """The manifests of all inputs, by job."""
        return {job: self.input(job) for job in self.job.inputs}

    def inputs(self) -> dict[str, str]:
        """The inputs for a record: job → sha256 of its manifest."""
        return {job: sha256_file(path) for job, path in self.manifests.items()}


def record(
    call: Call,
    kind: str,
    outputs: Iterable[Path],
    packages: Mapping[str, str] | None = None,
    **more: Any,
) -> dict[str, Any]:
    """The keys of every record: ``config``, ``inputs`` {job: sha256}, ``outputs`` {file: sha256} and ``versions``.

    ``outputs``: files in the job's folder. ``packages``: versions of further packages that this job used. Equal inputs and
    outputs give equal bytes.
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
    """Write the record of a data set beside its manifest, not in it, so that a rerun that writes an equal set reruns no
    dependent."""
    path = call.folder.record(call.job.job, call.job.verb)
    write_json(call.out / path.name, record(call, "made", outputs, packages))
