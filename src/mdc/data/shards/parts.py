"""The parts of a corpus, written by one job or by several, each a group of them: numbers ``group``, ``group`` + ``groups``, …

All groups fill one folder. A part that is complete is kept: the state says of which source, by which code and with which
files, as long as these have the size and time that they had then. So whatever ends a job, the next one loses at most the
parts that were under way, and a corpus that grows makes the new parts alone.
"""

from __future__ import annotations

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
    """Which parts a job makes: those with these numbers modulo ``groups``."""

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
    asked: Mapping[str, Any],
    *,
    context_length: int,
    processes: int = 1,
) -> list[dict[str, Any]]:
    """The group's parts in ``folder``, those that are not whole made now; their entries, by number.

    A part of which the source takes the beginning alone is not among them: the corpus that cuts it there writes it itself.
    ``asked``: everything besides the source's files that decides the parts; ``state``: the folder that remembers which are
    whole. UserError for a source that cannot be read; what was whole before stays whole.
    """
    digest = sha256_json(dict(asked))
    numbers = [number for number in group.numbers(source.parts) if not source.is_partial(number)]
    memory = _Memory(folder, state, digest)
    seals = {number: [source.seal(number), tar_name(source, number)] for number in numbers}
    done = {number: entry for number in numbers if (entry := memory.whole(number, seals[number])) is not None}
    missing = [number for number in numbers if number not in done]
    make = partial(_anew, source, tuple(splits), folder, context_length)
    with progress(total=len(numbers), desc=folder.name, unit="part", initial=len(done)) as bar:
        for number, entry in _made(make, missing, processes):
            memory.keep(number, seals[number], entry)
            done[number] = entry
            bar.update()
    for number in memory.others(group, numbers):
        remove_part(folder, number)
        memory.forget(number)
    return [done[number] for number in numbers]


def read_parts(path: Path) -> dict[str, Any]:
    """The index of a group of parts. UserError if it is none, or lacks something."""
    index = read_json(path)
    checked(_PartsIndex, index, path, "; rebuild the corpus's parts")
    return index


def _anew(source: InParts, splits: Sequence[str], folder: Path, context_length: int, part: int) -> dict[str, Any]:
    remove_part(folder, part)
    return write_part(source, part, splits, folder, context_length)


def _made(
    make: Callable[[int], dict[str, Any]], parts: Sequence[int], processes: int
) -> Iterator[tuple[int, dict[str, Any]]]:
    """The parts in the order in which they end."""
    if processes == 1 or len(parts) < 2:
        yield from ((part, make(part)) for part in parts)
        return
    # forked, for the source has read what all parts need; the only thread may be that of a bar on a screen, which holds no lock
    # that a process of the pool needs
    pool = ProcessPoolExecutor(
        min(processes, len(parts)), multiprocessing.get_context("fork"), initializer=end_with_parent
    )
    try:
        running, failed = {pool.submit(make, part): part for part in parts}, None
        for one in as_completed(running):
            if one.cancelled():
                continue
            if (error := one.exception()) is None:
                yield running[one], one.result()
                continue
            failed = failed or error
            for other in running:  # those under way end, and are kept; no other begins
                other.cancel()
        if failed is not None:
            raise failed
    except BrokenProcessPool:
        raise UserError(
            "a process that wrote shards was killed; out of memory? use fewer processes "
            "(data.runtime.processes); complete parts will be kept"
        ) from None
    finally:
        pool.shutdown(cancel_futures=True)


class _Memory:
    """Which parts are complete: one file per part in ``state``. ``digest``: of what was asked."""

    def __init__(self, folder: Path, state: Path, digest: str) -> None:
        self.folder, self.state, self.digest = folder, state, digest

    def _file(self, part: int) -> Path:
        return self.state / f"{part:05d}.json"

    def whole(self, part: int, seal: Any) -> dict[str, Any] | None:
        """The entry of a part that was made of this source as asked, and whose files have not changed since."""
        try:
            told = read_json(self._file(part))
            entry: dict[str, Any] = told["entry"]
            good = told["asked"] == self.digest and told["seal"] == seal and told["files"] == self._times(entry)
        except (UserError, KeyError, TypeError, OSError):
            return None
        return entry if good else None

    def keep(self, part: int, seal: Any, entry: dict[str, Any]) -> None:
        told = {"asked": self.digest, "seal": seal, "entry": entry, "files": self._times(entry)}
        write_json(self._file(part), told)

    def forget(self, part: int) -> None:
        self._file(part).unlink(missing_ok=True)

    def others(self, group: Group, wanted: Sequence[int]) -> list[int]:
        """Parts of this group that the source no longer has."""
        known = [int(path.stem) for path in self.state.glob("[0-9]*.json") if path.stem.isdigit()]
        return sorted(part for part in known if part not in wanted and part % group.groups == group.group)

    def _times(self, entry: Mapping[str, Any]) -> dict[str, list[int]]:
        return {file["file"]: size_and_time(self.folder / file["file"])[1:] for file in files_of(entry)}
