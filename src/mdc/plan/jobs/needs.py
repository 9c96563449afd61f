"""Further needs of a job: cores, files of other jobs, files of the user."""

import shlex
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from mdc.plan.data_folder import Links, walk, weights_files
from mdc.plan.jobs.folder import ScaleFolder
from mdc.plan.jobs.job import Job
from mdc.plan.records import UserError
from mdc.plan.verbs import VERBS, verb_of

#: kind of a source that is a folder → the patterns of its watched files
_LISTS = [f"{name}{packed}" for name in ("csv", "tsv", "tab", "jsonl", "ndjson", "json") for packed in ("", ".gz")]
_IN_FOLDER = {
    # where the splits' folders are not named, classes lie on the first level or on the second
    "class_folder": ["*/", "*/*/"],
    "webdataset": ["**/*.tar"],
    "caption_files": ["**/"],
    "sugarcrepe_parquet": ["*.json"],
    "caption_list": [f"{place}*.{ending}" for place in ("", "list/") for ending in ("parquet", *_LISTS)],
    "parquet": ["**/*.parquet"],
    "caption_nouns": ["**/*.parquet"],
}

#: seconds that the clock of a file server may be ahead
_AHEAD = 60.0
#: the maximal number of threads of a job that resizes images (mdc.data.formats.reading)
IMAGE_CORES = 16


def value_at(whole: Any, keys: str) -> Any:
    """The value at a dotted path, as ``data.download.runtime``; None where a key is missing."""
    for key in keys.split("."):
        whole = getattr(whole, key, None)
    return whole


def computing(job: Job) -> tuple[str, int, int]:
    """(device, processes, threads of each process) of a job."""
    verb = VERBS[job.verb]
    settings = value_at(job, verb.computes)
    return (settings.device, settings.processes if verb.shared else 1, settings.threads) if settings else ("cpu", 1, 1)


def cores(job: Job, runtime: Any) -> int:
    """The cores that a job uses; ``runtime``: its block of runtime settings, if there is one."""
    _, processes, threads = computing(job)
    resizing = IMAGE_CORES if value_at(job, "source.image_size") is not None else 1
    own = getattr(runtime, "processes", getattr(runtime, "workers", 0) + 1)
    return max(processes * max(threads, own), resizing)


def files_of_inputs(job: Job, folder: ScaleFolder) -> list[Path]:
    """The files of its inputs that a job reads besides their manifests, such as weights. The manifests name them by hash."""
    reads = VERBS[job.verb].reads
    return [folder.job(name) / file for name in job.inputs for file in VERBS[verb_of(name)].outputs if file in reads]


def files_of_user(job: Job, data: Path) -> list[Path]:
    """The user's own files that a job reads, in ``data`` or elsewhere, if they exist: a missing one fails in its job, not in the
    graph.

    Image files are not listed: there can be millions, and this runs at every start of Snakemake. A table of captions represents
    its images, and the folder of a class represents its own: its time changes when an image is added or removed. A dataset's own
    files are covered by its obtained.json.
    """
    return [*_weights(job, data), *_watched(job, data)]


def _weights(job: Job, data: Path) -> list[Path]:
    """Files of models of open_clip or timm that are the user's own."""
    models = [(getattr(part, "model", None), getattr(part, "weights", None)) for part in vars(job).values()]
    return [file for model, weights in models if isinstance(model, str) for file in weights_files(model, weights, data)]


def _watched(job: Job, data: Path) -> list[Path]:
    within, _, key = VERBS[job.verb].watches.rpartition(".")
    named: Any = value_at(job, within) if within else job
    path = getattr(named, key, None)
    if path is None or getattr(named, "dataset", None) is not None:
        return []
    place, images = data / path / (getattr(named, "file", None) or ""), getattr(named, "images", None)
    beside = [data / images] if isinstance(images, str) and (data / images).is_file() else []
    if place.is_file():
        return [place, *beside]
    if within == "dataset.list":
        patterns = ["**/*"]
    elif within == "source" and named.kind == "class_folder" and named.splits is not None:
        return sorted(file for split in named.splits.values() for file in (place / split).glob("*/"))
    else:
        patterns = _IN_FOLDER.get(getattr(named, "kind", ""), [])
    return [*beside, *sorted(file for pattern in patterns for file in _matching(place, pattern))]


def _matching(place: Path, pattern: str) -> Iterator[Path]:
    """``place.glob(pattern)``; below linked folders too, as the sources read them."""
    if not pattern.startswith("**/") or pattern == "**/*":  # the files of a list, whose links are not followed
        yield from place.glob(pattern)
        return
    with suppress(UserError):  # a folder that is missing or cannot be read fails in its job, too
        for folder, _ in walk([place], Links()):
            yield from [folder] if pattern == "**/" else folder.glob(pattern[3:])


def check_times(files: Iterable[Path]) -> None:
    """UserError at a file or folder that is dated in the future: what a job makes of it would be older, and Snakemake deletes
    that when the job has ended."""
    latest = time.time() + _AHEAD
    for file in files:
        with suppress(OSError):  # its job says what it lacks
            link = file.is_symlink() and file.lstat().st_mtime > latest
            if not link and file.stat().st_mtime <= latest:
                continue
            raise UserError(
                f"{file}: dated in the future, so that Snakemake would delete what is made from it; to mend: "
                f"touch {'-h ' * link}{shlex.quote(str(file))}"
            )
