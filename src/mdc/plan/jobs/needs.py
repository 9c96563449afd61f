"""What a job needs besides its configuration and its inputs' manifests: cores, files of other jobs, files of the user."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mdc.plan.jobs.folder import ScaleFolder
from mdc.plan.jobs.job import Job
from mdc.plan.verbs import VERBS, verb_of

#: the kind of a source that is a folder → which of its files are watched
_IN_FOLDER = {
    "webdataset": "**/*.tar",
    "caption_files": "**/",
    **dict.fromkeys(("parquet", "caption_nouns", "caption_list"), "**/*.parquet"),
}

#: of a job that makes images smaller: the threads that it has at most (mdc.data.formats.reading)
IMAGE_CORES = 16


def value_at(whole: Any, keys: str) -> Any:
    """The value at a dotted path, as ``data.download.runtime``; None where a key is missing."""
    for key in keys.split("."):
        whole = getattr(whole, key, None)
    return whole


def computing(job: Job) -> tuple[str, int, int]:
    """The device, the processes and the threads of each that a job computes with."""
    verb = VERBS[job.verb]
    how = value_at(job, verb.computes)
    return (how.device, how.processes if verb.shared else 1, how.threads) if how else ("cpu", 1, 1)


def cores(job: Job, runtime: Any) -> int:
    """The cores that a job keeps busy; ``runtime``: the block that says how it proceeds, if there is one."""
    _, processes, threads = computing(job)
    resizing = IMAGE_CORES if value_at(job, "source.image_size") is not None else 1
    return max(processes * max(threads, getattr(runtime, "cores", 1)), resizing)


def files_of_inputs(job: Job, folder: ScaleFolder) -> list[Path]:
    """What a job reads of its inputs besides their manifests, as weights. The manifests name these files by hash."""
    reads = VERBS[job.verb].reads
    return [folder.job(name) / file for name in job.inputs for file in VERBS[verb_of(name)].outputs if file in reads]


def files_of_user(job: Job, data: Path) -> list[Path]:
    """The user's own files behind a job, in ``data`` or elsewhere, as far as they are there: a missing one fails in its job, not
    in the graph.

    Image files are not listed: there can be millions, and this runs at every start of Snakemake. A table of captions stands for
    its images. Folders of a class stand for theirs: their time changes when an image comes or goes. A dataset's own files stand
    behind its obtained.json.
    """
    within, _, key = VERBS[job.verb].watches.rpartition(".")
    named: Any = value_at(job, within) if within else job
    path = getattr(named, key, None)
    if path is None or getattr(named, "dataset", None) is not None:
        return []
    place = data / path
    if place.is_file():
        return [place]
    if within == "dataset.list":
        patterns = ["**/*"]
    elif within == "source" and named.kind == "class_folder":
        # where the splits' folders are not named, classes lie on the first level or on the second
        patterns = ["*/", "*/*/"] if named.splits is None else [f"{split}/*/" for split in named.splits.values()]
    else:
        patterns = [_IN_FOLDER[named.kind]] if getattr(named, "kind", None) in _IN_FOLDER else []
    return sorted(found for pattern in patterns for found in place.glob(pattern))
