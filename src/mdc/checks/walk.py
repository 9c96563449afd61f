"""One recursive walk over records, from a job down to all that it was made from.

A job's record says what was asked (``config``), from what it was made (``inputs`` {job: sha256 of its manifest}) and what it
left (``outputs`` {file: sha256}). The manifest of a set names its shards or arrays, each with its size and sha256 (``lists`` of
:class:`mdc.plan.verbs.Verb`), and shards of lines the tars of their images. A link holds if the record is the job's, asks what is
asked now, each input is the one that it names, and so is each file. Files come last, so that damage is reported at the job that
wrote the file.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from mdc.checks.differences import what_changed
from mdc.checks.place import NOT_OURS, Broken, Place, otherwise_written
from mdc.data.shards.lines import is_lines, source_tar
from mdc.plan.jobs.accepted import FILE, Edit
from mdc.plan.records import UserError, read_json, sha256_file, sha256_json
from mdc.plan.verbs import VERBS

QUICK = 4 << 30  # bytes of one set's files that are hashed without asking


@dataclass(frozen=True)
class Named:
    """A file that a job left, as the file ``by`` names it. ``bytes``: its size, None where only its hash is named. ``hashed``:
    False in a large set, of which only the sizes are compared."""

    path: Path
    sha256: str
    by: Path
    bytes: int | None = None
    hashed: bool = True


class Walk:
    """What was found so far. ``wanted``: the job whose chain is walked; commands to mend lead up to it.

    ``deep``: hash every file, however large. ``good`` counts the records that hold, by verb; ``hashed`` and ``sized`` are the
    files that are good by their hash, or by their size alone; ``edits`` the accepted edits behind the code of some jobs.
    """

    def __init__(self, place: Place, deep: bool = False) -> None:
        self.place, self.deep = place, deep
        self.wanted = ""
        self.good: Counter[str] = Counter()
        self.hashed: set[Path] = set()
        self.sized: set[Path] = set()
        self.edits: dict[str, list[Edit]] = {}
        self._seen: set[str] = set()
        self._pool = ThreadPoolExecutor()
        # each file is read once, however many name it
        self.record = cache(self._record)
        self._files = cache(self._named)
        self._hash = cache(self._begin_hash)

    def close(self) -> None:
        """Hash nothing more."""
        self._pool.shutdown(cancel_futures=True)

    def begin(self, jobs: Iterable[str]) -> None:
        """Begin to hash the files of ``jobs`` in threads. What cannot be read is left to the walk to tell."""
        for job in jobs:
            self.wanted = job
            with suppress(Broken), self.in_a_line(job):
                for file in self._files(job):
                    if file.hashed:
                        self._hash(file.path)

    def jobs(self, job: str, wanted: str = "") -> Iterator[str]:
        """Check ``job`` and everything behind it; yields each job that holds. Raises Broken at the first that does not.

        ``wanted``: the table or figure that a command to mend leads up to, by default ``job`` itself.
        """
        self.wanted = wanted or job
        yield from self._down(job)

    def _down(self, job: str) -> Iterator[str]:
        if job in self._seen:
            return
        self._seen.add(job)
        with self.in_a_line(job):
            self._linked(job)
        for other in self.record(job)["inputs"]:
            yield from self._down(other)
        with self.in_a_line(job):
            self._whole(job)
        self.good[self.place.jobs[job].verb] += 1
        yield job

    def own(self, job: str, inputs: Iterable[str]) -> None:
        """Check a job's record, its files, and of its inputs only these."""
        self.wanted = job
        with self.in_a_line(job):
            self._linked(job, inputs)
            self._whole(job)

    @contextmanager
    def in_a_line(self, job: str) -> Iterator[None]:
        """Whatever is wrong with the files that are read for a job ends in Broken."""
        try:
            yield
        except Broken:
            raise
        except UserError as error:
            raise Broken(f"{error}; to mend: {self.again(job)}") from None
        except NOT_OURS as error:
            where, told = self.place.record(job), otherwise_written(error)
            raise Broken(f"{where}: not as this version writes it ({told}); to mend: {self.again(job)}") from None

    def again(self, job: str) -> str:
        return self.place.again(self.wanted, job)

    def sha256(self, path: Path) -> str:
        """Of a file, which is read once."""
        return self._hash(path).result()

    # --- one job ------------------------------------------------------------------------------------------------------

    def _record(self, job: str) -> dict[str, Any]:
        return read_json(self.place.record(job))

    def _begin_hash(self, path: Path) -> Future[str]:
        return self._pool.submit(sha256_file, path)

    def _named(self, job: str) -> list[Named]:
        """The files that a job left: the outputs of its record, then what its manifest lists."""
        by, manifest = self.place.record(job), self.place.manifest(job)
        found = [Named(by.with_name(name), sha256, by) for name, sha256 in self.record(job)["outputs"].items()]
        folder = VERBS[self.place.jobs[job].verb].lists
        if folder:
            listed: dict[Path, tuple[str, Path, int]] = {}
            for one in _listed(read_json(manifest)):
                path = Path(os.path.normpath(manifest.parent / folder / one["file"]))
                listed[path] = one["sha256"], manifest, one["bytes"]
                if "offsets" in one and is_lines(path) and path.is_file():
                    tar = source_tar(path)
                    listed[tar.path] = tar.sha256, path, tar.size
            hashed = self.deep or sum(size for _, _, size in listed.values()) <= QUICK
            found += [Named(path, *told, hashed) for path, told in listed.items()]
        return found

    def _whole(self, job: str) -> None:
        """The files of a job are those that it left."""
        for file in self._files(job):
            if not file.path.is_file():
                raise Broken(f"{file.path}: missing; {file.by} names it; to mend: {self.again(job)}")
            size = file.path.stat().st_size
            if file.bytes not in (None, size):
                raise Broken(
                    f"{file.path}: its size is {size} bytes, {file.by} says {file.bytes}; to mend: {self.again(job)}"
                )
            if file.hashed:
                self._same(file.path, self.sha256(file.path), file.sha256, file.by, self.again(job))
            (self.hashed if file.hashed else self.sized).add(file.path)

    def _linked(self, job: str, inputs: Iterable[str] | None = None) -> None:
        """The record of a job is the job's, asks what is asked now, and names the inputs that are there.

        ``inputs``: the inputs to look at, by default all.
        """
        place, path, record = self.place, self.place.record(job), self.record(job)
        if record["id"] != job:
            raise Broken(f"{path}: is the record of {record['id']}; to mend: {self.again(job)}")
        found, told = sha256_json(record["config"]), record["config_sha256"]
        self._same(path, found, told, path, self.again(job), "its configuration")
        if record["config"] != place.jobs[job].config():
            changed = what_changed(place, job, record["config"])
            raise Broken(f"{path}: stale: {changed}; to mend: {place.snakemake(self.wanted)}")
        if set(record["inputs"]) != set(place.jobs[job].inputs):
            raise Broken(f"{path}: names other inputs than its configuration; to mend: {self.again(job)}")
        for other in record["inputs"] if inputs is None else inputs:
            manifest = place.manifest(other)
            if not manifest.is_file():
                raise Broken(f"{manifest}: missing; {path} names it; to mend: {place.mend(self.wanted, other)}")
            if self.sha256(manifest) != record["inputs"][other]:
                mend = place.mend(self.wanted, other)
                self._same(manifest, self.sha256(manifest), record["inputs"][other], path, mend)
        if edits := place.plan.edits.get(job):
            self.edits[job] = edits

    def _same(self, path: Path, found: str, told: str, by: Path, mend: str, what: str = "its sha256") -> None:
        if found != told:
            raise Broken(f"{path}: {what} is {found[:12]}…, {by} says {told[:12]}…; to mend: {mend}")

    def summary(self) -> str:
        """Whether every link was followed to its end, in words."""
        said = "every link holds"
        if self.sized:
            said += (
                f", but of {len(self.sized)} files in sets above 4 GiB only the size was compared (--deep hashes them)"
            )
        if self.edits:
            edits = {edit for edits in self.edits.values() for edit in edits}
            said += f"; accepted edits: {len(edits)}, of the code of {_count(self.edits, 'job')} (see {FILE})"
        return said


def _listed(value: Any) -> Iterator[Mapping[str, Any]]:
    """What a manifest lists as {file, bytes, sha256}, at any depth."""
    if isinstance(value, dict) and {"file", "bytes", "sha256"} <= value.keys():
        yield value
    if isinstance(value, dict | list):
        for one in value.values() if isinstance(value, dict) else value:
            yield from _listed(one)


def _count(things: Collection[object], word: str) -> str:
    return f"{len(things)} {word}{'' if len(things) == 1 else 's'}"
