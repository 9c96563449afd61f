"""The folders of a scale's jobs, their current configurations, and the commands that repair them."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from mdc.plan.jobs.folder import ScaleFolder
from mdc.plan.jobs.job import Job
from mdc.plan.jobs.plan import Plan
from mdc.plan.jobs.shown import ArtefactJob
from mdc.plan.outputs import RESULTS, rerun, snakemake
from mdc.plan.records import UserError, read_json, sha256_file

NOT_OURS = (KeyError, TypeError, AttributeError, IndexError, ValueError)


class Broken(UserError):
    """A link in the chain of records behind a number is broken."""

    exit_code = 3


def read(path: Path) -> dict[str, Any]:
    """A record; empty if there is none that can be read."""
    try:
        return read_json(path)
    except UserError:
        return {}


def format_problem(error: Exception) -> str:
    """What is wrong with a file in another version's format, from the error (of ``NOT_OURS``) that reading it raised."""
    return f"lacks {error}" if isinstance(error, KeyError) else str(error)


@dataclass(frozen=True)
class Place:
    """``plan``: the jobs of the scale. ``elsewhere``: the scale is not the one that params.yaml names."""

    plan: Plan
    elsewhere: bool = False
    results: Path = RESULTS

    @property
    def scale(self) -> str:
        return self.plan.params.scale

    @property
    def folder(self) -> ScaleFolder:
        return ScaleFolder(self.results / self.scale)

    @property
    def jobs(self) -> dict[str, Job]:
        """The jobs as the scale and the code define them now, by name."""
        return self.plan.jobs

    @cached_property
    def shown(self) -> dict[str, ArtefactJob]:
        """The tables and figures among ``jobs``."""
        return {name: job for name, job in self.jobs.items() if isinstance(job, ArtefactJob)}

    def record(self, job: str) -> Path:
        return self.folder.record(job, self.jobs[job].verb)

    def manifest(self, job: str) -> Path:
        return self.folder.manifest(job, self.jobs[job].verb)

    def host(self, job: str) -> dict[str, Any]:
        """The host file of a job; empty if it belongs to another manifest than the present one."""
        host, manifest = read(self.folder.host(job)), self.manifest(job)
        return host if manifest.is_file() and host.get("manifest_sha256") == sha256_file(manifest) else {}

    def target(self, job: str) -> Path:
        """The workflow target that brings a job up to date: a table's copy, or the job's own manifest."""
        requested = self.jobs[job]
        return RESULTS / requested.files[0] if isinstance(requested, ArtefactJob) else self.manifest(job)

    def snakemake(self, job: str) -> str:
        """The command that brings a job and its inputs up to date."""
        return snakemake(self.target(job), self._named)

    def copy_again(self, artefact: str) -> str:
        """The command that copies a table's or figure's files to ``results/`` once more."""
        return f"{self.snakemake(artefact)} --forcerun {artefact}"

    def again(self, wanted: str, damaged: str) -> str:
        """The command that reruns a damaged job, then its dependents up to ``wanted`` if the result differs.

        Two calls, because one would also rerun the dependents of an equal file; a table or figure has none.
        """
        call = rerun(self.folder.root, damaged, self._named)
        done = damaged in self.shown or self.target(wanted) == self.manifest(damaged)
        return call if done else f"{call} && {self.snakemake(wanted)}"

    def mend(self, wanted: str, job: str) -> str:
        """The command for a manifest whose hash is not the one that a dependent's record names.

        If its host file names this hash, the job was rerun since and its dependents are stale; otherwise the file was changed.
        """
        return self.snakemake(wanted) if self.host(job) else self.again(wanted, job)

    @property
    def _named(self) -> str | None:
        """The scale, if a call must name it."""
        return self.scale if self.elsewhere else None
