"""One recursive walk over records, from a job down to all that it was made from.

A job's record says what was asked (``config``), from what it was made (``inputs`` {job: sha256 of its manifest}) and what it
left (``outputs`` {file: sha256}). A link holds if the record is the job's, asks what is asked now, its outputs are what
it says, and each input is the one that it names. What only a verb knows of its files stands in :mod:`mdc.checks.checks`;
it is looked at when all that a job rests on was found good, so that a damaged file is told where it is, not above.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mdc.checks.differences import what_changed
from mdc.checks.place import Broken, Place
from mdc.plan.jobs.accepted import FILE, Edit
from mdc.plan.records import UserError, read_json, sha256_file, sha256_json

QUICK = 4 << 30  # bytes of one job's files that are hashed without asking


#: what else must hold of a job of one verb, by its record; raises Broken
Check = Callable[["Walk", str, Mapping[str, Any]], None]


class Walk:
    """What was found so far. ``wanted``: the job whose chain is walked; commands to mend lead up to it.

    ``checks``: verb → what else must hold of its jobs. ``deep``: hash every file, however large. ``good`` counts what held, by
    what it is; ``by_size`` the files of which only the size was compared; ``edits`` the accepted edits behind the code of some
    jobs.
    """

    def __init__(self, place: Place, checks: Mapping[str, Check], deep: bool = False) -> None:
        self.place, self.checks, self.deep = place, checks, deep
        self.wanted = ""
        self.good: Counter[str] = Counter()
        self.by_size = 0
        self.edits: dict[str, list[Edit]] = {}
        self._seen: dict[str, dict[str, Any]] = {}

    def jobs(self, job: str, wanted: str = "") -> Iterator[str]:
        """Check ``job`` and everything behind it; yields each job that holds. Raises Broken at the first that does not.

        ``wanted``: the table or figure that a command to mend leads up to, by default ``job`` itself.
        """
        self.wanted = wanted or job
        yield from self._down(job)

    def _down(self, job: str) -> Iterator[str]:
        if job in self._seen:
            return
        with self.in_a_line(job):
            record = self._seen[job] = self._linked(job)
        for other in record["inputs"]:
            yield from self._down(other)
        verb = self.place.jobs[job].verb
        if verb in self.checks:
            with self.in_a_line(job):
                self.checks[verb](self, job, record)
        self.good[verb] += 1
        yield job

    def own(self, job: str, inputs: Iterable[str] = ()) -> None:
        """Check a job's record, its files, and which of ``inputs`` it names; not what only its verb knows."""
        self.wanted = job
        with self.in_a_line(job):
            self._linked(job, inputs)

    @contextmanager
    def in_a_line(self, job: str) -> Iterator[None]:
        """Whatever is wrong with the files that are read for a job ends in Broken."""
        try:
            yield
        except Broken:
            raise
        except UserError as error:
            raise Broken(f"{error}; to mend: {self.again(job)}") from None
        except (KeyError, TypeError, AttributeError, IndexError, ValueError) as error:
            told = f"lacks {error}" if isinstance(error, KeyError) else str(error)
            where = self.place.record(job)
            raise Broken(f"{where}: not as this version writes it ({told}); to mend: {self.again(job)}") from None

    def record(self, job: str) -> dict[str, Any]:
        """The record of a job, read once it was found good, or now."""
        return self._seen.get(job) or self._read(job)

    def again(self, job: str) -> str:
        return self.place.again(self.wanted, job)

    def _read(self, job: str) -> dict[str, Any]:
        path = self.place.record(job)
        try:
            return read_json(path)
        except UserError as error:
            raise Broken(f"{error}; to mend: {self.again(job)}") from None

    def _linked(self, job: str, inputs: Iterable[str] | None = None) -> dict[str, Any]:
        """The record of a job that is the job's, asks what is asked now, and names the files that are there.

        ``inputs``: the inputs to look at, by default all.
        """
        place, path, record = self.place, self.place.record(job), self._read(job)
        if record["id"] != job:
            raise Broken(f"{path}: is the record of {record['id']}; to mend: {self.again(job)}")
        self.same(path, sha256_json(record["config"]), record["config_sha256"], path, job, "its configuration")
        self._asked(job, record)
        for name, sha256 in record["outputs"].items():
            self.hash(path.parent / name, sha256, path, job)
        if set(record["inputs"]) != set(place.jobs[job].inputs):
            raise Broken(f"{path}: names other inputs than its configuration; to mend: {self.again(job)}")
        for other in record["inputs"] if inputs is None else inputs:
            found, sha256 = place.manifest(other), record["inputs"][other]
            if not found.is_file():
                raise Broken(f"{found}: missing; {path} names it; to mend: {place.mend(self.wanted, other)}")
            if (now := sha256_file(found)) != sha256:
                self._differs(found, now, sha256, path, place.mend(self.wanted, other))
        if edits := place.plan.edits.get(job):
            self.edits[job] = edits
        return record

    def _asked(self, job: str, record: Mapping[str, Any]) -> None:
        """The configuration in a record is what is asked for now."""
        now, place = self.place.jobs[job].config(), self.place
        if record["config"] != now:
            changed = what_changed(place, job, record["config"])
            raise Broken(f"{place.record(job)}: stale: {changed}; to mend: {place.snakemake(self.wanted)}")

    def hashes(self, size: int) -> bool:
        """Whether files of one job that have so many bytes are hashed, or only their sizes compared."""
        return self.deep or size <= QUICK

    # --- for the checks -----------------------------------------------------------------------------------------------

    def hash(self, path: Path, expected: str, named_by: Path, job: str) -> None:
        """``path``, which ``job`` made, is the file that ``named_by`` names."""
        if not path.is_file():
            raise Broken(f"{path}: missing; {named_by} names it; to mend: {self.again(job)}")
        self.same(path, sha256_file(path), expected, named_by, job)

    def same(self, path: Path, found: str, expected: str, named_by: Path, job: str, what: str = "its sha256") -> None:
        if found != expected:
            self._differs(path, found, expected, named_by, self.again(job), what)

    def _differs(
        self, path: Path, found: str, expected: str, named_by: Path, mend: str, what: str = "its sha256"
    ) -> None:
        raise Broken(f"{path}: {what} is {found[:12]}…, {named_by} says {expected[:12]}…; to mend: {mend}")

    def summary(self) -> str:
        """Whether every link was followed to its end, in words."""
        said = "every link holds"
        if self.by_size:
            said += f", but of {self.by_size} files in sets above 4 GiB only the size was compared (--deep hashes them)"
        if self.edits:
            edits = {edit for edits in self.edits.values() for edit in edits}
            said += f"; accepted edits: {len(edits)}, of the code of {_count(self.edits, 'job')} (see {FILE})"
        return said


def _count(things: Collection[object], word: str) -> str:
    return f"{len(things)} {word}{'' if len(things) == 1 else 's'}"
