"""The chain from a table's cells down to the code: every link as a check that names the first that does not hold.

table files → their record → the configuration asked for now → probe records → the table's numbers → per-item results
→ runs' manifests → checkpoints → shard manifests → vocabulary → shards → resolved configurations. A link holds if the
hash that is written above it is the hash of what lies below, and if what lies there was made as asked now.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mdc.provenance import numbers
from mdc.provenance.differences import what_changed
from mdc.provenance.place import LOSS, SCHEDULES, TABLE, TARGETS, Broken, Place, target_of
from mdc.records import UserError, read_json, sha256_file, sha256_json
from mdc.report.estimates import Estimator
from mdc.report.figures import schedules
from mdc.report.figures.loss_curves_job import csv_text, curve
from mdc.report.figures.schedules_job import shown_of, track
from mdc.report.items import read_items
from mdc.shards.index import read_index, shard_list, verify_shard
from mdc.statistics.metrics import mean_average_precision

Check = Callable[[], Iterator[None]]
_QUICK = 4 << 30  # bytes of shards that are hashed for one cell


@dataclass(frozen=True)
class Cell:
    """What one number rests on: encoder ids, the probe sets, and the table's column."""

    encoders: tuple[str, ...]
    probes: tuple[str, ...]
    column: str


class TableChain:
    """A table of probes of a scale, or one ``cell`` of it. ``links`` are in the order of the chain."""

    def __init__(self, place: Place, cell: Cell | None = None, table: str = TABLE) -> None:
        self.place, self.cell, self.table = place, cell, table
        self.made: dict[str, Any] = {}
        self.records: dict[str, dict[str, Any]] = {}
        self.runs: dict[str, dict[str, Any]] = {}

    def links(self) -> list[tuple[str, Check]]:
        """(what is checked, a check that yields once for each that is good)."""
        return [
            (f"files that {self.table}.json names", self._files),
            ("copies in results/", lambda: copies(self.place, self.table, self.made)),
            ("configuration of the table", lambda: _configuration(self.place, self.table, self.made)),
            ("probe records", self._probe_records),
            ("numbers in csv files", self._numbers),
            ("per-item results", self._items),
            ("run manifests", self._run_manifests),
            ("checkpoints", self._checkpoints),
            ("shard manifests", self._shard_manifests),
            ("vocabulary", self._vocabulary),
            ("shards", self._shards),
            ("resolved configurations", self._configurations),
        ]

    def _again(self, job: str) -> str:
        return self.place.again(self.table, self.place.record(job))

    def _mend(self, job: str) -> str:
        return self.place.mend(self.table, job)

    def _encoders(self) -> list[str]:
        return [id_ for id_ in self.made["config"]["expected"] if self.cell is None or id_ in self.cell.encoders]

    def _probes(self) -> list[str]:
        return [p["key"] for p in self.made["config"]["probes"] if self.cell is None or p["key"] in self.cell.probes]

    # each of these is one link

    def _files(self) -> Iterator[None]:
        path = self.place.record(self.table)
        if not path.is_file():
            raise Broken(f"{path}: not there; to mend: {self._again(self.table)}")
        self.made = _made(self.place, self.table)
        yield from _outputs(self.place, self.table, self.made, self._again(self.table))

    def _probe_records(self) -> Iterator[None]:
        for id_ in self._encoders():
            job = f"probe/{id_}"
            path, again = self.place.record(job), self._again(job)
            _hash(path, self.made["inputs"].get(f"{job}/{path.name}"), self.place.record(self.table), self._mend(job))
            record = read_json(path)
            _named(path, record, job, again)
            _asked(self.place, job, record, path)
            self.records[id_] = record
            yield

    def _numbers(self) -> Iterator[None]:
        columns = None if self.cell is None else [self.cell.column]
        try:
            yield from numbers.check(self.place.folder, self.made["config"], self.records, columns)
        except Broken as error:
            raise Broken(f"{error}; to mend: {self._again(self.table)}") from None

    def _items(self) -> Iterator[None]:
        estimator = Estimator(mean_average_precision=mean_average_precision)
        for id_, record in self.records.items():
            path, again = self.place.record(f"probe/{id_}"), self._again(f"probe/{id_}")
            items_path = path.parent / record["items"]["file"]
            _hash(items_path, record["items"]["sha256"], path, again)
            items = read_items(items_path, record["items"]["sha256"])
            for probe in self._probes():
                told, found = record["probes"][probe], 100 * estimator.value(items[probe])
                # not ">": a NaN must not pass
                if told["n"] != items[probe].n or not abs(told["value"] - found) <= 1e-3:
                    raise Broken(
                        f"{path}: says {told['value']:.3f} over {told['n']} items on {probe}, {items_path.name} gives "
                        f"{found:.3f} over {items[probe].n}; to mend: {again}"
                    )
            yield

    def _run_manifests(self) -> Iterator[None]:
        for id_, record in self.records.items():
            path = self.place.record(f"probe/{id_}")
            if id_.startswith("untrained/"):
                if record["run_sha256"] is not None:
                    raise Broken(f"{path}: is of a trained encoder; to mend: {self._again(f'probe/{id_}')}")
                continue
            job = f"runs/{id_}"
            manifest = self.place.record(job)
            _hash(manifest, record["run_sha256"], path, self._mend(job))
            run = read_json(manifest)
            _named(manifest, run, job, self._again(job))
            _asked(self.place, job, run, manifest)
            self.runs[id_] = run
            yield

    def _checkpoints(self) -> Iterator[None]:
        for id_, run in self.runs.items():
            manifest, again = self.place.record(f"runs/{id_}"), self._again(f"runs/{id_}")
            path = manifest.parent / run["checkpoint"]["file"]
            _hash(path, run["checkpoint"]["sha256"], manifest, again)
            record = self.place.record(f"probe/{id_}")
            _same(record, self.records[id_]["encoder"]["weights_sha256"], run["checkpoint"]["sha256"], manifest, again)
            told = _weights_metadata(path, again).get("config_sha256")
            _same(path, told, run["config_sha256"], manifest, again, "the configuration it was trained with")
            yield

    def _vocabulary(self) -> Iterator[None]:
        if not self.runs:
            return
        job = "data/vocabulary"
        path, again = self.place.record(job), self._again(job)
        vocabulary = _read(path, again)
        found = sha256_json({key: vocabulary[key] for key in ("kind", "pieces") if key in vocabulary})
        for id_, run in self.runs.items():
            _same(path, found, run["inputs"]["vocabulary_sha256"], self.place.record(f"runs/{id_}"), self._mend(job))
        made = _made(self.place, job)
        yield from _outputs(self.place, job, made, again)
        _asked(self.place, job, made, self.place.made(job))
        for corpus, sha256 in made["inputs"].items():
            _hash(self.place.record(f"data/corpora/{corpus}"), sha256, self.place.made(job), again)

    def _sets(self) -> dict[str, list[tuple[Path, str]]]:
        """The data sets below the records, each with the records that name it: (record, sha256 of the index)."""
        found: dict[str, list[tuple[Path, str]]] = {}
        for id_, run in self.runs.items():
            named = self.place.record(f"runs/{id_}"), run["inputs"]["shards_sha256"]
            found.setdefault(f"data/corpora/{run['config']['corpus']}", []).append(named)
        for id_, record in self.records.items():
            for probe in self._probes():
                named = self.place.record(f"probe/{id_}"), record["sets"][probe]
                found.setdefault(f"data/probes/{probe}", []).append(named)
        return found

    def _shard_manifests(self) -> Iterator[None]:
        for job, named in self._sets().items():
            index, again = self.place.record(job), self._again(job)
            if not index.is_file():
                raise Broken(f"{index}: missing; {named[0][0]} names it; to mend: {self._mend(job)}")
            found = sha256_file(index)
            for record, sha256 in named:
                _same(index, found, sha256, record, self._mend(job))
            yield from _data_set(self.place, job, again)

    def _shards(self) -> Iterator[None]:
        for job in self._sets():
            index, again = self.place.record(job), self._again(job)
            shards = shard_list(read_index(index))
            whole = self.cell is None or sum(shard["bytes"] for shard in shards) <= _QUICK
            for shard in shards:
                try:
                    verify_shard(index.parent / shard["file"], shard, whole)
                except UserError as error:
                    raise Broken(f"{str(error).partition(';')[0]}; to mend: {again}") from None
                yield

    def _configurations(self) -> Iterator[None]:
        """What the workflow wrote for the jobs; a clone that has not called it yet has none."""
        used = {self.table, "data/vocabulary", *self._sets(), *(f"runs/{i}" for i in self.runs)}
        used |= {f"probe/{id_}" for id_ in self.records}
        for job, config in self.place.configs.items():
            path = self.place.config(job)
            if job not in used or not path.is_file():
                continue
            written = read_json(path)
            if sha256_json(written) != sha256_json(config):
                changed = what_changed(self.place, job, written)
                raise Broken(f"{path}: not what is asked for: {changed}; to mend: {self.place.snakemake(self.table)}")
            yield


def _losses(manifest: Path, config: Mapping[str, Any]) -> str:
    return csv_text([curve(manifest)], config["labels"])


def _norms(manifest: Path, config: dict[str, Any]) -> str:
    return schedules.curves_text([track(manifest, config["clip_norm"])], shown_of(config))


def _steadiness(manifests: Sequence[Path], config: dict[str, Any]) -> str:
    shown = shown_of(config)
    tracks = [track(manifest, config["clip_norm"]) for manifest in manifests]
    return schedules.text(schedules.measure(tracks, shown), shown)


#: figure of the runs' logs → its file that holds all numbers of them, and how one run's stand there
LOGS: dict[str, tuple[str, Callable[[Path, dict[str, Any]], str]]] = {
    LOSS: (f"{LOSS}.csv", _losses),
    SCHEDULES: (f"{SCHEDULES}_curves.csv", _norms),
}

#: figure of the runs' logs → its file of numbers that follow from all of them together, and how they stand there
TOGETHER: dict[str, tuple[str, Callable[[Sequence[Path], dict[str, Any]], str]]] = {
    SCHEDULES: (f"{SCHEDULES}.csv", _steadiness),
}


class LogChain:
    """A figure of the runs' logs, one of ``LOGS``, down to them."""

    def __init__(self, place: Place, figure: str) -> None:
        self.place, self.figure = place, figure
        self.made: dict[str, Any] = {}

    def links(self) -> list[tuple[str, Check]]:
        """As :meth:`TableChain.links`."""
        return [
            (f"files that {self.figure}.json names", self._files),
            ("copies in results/", lambda: copies(self.place, self.figure, self.made)),
            ("configuration of the figure", lambda: _configuration(self.place, self.figure, self.made)),
            ("loss logs", self._logs),
            *([("numbers made from the logs", self._together)] if self.figure in TOGETHER else []),
        ]

    def _files(self) -> Iterator[None]:
        self.made = _made(self.place, self.figure)
        yield from _outputs(self.place, self.figure, self.made, self._again(self.figure))

    def _logs(self) -> Iterator[None]:
        name, written = LOGS[self.figure]
        config, path, record = self.made["config"], self.place.folder / name, self.place.record(self.figure)
        shown = path.read_text(encoding="utf-8").splitlines()[1:]
        position = 0
        for id_ in config["runs"]:
            manifest = self.place.record(f"runs/{id_}")
            named = self.made["inputs"].get(f"runs/{id_}/{manifest.name}")
            _hash(manifest, named, record, self.place.mend(self.figure, f"runs/{id_}"))
            lines = written(manifest, config).splitlines()[1:]
            if shown[position : position + len(lines)] != lines:
                log = manifest.parent / "log.jsonl"
                raise Broken(f"{log}: not the losses that {path} holds; to mend: {self._mend(f'runs/{id_}', log)}")
            position += len(lines)
            yield
        if position != len(shown):
            again = self._again(self.figure)
            raise Broken(f"{path}: {len(shown)} losses, the logs hold {position}; to mend: {again}")

    def _together(self) -> Iterator[None]:
        name, written = TOGETHER[self.figure]
        config, path = self.made["config"], self.place.folder / name
        expected = written([self.place.record(f"runs/{id_}") for id_ in config["runs"]], config).splitlines()
        found = path.read_text(encoding="utf-8").splitlines()
        for number, (mine, line) in enumerate(itertools.zip_longest(expected, found), 1):
            if mine != line:
                raise Broken(f"{path}, line {number}: not what the logs give; to mend: {self._again(self.figure)}")
            yield

    def _mend(self, job: str, log: Path) -> str:
        """A log that is as its run wrote it is newer than the figure; another one was changed."""
        try:
            as_made = read_json(self.place.host(job)).get("log_sha256") == sha256_file(log)
        except UserError:
            as_made = False
        return self._again(self.figure if as_made else job)

    def _again(self, job: str) -> str:
        return self.place.again(self.figure, self.place.record(job))


class MadeChain:
    """A table or figure made from data sets' manifests, or from the code alone."""

    def __init__(self, place: Place, table: str) -> None:
        self.place, self.table = place, table
        self.made: dict[str, Any] = {}

    def links(self) -> list[tuple[str, Check]]:
        """As :meth:`TableChain.links`."""
        return [
            (f"files that {self.table}.json names", self._files),
            ("copies in results/", lambda: copies(self.place, self.table, self.made)),
            ("configuration", lambda: _configuration(self.place, self.table, self.made)),
            ("manifests of the data", self._data),
        ]

    def _files(self) -> Iterator[None]:
        self.made = _made(self.place, self.table)
        yield from _outputs(self.place, self.table, self.made, self.place.again(self.table, self._record))

    def _data(self) -> Iterator[None]:
        for name, sha256 in self.made["inputs"].items():
            path, job = self.place.folder / name, str(Path(name).parent)
            if job not in self.place.configs:
                raise Broken(f"{self._record}: {name} is none of this scale; {self._anew}")
            _hash(path, sha256, self._record, self.place.mend(self.table, job))
            yield from _data_set(self.place, job, self.place.again(self.table, path))

    @property
    def _record(self) -> Path:
        return self.place.record(self.table)

    @property
    def _anew(self) -> str:
        return f"to mend: {self.place.again(self.table, self._record)}"


def walk(links: Sequence[tuple[str, Check]], mend: str) -> Iterator[tuple[str, Iterator[None]]]:
    """The links with checks that raise Broken whatever is wrong with the files that they read."""
    for title, check in links:
        yield title, _told(title, check, mend)


def _told(title: str, check: Check, mend: str) -> Iterator[None]:
    try:
        yield from check()
    except Broken:
        raise
    except UserError as error:
        raise Broken(f"{error}; to mend: {mend}") from None
    except (KeyError, TypeError, AttributeError, IndexError, ValueError) as error:
        told = f"lacks {error}" if isinstance(error, KeyError) else str(error)
        raise Broken(f"{title}: one is not as this version writes it ({told}); to mend: {mend}") from None


def copies(place: Place, table: str, made: Mapping[str, Any]) -> Iterator[None]:
    """The files at ``results/`` against the scale's own; none are looked at if they are another scale's."""
    if published_scale(place, table) not in (None, place.params.scale):
        return
    for name in [*made["outputs"], place.record(table).name]:
        copy, own = place.results / name, place.record(table).parent / name
        if not copy.exists() and published_scale(place, table) is None:
            continue
        _hash(copy, sha256_file(own), own, place.again(table, place.results / TARGETS[table]))
        yield


def published_scale(place: Place, table: str) -> str | None:
    """The scale that the copies at ``results/`` are of, as their record says; None if there is no record."""
    try:
        return str(read_json(place.results / place.record(table).name)["config"]["scale"])
    except (UserError, KeyError, TypeError):
        return None


def _weights_metadata(path: Path, again: str) -> dict[str, str]:
    """What a weights file says about itself; its tensors are not read."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(str(path), framework="numpy") as file:
            return dict(json.loads(file.metadata()["mdc"]))
    except (OSError, SafetensorError, KeyError, TypeError, ValueError) as error:
        raise Broken(f"{path}: not a weights file of this project ({error}); to mend: {again}") from None


def _made(place: Place, job: str) -> dict[str, Any]:
    path, again = place.made(job), place.again(target_of(job), place.record(job))
    made = _read(path, again)
    _named(path, made, job, again)
    return made


def _read(path: Path, again: str) -> dict[str, Any]:
    try:
        return read_json(path)
    except UserError as error:
        raise Broken(f"{error}; to mend: {again}") from None


def _named(path: Path, record: Mapping[str, Any], job: str, again: str) -> None:
    """A record is that of its folder's job, and holds the configuration that it names."""
    if record["id"] != job:
        raise Broken(f"{path}: is the record of {record['id']}; to mend: {again}")
    _same(path, sha256_json(record["config"]), record["config_sha256"], path, again, "its configuration")


def _configuration(place: Place, table: str, made: Mapping[str, Any]) -> Iterator[None]:
    _asked(place, table, made, place.record(table))
    yield


def _asked(place: Place, job: str, record: Mapping[str, Any], path: Path) -> None:
    """The configuration in a job's record at ``path`` is what params.yaml and the code ask for now."""
    if sha256_json(record["config"]) != sha256_json(place.configs[job]):
        changed = what_changed(place, job, record["config"])
        raise Broken(f"{path}: stale: {changed}; to mend: {place.snakemake(target_of(job))}")


def _data_set(place: Place, job: str, again: str) -> Iterator[None]:
    """A data set is as its job wrote it, asked for so, and made from the datasets that are there."""
    made = _made(place, job)
    yield from _outputs(place, job, made, again)
    _asked(place, job, made, place.made(job))
    for other, sha256 in made["inputs"].items():
        if other not in place.configs:
            raise Broken(f"{place.made(job)}: {other} is none of this scale; to mend: {again}")
        path = place.record(other)
        _hash(path, sha256, place.made(job), again)
        obtained = _made(place, other)
        yield from _outputs(place, other, obtained, again)
        _asked(place, other, obtained, place.made(other))


def _outputs(place: Place, job: str, made: Mapping[str, Any], again: str) -> Iterator[None]:
    path = place.made(job)
    for name, sha256 in made["outputs"].items():
        _hash(path.parent / name, sha256, path, again)
        yield


def _hash(path: Path, expected: str | None, named_by: Path, again: str) -> None:
    """A file is the one that ``named_by`` names."""
    if expected is None:
        raise Broken(f"{named_by}: does not name {path}; to mend: {again}")
    if not path.is_file():
        raise Broken(f"{path}: missing; {named_by} names it; to mend: {again}")
    _same(path, sha256_file(path), expected, named_by, again)


def _same(path: Path, found: str | None, expected: str, named_by: Path, again: str, what: str = "its sha256") -> None:
    if found != expected:
        shown = "nothing" if found is None else f"{found[:12]}…"
        raise Broken(f"{path}: {what} is {shown}, {named_by} says {expected[:12]}…; to mend: {again}")
