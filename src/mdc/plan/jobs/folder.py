"""The paths of a scale's jobs: everything is under ``results/<scale>/``, one folder per job.

Because of the hash in a configuration's name, a start of Snakemake only adds files, so a dry run with edited values does not
affect a running workflow. A configuration's time decides whether its job must run: it is older than the job's record if that has
this very configuration, newer otherwise. So switching to other values and back works with and without Snakemake's own metadata.
"""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from mdc.plan.jobs.job import Job
from mdc.plan.records import json_text, write_text_if_changed
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


_OLD = 86400.0  # a time before every file of ours; some tools take 0 for no time


def write_configs(folder: ScaleFolder, jobs: Iterable[Job]) -> dict[str, Path]:
    """Write missing files, set their times, and return the file of each job. OSError if a file cannot be written."""
    return {job.job: _write(folder, job) for job in jobs}


def _write(folder: ScaleFolder, job: Job) -> Path:
    path, record = folder.config(job.job, job.sha256), folder.record(job.job, job.verb)
    if not path.exists():
        write_text_if_changed(path, json_text(job.config()))
    try:
        done, made = job.sha256.encode() in record.read_bytes(), record.stat().st_mtime
    except OSError:  # the job has yet to run
        return path
    now = path.stat().st_mtime
    if done and now >= made:
        os.utime(path, (_OLD, _OLD))
    elif not done and now <= made:
        os.utime(path)
    return path


def delete_others(folder: ScaleFolder, kept: Iterable[Path]) -> None:
    """Delete all configurations with a hash in their names but ``kept``; those without one a person may have written. Only while
    no other workflow runs, which may still read them."""
    chosen = set(kept)
    for path in (folder.root / "configs").rglob(f"*.{'[0-9a-f]' * 16}.json"):
        if path not in chosen:
            path.unlink(missing_ok=True)
