"""The parts of a corpus, written by one job or by several, each a group of them: numbers ``group``, ``group`` + ``groups``, …

All groups fill one folder. A complete part is kept: the state records its source, its code and its files, and is valid while
these have the same size and time. So an interrupted job loses at most the parts in progress, and a corpus that grows makes only
the new parts.

Part NNNNN becomes ``<split>-NNNNN.jsonl`` for each split, if its images are in one tar below MDC_DATA and keep their bytes, and
``<split>-NNNNN.tar`` otherwise; with ``captions-NNNNN.safetensors`` and, if something was left out, ``skipped-NNNNN.jsonl``. The
bytes do not depend on the other parts, nor on the number of processes and jobs, so corpora with the same parts share them.
"""

import multiprocessing
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from mdc.data.formats.folders import size_and_time
from mdc.data.formats.samples import skipped_list
from mdc.data.shards.caption_statistics import CaptionStatistics
from mdc.data.shards.corpus import beside_image
from mdc.data.shards.index import Count, FileOf, Shard
from mdc.data.shards.lines import ENDING, SourceTar, name_below
from mdc.data.shards.shard_file import new_shard
from mdc.data.shards.writer import file_entry, left_out_of
from mdc.data.sources.cleaned import InParts
from mdc.plan.config.problems import checked
from mdc.plan.processes.interrupts import end_with_parent
from mdc.plan.progress import progress
from mdc.plan.records import UserError, atomic_path, read_json, sha256_file, sha256_json, write_json

_HASHES = ("keys", "images", "looks")  # arrays of the hashes of a split's keys and images, beside those of its captions


def write_part(source: InParts, part: int, splits: Sequence[str], folder: Path, context_length: int) -> dict[str, Any]:
    """Write one part into ``folder``; its entry in an index of parts.

    ``splits`` {split: its shard} of the splits with samples, ``skipped`` {reason: count}, and the files ``captions`` and
    ``skipped_list`` (if there is one).
    """
    statistics = {split: CaptionStatistics(context_length) for split in splits}
    left_out = folder / f"skipped-{part:05d}.jsonl"
    tar, ending = None, ".tar"
    if (name := tar_name(source, part)) is not None:
        begun = size_and_time(path := source.data_dir / name)
        tar, ending = SourceTar(name, path.stat().st_size, source.tar_sha256(part)), ENDING
    with skipped_list(left_out) as skipped, ExitStack() as stack:
        shards: dict[str, Any] = {}
        for split, sample in source.samples_in(part, splits, skipped):
            if split not in shards:
                shards[split] = stack.enter_context(new_shard(folder / f"{split}-{part:05d}{ending}", tar))
            statistics[split].add(sample.captions)
            shards[split].add(sample, beside_image(sample))
    if tar is not None and size_and_time(path) != begun:
        raise UserError(f"{path}: changed while it was read; rerun when no other process writes to it")
    entry = {
        "part": part,
        "splits": {split: shards[split].entry for split in splits if split in shards},
        "skipped": dict(skipped.counts),
        **left_out_of(skipped),
        "captions": _write_captions(folder / f"captions-{part:05d}.safetensors", statistics, shards),
    }
    if skipped.counts:
        entry["skipped_list"] = file_entry(left_out)
    return entry


def tar_name(source: InParts, part: int) -> str | None:
    """The name of the tar below MDC_DATA that has the images of a part unchanged; None: they must be written."""
    tar = source.tar(part) if source.image_size is None else None
    return None if tar is None else name_below(source.data_dir, tar)


def files_of(entry: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """All files of a part, each as {file, bytes, sha256}."""
    for shard in entry["splits"].values():
        yield shard
        yield shard["offsets"]
    yield entry["captions"]
    if "skipped_list" in entry:
        yield entry["skipped_list"]


def remove_part(folder: Path, part: int) -> None:
    """Remove all files of a part."""
    for path in folder.glob(f"*-{part:05d}.*"):
        path.unlink()


def _write_captions(
    path: Path, statistics: Mapping[str, CaptionStatistics], shards: Mapping[str, Any]
) -> dict[str, Any]:
    from safetensors.numpy import save_file

    arrays = {
        f"{split}.{name}": values
        for split, counted in statistics.items()
        for name, values in {
            **counted.arrays(),
            **{
                name: np.frombuffer(getattr(shards[split], name) if split in shards else array("Q"), dtype=np.uint64)
                for name in _HASHES
            },
        }.items()
    }
    with atomic_path(path) as temporary:
        save_file(arrays, temporary)
    return file_entry(path)


def read_captions(
    folder: Path,
    entry: Mapping[str, Any],
    statistics: Mapping[str, CaptionStatistics],
    *hashes: "Mapping[str, array[int]]",
) -> None:
    """Append a part's captions, and each split's ``hashes`` of its keys, its images' bytes and their looks, to those of the parts
    before. UserError if the file is not the part's."""
    from safetensors.numpy import load

    path = folder / entry["captions"]["file"]
    if not path.is_file() or sha256_file(path) != entry["captions"]["sha256"]:
        raise UserError(f"{path}: missing or changed; rebuild the corpus's parts")
    arrays = load(path.read_bytes())
    for split, counted in statistics.items():
        of_split = {name.partition(".")[2]: values for name, values in arrays.items() if name.startswith(f"{split}.")}
        for name, of_name in zip(_HASHES, hashes, strict=True):
            of_name[split].frombytes(of_split.pop(name).tobytes())
        counted.join(of_split)


class _Entry(BaseModel):
    model_config = ConfigDict(strict=True)
    part: Count
    splits: dict[str, Shard]
    skipped: dict[str, Count]
    captions_left_out: Count = 0
    captions: FileOf
    skipped_list: FileOf | None = None


class _PartsIndex(BaseModel):
    model_config = ConfigDict(strict=True)
    kind: Literal["parts"]
    name: str
    group: Count
    groups: Annotated[int, Field(ge=1)]
    parts: list[_Entry]


@dataclass(frozen=True)
class Group:
    """The parts that a job makes: those whose number modulo ``groups`` is ``group``."""

    group: int
    groups: int

    def numbers(self, parts: int) -> range:
        return range(self.group, parts, self.groups)


def write_parts(
    source: InParts,
    group: Group,
    splits: Sequence[str],
    folder: Path,
    state: Path,
    settings: Mapping[str, Any],
    *,
    context_length: int,
    processes: int = 1,
) -> list[dict[str, Any]]:
    """Make the incomplete parts of the group in ``folder``; the entries of all its parts, by number.

    A part of which the source takes only the beginning is left to the corpus's own job. ``settings``: everything besides the
    source's files on which the parts depend; ``state``: the folder that records the complete parts. UserError for a source that
    cannot be read; complete parts stay.
    """
    digest = sha256_json(dict(settings))
    numbers = [number for number in group.numbers(source.parts) if not source.is_partial(number)]
    state_of_parts = _State(folder, state, digest)
    seals = {number: [source.seal(number), tar_name(source, number)] for number in numbers}
    done = {
        number: entry
        for number in numbers
        if (entry := state_of_parts.complete_entry(number, seals[number])) is not None
    }
    missing = [number for number in numbers if number not in done]
    make = partial(_make_part, source, tuple(splits), folder, context_length)
    with progress(total=len(numbers), desc=folder.name, unit="part", initial=len(done)) as bar:
        for number, entry in _finished(make, missing, processes):
            state_of_parts.record(number, seals[number], entry)
            done[number] = entry
            bar.update()
    for number in state_of_parts.surplus(group, numbers):
        remove_part(folder, number)
        state_of_parts.forget(number)
    return [done[number] for number in numbers]


def read_parts(path: Path) -> dict[str, Any]:
    """The index of a group of parts. UserError if it is none, or incomplete."""
    index = read_json(path)
    checked(_PartsIndex, index, path, "; rebuild the corpus's parts")
    return index


def _make_part(source: InParts, splits: Sequence[str], folder: Path, context_length: int, part: int) -> dict[str, Any]:
    remove_part(folder, part)
    return write_part(source, part, splits, folder, context_length)


def _finished(
    make: Callable[[int], dict[str, Any]], parts: Sequence[int], processes: int
) -> Iterator[tuple[int, dict[str, Any]]]:
    """(part, its entry) as each part is finished."""
    if processes == 1 or len(parts) < 2:
        yield from ((part, make(part)) for part in parts)
        return
    # forked, since the source has read what all parts need; the only other thread may be a progress bar's, which holds no lock
    # that the pool needs
    pool = ProcessPoolExecutor(
        min(processes, len(parts)), multiprocessing.get_context("fork"), initializer=end_with_parent
    )
    try:
        running, failed = {pool.submit(make, part): part for part in parts}, None
        for future in as_completed(running):
            if future.cancelled():
                continue
            if (error := future.exception()) is None:
                yield running[future], future.result()
                continue
            failed = failed or error
            for pending in running:  # parts in progress are finished and kept; no other begins
                pending.cancel()
        if failed is not None:
            raise failed
    except BrokenProcessPool:
        raise UserError(
            "a process that wrote shards was killed; out of memory? use fewer processes "
            "(data.runtime.processes); complete parts will be kept"
        ) from None
    finally:
        pool.shutdown(cancel_futures=True)


class _State:
    """Which parts are complete: one file per part in ``state``. ``digest``: of the settings."""

    def __init__(self, folder: Path, state: Path, digest: str) -> None:
        self.folder, self.state, self.digest = folder, state, digest

    def _file(self, part: int) -> Path:
        return self.state / f"{part:05d}.json"

    def complete_entry(self, part: int, seal: Any) -> dict[str, Any] | None:
        """The entry of a part made from this source with these settings, whose files have not changed since; otherwise None."""
        try:
            record = read_json(self._file(part))
            entry: dict[str, Any] = record["entry"]
            good = record["asked"] == self.digest and record["seal"] == seal and record["files"] == self._times(entry)
        except (UserError, KeyError, TypeError, OSError):
            return None
        return entry if good else None

    def record(self, part: int, seal: Any, entry: dict[str, Any]) -> None:
        record = {"asked": self.digest, "seal": seal, "entry": entry, "files": self._times(entry)}
        write_json(self._file(part), record)

    def forget(self, part: int) -> None:
        self._file(part).unlink(missing_ok=True)

    def surplus(self, group: Group, wanted: Sequence[int]) -> list[int]:
        """Parts of this group that the source no longer has."""
        known = [int(path.stem) for path in self.state.glob("[0-9]*.json") if path.stem.isdigit()]
        return sorted(part for part in known if part not in wanted and part % group.groups == group.group)

    def _times(self, entry: Mapping[str, Any]) -> dict[str, list[int]]:
        return {file["file"]: size_and_time(self.folder / file["file"])[1:] for file in files_of(entry)}
