"""The configurations that the workflow passes to its jobs: ``results/<scale>/configs/<job>.<hash>.json``.

Because of the hash in the name, a start of Snakemake only adds files, so a dry run with edited values does not affect a running
workflow. A file's time decides whether its job must run: it is older than the job's record if that has this very configuration,
newer otherwise. So switching to other values and back works with and without Snakemake's own metadata.
"""

import os
from collections.abc import Iterable
from pathlib import Path

from mdc.plan.jobs.folder import ScaleFolder
from mdc.plan.jobs.job import Job
from mdc.plan.records import json_text, write_text_if_changed

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
