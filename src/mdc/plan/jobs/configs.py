"""The configurations that the workflow hands to its jobs: ``results/<scale>/configs/<job>.<hash>.json``.

The hash in the name lets every start of Snakemake add files and rewrite none, so a dry run with edited values changes
nothing for a workflow that runs. A file's time says whether its job has to run: it is older than the job's files if the
record in that job's folder was made with this very configuration, newer otherwise. So switching to other values and back
is right with and without Snakemake's own notes.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from mdc.plan.jobs.folder import ScaleFolder
from mdc.plan.jobs.job import Job
from mdc.plan.records import json_text, write_text_if_changed

_OLD = 86400.0  # a time before every file of ours; 0 would be no time to some tools


def write_configs(folder: ScaleFolder, jobs: Iterable[Job]) -> dict[str, Path]:
    """Write what is not there yet, set the files' times, and return the file of each job. OSError if it cannot."""
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
    """Delete the configurations that nobody asks for now. Only while no other workflow runs, which may still read them."""
    chosen = set(kept)
    for path in (folder.root / "configs").rglob("*.json"):
        if path not in chosen:
            path.unlink(missing_ok=True)
