"""Where a scale's jobs keep their things, what is asked of each now, and the commands that mend them."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from mdc.plan.jobs.folder import ScaleFolder
from mdc.plan.jobs.job import Job
from mdc.plan.jobs.plan import Plan
from mdc.plan.jobs.shown import ArtefactJob
from mdc.plan.records import UserError, read_json, sha256_file

RESULTS = Path("results")


NOT_OURS = (KeyError, TypeError, AttributeError, IndexError, ValueError)


class Broken(UserError):
    """A link in the chain behind a number does not hold."""

    exit_code = 3


def read(path: Path) -> dict[str, Any]:
    """A record, or nothing where there is none that can be read."""
    try:
        return read_json(path)
    except UserError:
        return {}


def otherwise_written(error: Exception) -> str:
    """What is wrong with a file that is not as this version writes it, by the error (of ``NOT_OURS``) that reading it raised."""
    return f"lacks {error}" if isinstance(error, KeyError) else str(error)


@dataclass(frozen=True)
class Place:
    """``plan``: the jobs of the scale looked at. ``elsewhere``: it is another one than params.yaml names by itself."""

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
        """What the scale and the code now ask for, by job."""
        return self.plan.jobs

    @cached_property
    def shown(self) -> dict[str, ArtefactJob]:
        """Of these, the tables and figures."""
        return {name: job for name, job in self.jobs.items() if isinstance(job, ArtefactJob)}

    def record(self, job: str) -> Path:
        return self.folder.record(job, self.jobs[job].verb)

    def manifest(self, job: str) -> Path:
        return self.folder.manifest(job, self.jobs[job].verb)

    def host(self, job: str) -> dict[str, Any]:
        """The host file of a job, if it is about the very manifest that is there; otherwise nothing."""
        host, manifest = read(self.folder.host(job)), self.manifest(job)
        return host if manifest.is_file() and host.get("manifest_sha256") == sha256_file(manifest) else {}

    def target(self, job: str) -> Path:
        """What to ask the workflow for so that a job is up to date: a table's copy, or the job's own manifest."""
        asked = self.jobs[job]
        return RESULTS / asked.files[0] if isinstance(asked, ArtefactJob) else self.manifest(job)

    def snakemake(self, job: str) -> str:
        """The command that brings a job, and what it is made from, up to date."""
        return self._call(self.target(job))

    def copy_again(self, artefact: str) -> str:
        """The command that copies a table's or figure's files to ``results/`` once more."""
        return f"{self.snakemake(artefact)} --forcerun {artefact}"

    def again(self, wanted: str, damaged: str) -> str:
        """The command that does a damaged job anew, then what rests on it up to ``wanted`` if it came out differently.

        Snakemake takes what is there for what it made, and makes nothing that is missing between two good ends: so it
        is told to. In two calls, because in one it would also make anew all that rests on an equal file.
        """
        path = self.manifest(damaged)
        anew = f"{self._call(path)} --forcerun {shlex.quote(str(path))}"
        return anew if self.target(wanted) == path else f"{anew} && {self.snakemake(wanted)}"

    def mend(self, wanted: str, job: str) -> str:
        """The command for a manifest that is not the one named above it.

        Where its host file says that its job wrote it so, it was made since, and what rests on it is stale; otherwise
        it was changed.
        """
        return self.snakemake(wanted) if self.host(job) else self.again(wanted, job)

    def _call(self, target: Path) -> str:
        scale = f" --config scale={self.scale}" if self.elsewhere else ""
        return f"snakemake {shlex.quote(str(target))} --cores all{scale}"
