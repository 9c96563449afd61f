"""Where a scale's jobs keep their things: everything lies under ``results/<scale>/``, a folder a job."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from mdc.plan.verbs import VERBS

#: file beside a record that says where and how long its job ran
HOST = "host.json"


@dataclass(frozen=True)
class ScaleFolder:
    """``root`` is ``results/<scale>``. All methods name files, whether they are there or not."""

    root: Path

    def job(self, job: str) -> Path:
        """The folder that a job fills."""
        return self.root / job

    def record(self, job: str, verb: str) -> Path:
        """The file that says what was asked, from what it was made, and what it left."""
        return self.job(job) / VERBS[verb].record.format(job=job)

    def manifest(self, job: str, verb: str) -> Path:
        """The file that later jobs read and name by sha256."""
        return self.job(job) / VERBS[verb].manifest.format(job=job)

    def host(self, job: str) -> Path:
        return self.job(job) / HOST

    def config(self, job: str, sha256: str = "") -> Path:
        """The configuration of a job. The workflow's files are named by their hash, so that none is ever rewritten; without one,
        the file that a person may write by hand."""
        return self.root / "configs" / (f"{job}.{sha256[:16]}.json" if sha256 else f"{job}.json")

    def log(self, job: str) -> Path:
        """Where the workflow sends a job's messages."""
        return self.root / "logs" / f"{job}.log"
