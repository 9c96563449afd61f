"""The chain of records behind results.

A job's record holds its configuration (``config``), its inputs (``inputs`` {job: sha256 of its manifest}) and its outputs
(``outputs`` {file: sha256}). The manifest of a set names its shards or arrays, each with its size and sha256 (``lists`` of
:class:`mdc.plan.verbs.Verb`); shards of lines name the tars of their images. A link holds if the record is the job's, its
configuration is the current one, and each input and each file has the named hash.
"""

import os
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

from mdc.data.shards.lines import is_lines, source_tar
from mdc.plan.config.read import load
from mdc.plan.config.yaml_core import read_yaml
from mdc.plan.jobs.accepted import FILE, read_accepted
from mdc.plan.jobs.folder import ScaleFolder
from mdc.plan.jobs.plan import Plan
from mdc.plan.jobs.shown import ArtefactJob
from mdc.plan.outputs import RESULTS, again, checked, snakemake
from mdc.plan.records import NOT_OURS, UserError, read_json, sha256_file, sha256_json
from mdc.plan.verbs import VERBS

QUICK = 4 << 30  # bytes of one set's files that are hashed without --deep
_ABSENT = "absent"


class Broken(UserError):
    """A link in the chain of records behind a number is broken."""

    exit_code = 3


#: a file, its sha256, the file that names it, and its size if only that is compared
Named = tuple[Path, str, Path, int | None]


class Chain:
    """The jobs of a scale as they are defined now, and their records in ``results``/SCALE.

    ``deep``: hash every file, however large. ``shown``: the tables and figures. ``linked``: jobs whose record is good; ``files``:
    those that these name.
    """

    def __init__(self, params: str, scale: str | None = None, deep: bool = False, results: Path = RESULTS) -> None:
        self.plan = Plan(load(params, scale), read_accepted(Path(params).parent))
        self.scale, self.jobs, self.results, self.deep = self.plan.params.scale, self.plan.jobs, results, deep
        self.shown = {name: job for name, job in self.jobs.items() if isinstance(job, ArtefactJob)}
        self.folder = ScaleFolder(results / self.scale)
        #: the scale, if a call of Snakemake must name it
        self._named = self.scale if scale is not None and scale != read_yaml(params).get("scale") else None
        self.sha256 = cache(sha256_file)
        self.linked: list[str] = []
        self.files: dict[Named, None] = {}

    def record(self, job: str) -> Path:
        return self.folder.record(job, self.jobs[job].verb)

    def manifest(self, job: str) -> Path:
        return self.folder.manifest(job, self.jobs[job].verb)

    def host(self, job: str) -> dict[str, Any]:
        """The host file of a job; empty if it belongs to another manifest than the present one."""
        host, manifest = read(self.folder.host(job)), self.manifest(job)
        return host if manifest.is_file() and host.get("manifest_sha256") == self.sha256(manifest) else {}

    def behind(self, jobs: Iterable[str]) -> list[str]:
        """``jobs`` and all that they are made from, each after its inputs."""
        wanted = {name for job in jobs for name in (job, *self.plan.ancestors(job))}
        return [name for name in self.jobs if name in wanted]

    def made(self, job: str) -> bool:
        """Whether a job has a record, or other files of one that is lost."""
        lost = self.folder.job(job).glob(f"{job}*") if job in self.shown else ()
        return self.record(job).is_file() or self.manifest(job).is_file() or any(lost)

    def update(self, job: str) -> str:
        """The call that brings a job and its inputs up to date."""
        target = RESULTS / self.shown[job].files[0] if job in self.shown else self.manifest(job)
        return snakemake(target, self._named)

    def check(self, jobs: Iterable[str], inputs: Mapping[str, Iterable[str]] | None = None) -> Iterator[None]:
        """Check the links between those of ``jobs`` that are made, then their files, several at a time; yields for each file.

        Each job comes after its inputs, so that the first broken link is the one to mend. ``inputs``: job → those of its inputs
        that are checked, by default all. Raises Broken at the first link that does not hold.
        """
        for job in filter(self.made, jobs):
            self.files |= dict.fromkeys(self._links(job, (inputs or {}).get(job)))
            self.linked.append(job)
        pool = ThreadPoolExecutor()
        try:
            yield from pool.map(self._whole, self.files)
        except UserError as error:
            raise Broken(str(error)) from None
        finally:
            pool.shutdown(cancel_futures=True)

    def summary(self) -> str:
        """What was checked, in words."""
        text = "every link holds"
        if sized := sum(size is not None for *_, size in self.files):
            text += f", but of {sized} files in sets above 4 GiB only the size was compared (--deep hashes them)"
        if edited := [self.plan.edits[job] for job in self.linked if job in self.plan.edits]:
            edits = len({edit for edits in edited for edit in edits})
            text += f"; accepted edits: {edits}, of the code of {len(edited)} job{'s' * (len(edited) > 1)} (see {FILE})"
        return text

    # --- one job ------------------------------------------------------------------------------------------------------

    def _links(self, job: str, inputs: Iterable[str] | None) -> list[Named]:
        """The files that a job's record and manifest name. Broken if the record is another job's, is stale, or names other inputs
        than the present ones."""
        path = self.record(job)
        try:
            record, now = read_json(path), self.jobs[job].config()
            if record["id"] != job:
                raise UserError(f"{path}: is the record of {record['id']}")
            if sha256_json(record["config"]) != record["config_sha256"]:
                raise UserError(f"{path}: its configuration is not the one that the job ran")
            if record["config"] != now:
                raise Broken(f"{path}: stale: {stale(job, record['config'], now)}; to mend: {self.update(job)}")
            if {*record["inputs"]} != {*self.jobs[job].inputs}:
                raise UserError(f"{path}: names other inputs than its configuration")
            for name in record["inputs"] if inputs is None else inputs:
                manifest = self.manifest(name)
                if not manifest.is_file() or self.sha256(manifest) != record["inputs"][name]:
                    # an input that was rerun since stays, and what is made from it follows; one that was changed does not
                    mend = f"to mend: {self.update(job)}" if self.host(name) else again(manifest)
                    raise Broken(f"{manifest}: missing, or not the file that {path} names; {mend}")
            return list(self._files(job, record["outputs"]))
        except Broken:
            raise
        except UserError as error:
            raise Broken(f"{error}; {again(path)}") from None
        except NOT_OURS as error:
            raise Broken(f"{path}: not as this version writes it ({error!r}); {again(path)}") from None

    def _files(self, job: str, outputs: Mapping[str, str]) -> Iterator[Named]:
        by, manifest, folder = self.record(job), self.manifest(job), VERBS[self.jobs[job].verb].lists
        yield from ((by.with_name(name), sha256, by, None) for name, sha256 in outputs.items())
        if log := self.host(job).get("log_sha256"):  # a log holds times, so no record names it
            yield by.with_name("log.jsonl"), log, self.folder.host(job), None
        listed: dict[Path, tuple[str, Path, int]] = {}
        for file in _entries(read_json(manifest)) if folder else ():
            path = Path(os.path.normpath(manifest.parent / folder / file["file"]))
            listed[path] = file["sha256"], manifest, file["bytes"]
            if "offsets" in file and is_lines(path) and path.is_file():
                tar = source_tar(path)
                listed[tar.path] = tar.sha256, path, tar.size
        hashed = self.deep or sum(size for *_, size in listed.values()) <= QUICK
        yield from ((path, sha256, by, None if hashed else size) for path, (sha256, by, size) in listed.items())

    def _whole(self, named: Named) -> None:
        path, sha256, by, size = named
        if size is None:
            checked(path, sha256, by, self.sha256)
        elif not path.is_file() or path.stat().st_size != size:
            raise UserError(f"{path}: missing, or not of the {size} bytes that {by} names; {again(by)}")


def read(path: Path) -> dict[str, Any]:
    """A record; empty if there is none that can be read."""
    try:
        return read_json(path)
    except UserError:
        return {}


def leaves(old: Any, new: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """(path, old value, new value) of every leaf that differs; a missing one is ``absent``. A list of values is a leaf; so is a
    list of mappings whose length changed."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in {**old, **new}:
            yield from leaves(old.get(key, _ABSENT), new.get(key, _ABSENT), f"{path}.{key}" if path else str(key))
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new) and {*map(type, old + new)} == {dict}:
        for number, parts in enumerate(zip(old, new, strict=True)):
            yield from leaves(*parts, f"{path}[{number}]")
    elif old != new:
        yield path, old, new


def stale(job: str, old: Any, new: Any) -> str:
    """How a job's configuration changed: the first value that differs; else the code; else the hash of an input."""
    path, was, now = min(leaves(old, new), key=lambda leaf: (len(str(leaf[2])) == 64, leaf[0] != "fingerprint"))
    if path == "fingerprint":
        return f"the code of {job} changed"
    if len(str(now)) == 64:
        return f"{path}, an input of {job}, has a new configuration"
    return f"of {job}, {path} was {was!r:.80} and is now {now!r:.80}"


def _entries(value: Any) -> Iterator[Mapping[str, Any]]:
    """The {file, bytes, sha256} entries of a manifest, at any depth."""
    if isinstance(value, dict) and {"file", "bytes", "sha256"} <= value.keys():
        yield value
    for part in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _entries(part)
