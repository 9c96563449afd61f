"""The paths of a scale's jobs: everything is under ``results/<scale>/``, one folder per job."""

from dataclasses import dataclass
from pathlib import Path

from mdc.plan.verbs import VERBS

#: the file beside a record with the machine and the run time of its job
HOST = "host.json"


@dataclass(frozen=True)
class ScaleFolder:
    """``root`` is ``results/<scale>``. All methods return paths, whether the files exist or not."""

    root: Path

    def job(self, job: str) -> Path:
        """The folder of a job's files."""
        return self.root / job

    def record(self, job: str, verb: str) -> Path:
        """The file with the job's configuration, inputs and outputs."""
        return self.job(job) / VERBS[verb].record.format(job=job)

    def manifest(self, job: str, verb: str) -> Path:
        """The file that later jobs read and name by sha256."""
        return self.job(job) / VERBS[verb].manifest.format(job=job)

    def host(self, job: str) -> Path:
        return self.job(job) / HOST

    def config(self, job: str, sha256: str = "") -> Path:
        """The configuration of a job. The workflow's files have a hash in their name, so that none is ever rewritten; without it,
        the file that a person may write by hand."""
        return self.root / "configs" / (f"{job}.{sha256[:16]}.json" if sha256 else f"{job}.json")

    def log(self, job: str) -> Path:
        """The workflow's log file of a job."""
        return self.root / "logs" / f"{job}.log"
