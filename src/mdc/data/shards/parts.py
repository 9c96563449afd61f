"""The parts of a corpus, written by one job or by several, each a group of them: numbers ``group``, ``group`` + ``groups``, …

All groups fill one folder. A complete part is kept: the state records its source, its code and its files, and is valid while
these have the same size and time. So an interrupted job loses at most the parts in progress, and a corpus that grows makes only
the new parts.
"""

import multiprocessing
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from mdc.data.formats.folders import size_and_time
from mdc.data.shards.index import Count, FileOf, Shard
from mdc.data.shards.part import files_of, remove_part, tar_name, write_part
from mdc.data.sources.cleaned import InParts
from mdc.plan.config.problems import checked
from mdc.plan.processes.interrupts import end_with_parent
from mdc.plan.progress import progress
from mdc.plan.records import UserError, read_json, sha256_json, write_json


class _Entry(BaseModel):
    model_config = ConfigDict(strict=True)
    part: Count
    splits: dict[str, Shard]
    skipped: dict[str, Count]
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
