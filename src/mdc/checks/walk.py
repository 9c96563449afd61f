"""One recursive walk over records, from a job down to all its inputs.

A job's record holds its configuration (``config``), its inputs (``inputs`` {job: sha256 of its manifest}) and its outputs
(``outputs`` {file: sha256}). The manifest of a set names its shards or arrays, each with its size and sha256 (``lists`` of
:class:`mdc.plan.verbs.Verb`); shards of lines name the tars of their images. A link holds if the record is the job's, its
configuration is the current one, and each input and each file has the named hash. Files are checked last, so that damage is
reported at the job that wrote the file.
"""

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
from mdc.checks.place import NOT_OURS, Broken, Place, format_problem
from mdc.data.shards.lines import is_lines, source_tar
from mdc.plan.jobs.accepted import FILE, Edit
from mdc.plan.records import UserError, read_json, sha256_file, sha256_json
from mdc.plan.verbs import VERBS

QUICK = 4 << 30  # bytes of one set's files that are hashed without asking


@dataclass(frozen=True)
class Named:
    """An output file of a job, as the file ``by`` names it. ``bytes``: its size, None where only its hash is named. ``hashed``:
    False in a large set, where only sizes are compared."""

    path: Path
    sha256: str
    by: Path
    bytes: int | None = None
    hashed: bool = True


class Walk:
    """The state of the walk. ``wanted``: the job whose chain is walked; repair commands lead up to it.

    ``deep``: hash every file, however large. ``good``: the number of good records by verb. ``hashed``, ``sized``: the files whose
    hash, or whose size alone, was compared. ``edits``: by job, the accepted edits of its code.
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
        """Cancel pending hashes."""
        self._pool.shutdown(cancel_futures=True)

    def begin(self, jobs: Iterable[str]) -> None:
        """Begin to hash the files of ``jobs`` in threads. The walk reports what cannot be read."""
        for job in jobs:
            self.wanted = job
            with suppress(Broken), self.in_a_line(job):
                for file in self._files(job):
                    if file.hashed:
                        self._hash(file.path)

    def jobs(self, job: str, wanted: str = "") -> Iterator[str]:
        """Check ``job`` and everything behind it; yields each good job. Raises Broken at the first that is not.

        ``wanted``: the table or figure that a repair command leads up to, by default ``job`` itself.
        """
        self.wanted = wanted or job
        yield from self._down(job)

    def _down(self, job: str) -> Iterator[str]:
        if job in self._seen:
            return
        self._seen.add(job)
        with self.in_a_line(job):
            self._linked(job)
        for input_job in self.record(job)["inputs"]:
            yield from self._down(input_job)
        with self.in_a_line(job):
            self._whole(job)
        self.good[self.place.jobs[job].verb] += 1
        yield job

    def own(self, job: str, inputs: Iterable[str]) -> None:
        """Check a job's record, its files and these of its inputs."""
        self.wanted = job
        with self.in_a_line(job):
            self._linked(job, inputs)
            self._whole(job)

    @contextmanager
    def in_a_line(self, job: str) -> Iterator[None]:
        """Turn every error from reading a job's files into Broken, with a message of one line."""
        try:
            yield
        except Broken:
            raise
        except UserError as error:
            raise Broken(f"{str(error).partition('; to mend: ')[0]}; to mend: {self.again(job)}") from None
        except NOT_OURS as error:
            where, problem = self.place.record(job), format_problem(error)
            raise Broken(f"{where}: not as this version writes it ({problem}); to mend: {self.again(job)}") from None

    def again(self, job: str) -> str:
        return self.place.again(self.wanted, job)

    def sha256(self, path: Path) -> str:
        """The sha256 of a file, which is read once."""
        return self._hash(path).result()

    # --- one job ------------------------------------------------------------------------------------------------------

    def _record(self, job: str) -> dict[str, Any]:
        return read_json(self.place.record(job))

    def _begin_hash(self, path: Path) -> Future[str]:
        return self._pool.submit(sha256_file, path)

    def _named(self, job: str) -> list[Named]:
        """The output files of a job: those in its record, then those that its manifest lists."""
        by, manifest = self.place.record(job), self.place.manifest(job)
        named = [Named(by.with_name(name), sha256, by) for name, sha256 in self.record(job)["outputs"].items()]
        folder = VERBS[self.place.jobs[job].verb].lists
        if folder:
            listed: dict[Path, tuple[str, Path, int]] = {}
            for file in _listed(read_json(manifest)):
                path = Path(os.path.normpath(manifest.parent / folder / file["file"]))
                listed[path] = file["sha256"], manifest, file["bytes"]
                if "offsets" in file and is_lines(path) and path.is_file():
                    tar = source_tar(path)
                    listed[tar.path] = tar.sha256, path, tar.size
            hashed = self.deep or sum(size for _, _, size in listed.values()) <= QUICK
            named += [Named(path, *entry, hashed) for path, entry in listed.items()]
        return named

    def _whole(self, job: str) -> None:
        """Broken if a file of the job is missing or differs in size or hash."""
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
        """Broken if a job's record is another job's, is stale, or names inputs other than the present ones.

        ``inputs``: the inputs to check, by default all.
        """
        place, path, record = self.place, self.place.record(job), self.record(job)
        if record["id"] != job:
            raise Broken(f"{path}: is the record of {record['id']}; to mend: {self.again(job)}")
        actual, expected = sha256_json(record["config"]), record["config_sha256"]
        self._same(path, actual, expected, path, self.again(job), "its configuration")
        if record["config"] != place.jobs[job].config():
            changed = what_changed(place, job, record["config"])
            raise Broken(f"{path}: stale: {changed}; to mend: {place.snakemake(self.wanted)}")
        if set(record["inputs"]) != set(place.jobs[job].inputs):
            raise Broken(f"{path}: names other inputs than its configuration; to mend: {self.again(job)}")
        for input_job in record["inputs"] if inputs is None else inputs:
            manifest = place.manifest(input_job)
            if not manifest.is_file():
                raise Broken(f"{manifest}: missing; {path} names it; to mend: {place.mend(self.wanted, input_job)}")
            if self.sha256(manifest) != record["inputs"][input_job]:
                mend = place.mend(self.wanted, input_job)
                self._same(manifest, self.sha256(manifest), record["inputs"][input_job], path, mend)
        if edits := place.plan.edits.get(job):
            self.edits[job] = edits

    def _same(self, path: Path, actual: str, expected: str, by: Path, mend: str, what: str = "its sha256") -> None:
        if actual != expected:
            raise Broken(f"{path}: {what} is {actual[:12]}…, {by} says {expected[:12]}…; to mend: {mend}")

    def summary(self) -> str:
        """What was checked, in words."""
        text = "every link holds"
        if self.sized:
            text += (
                f", but of {len(self.sized)} files in sets above 4 GiB only the size was compared (--deep hashes them)"
            )
        if self.edits:
            edits = {edit for edits in self.edits.values() for edit in edits}
            text += f"; accepted edits: {len(edits)}, of the code of {_count(self.edits, 'job')} (see {FILE})"
        return text


def _listed(value: Any) -> Iterator[Mapping[str, Any]]:
    """The {file, bytes, sha256} entries of a manifest, at any depth."""
    if isinstance(value, dict) and {"file", "bytes", "sha256"} <= value.keys():
        yield value
    if isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _listed(part)


def _count(things: Collection[object], word: str) -> str:
    return f"{len(things)} {word}{'' if len(things) == 1 else 's'}"
