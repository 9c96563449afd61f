"""The verb ``mdc why``: everything that stands behind one number of a table, in words."""

from __future__ import annotations

import argparse
import difflib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from mdc.config import load
from mdc.provenance import numbers
from mdc.provenance.chain import Cell, TableChain, walk
from mdc.provenance.differences import leaves
from mdc.provenance.place import TABLE, Broken, Place
from mdc.records import UserError, read_json, sha256_file
from mdc.report.lines import AVERAGE

Ids = tuple[str, ...]
_INDENT = 14


def main(args: argparse.Namespace) -> None:
    """``args``: table (its csv), row, column, params; the scale is the csv's. Broken if its chain does not hold."""
    try:
        _why(args)
    except (KeyError, TypeError, AttributeError, IndexError, ValueError) as error:
        told = f"lacks {error}" if isinstance(error, KeyError) else str(error)
        raise Broken(
            f"{args.table}: a file behind it is not as this version writes it ({told}); see `mdc verify`"
        ) from None


def _why(args: argparse.Namespace) -> None:
    place = _place(Path(args.table), args.params)
    spec = _spec(place)
    column = choose_column(spec, args.column)
    if args.row.strip().casefold() == "chance":
        print(_chance(place, column))
        return
    ids = choose_row(spec, args.row)
    probes = numbers.benchmarks(spec)[column]
    print("\n".join(_number(place, spec, ids, column)))
    broken = _broken(place, spec, ids, column)
    chain = "every link holds, from this number to its shards and configuration" if broken is None else str(broken)
    print(_line("chain", chain if broken is None else f"BROKEN: {chain}"))
    print("\n".join(_jobs(place, ids, probes)))
    if broken is not None:
        raise broken


def _place(path: Path, params_file: str) -> Place:
    """The scale whose table ``path`` is, from the table's own column."""
    if not path.is_file():
        made = f"`snakemake {path} --cores all` makes it" if path.name == f"{TABLE}.csv" else "name a table's csv"
        raise UserError(f"{path}: no such file; {made}")
    if path.suffix != ".csv" or not path.name.startswith(TABLE):
        raise UserError(f"{path}: numbers are looked up in {TABLE}.csv")
    lines = numbers.rows(path)
    scale = (lines[0].get("scale") or "").split(" ")[0] if lines else ""
    if not scale:
        raise UserError(f"{path}: does not say of which scale it is; it is no {TABLE}.csv of this project")
    results = path.parent.parent if path.parent.name == scale and path.parent.parent.name else path.parent
    return Place(load(params_file, scale), scale != load(params_file).scale, results)


def _spec(place: Place) -> dict[str, Any]:
    path = place.record(TABLE)
    try:
        return dict(read_json(path)["config"])
    except (KeyError, TypeError, ValueError):
        raise Broken(f"{path}: not the record of a table; to mend: {place.again(TABLE, path)}") from None


# --- which row, which column --------------------------------------------------------------------------------------------


def choose_column(spec: Mapping[str, Any], text: str) -> str:
    """The table's column with this label or key; UserError names the columns, the closest first."""
    names = {label.casefold(): label for label in numbers.benchmarks(spec)}
    names |= {probe["key"].casefold(): probe["label"] for probe in spec["probes"]}
    wanted = text.strip().casefold()
    if wanted in names:
        return names[wanted]
    raise UserError(f"no column '{text}'; columns: {', '.join(_closest(text, list(numbers.benchmarks(spec))))}")


def choose_row(spec: Mapping[str, Any], text: str) -> Ids:
    """The encoders of the one row that ``text`` fits: labels or keys in any order, comma between, some may be left out.

    UserError if it fits none (the rows, the closest first) or several (these).
    """
    rows = numbers.encoder_rows(spec)
    wanted = [part.strip().casefold() for part in text.split(",") if part.strip()]
    fitting = [ids for ids in rows if wanted and set(wanted) <= _words(ids, spec)]
    if len(fitting) == 1:
        return fitting[0]
    names = {_name(ids, spec): ids for ids in fitting or rows}
    if fitting:
        raise UserError(f"row '{text}' is one of {len(fitting)}: {'; '.join(names)}; say more")
    raise UserError(f"no row '{text}'; rows: {'; '.join(_closest(text, list(names)))}")


def _words(ids: Ids, spec: Mapping[str, Any]) -> set[str]:
    """What a row may be called: its labels, whole and between their commas, its keys, and its encoders' ids."""
    shown = numbers.labels(ids, spec)
    parts = [part.strip() for label in shown for part in label.split(",")]
    return {word.casefold() for word in (*shown, *parts, *ids[0].split("/")[:3], *ids, ids[0].rpartition("/")[0])}


def _name(ids: Ids, spec: Mapping[str, Any]) -> str:
    return ", ".join(numbers.labels(ids, spec))


def _closest(text: str, names: Sequence[str]) -> list[str]:
    def likeness(name: str) -> float:
        return difflib.SequenceMatcher(None, text.casefold(), name.casefold()).ratio()

    return sorted(names, key=lambda name: -likeness(name))[:12]


# --- the number ---------------------------------------------------------------------------------------------------------


def _number(place: Place, spec: Mapping[str, Any], ids: Ids, column: str) -> list[str]:
    line = next(
        (
            line
            for line in numbers.rows(place.folder / f"{TABLE}_long.csv")
            if line["run"] == " ".join(ids) and line["benchmark"] == column
        ),
        None,
    )
    if line is None:
        path, again = place.folder / f"{TABLE}_long.csv", place.again(TABLE, place.record(TABLE))
        raise Broken(f"{path}: lacks {column} of {' '.join(ids)}; to mend: {again}")
    paper = place.params.scale == "paper"
    said = [
        f"Table 1, scale {spec['scale_label']}" + ("" if paper else ": not a reproduction of the paper's numbers"),
        f"{', '.join(numbers.labels(ids, spec))}: {column} ({line['metric']})",
        "",
        _line("value", f"{_short(line['value'])} [{_short(line['low'])}, {_short(line['high'])}] per cent"),
        _line("interval", f"95 %: {line['interval']}"),
        _line("n", f"{line['n']} test items; chance level {_short(line['chance'])}"),
    ]
    if column == AVERAGE:
        parts = [
            f"{name} {_mean(place, ids, probes)}"
            for name, probes in numbers.benchmarks(spec).items()
            if name != AVERAGE
        ]
        said.append(_line("mean of", ", ".join(parts)))
    if ids[0].startswith("untrained/"):
        said.append(_line("encoder", "initial weights, never trained: the control of the rows with its backbone"))
    else:
        interval = f"[{_signed(line['gain_low'])}, {_signed(line['gain_high'])}]"
        over = numbers.labels(numbers.control(ids, spec), spec)[2]
        said.append(_line("gain", f"{_signed(line['gain'])} {interval} points over the same encoder {over}"))
    if line.get("published"):
        said.append(_line("paper", f"{line['published']} is printed in the paper's Table 1"))
    said.append(_line("seeds", f"{line['seeds']}: {', '.join(_seed(place, spec, id_, column) for id_ in ids)}"))
    return said


def _chance(place: Place, column: str) -> str:
    path = place.folder / f"{TABLE}_long.csv"
    found = next((line["chance"] for line in numbers.rows(path) if line["benchmark"] == column), None)
    if found is None:
        raise Broken(f"{path}: lacks {column}; to mend: {place.again(TABLE, place.record(TABLE))}")
    return (
        f"chance on {column}: {_short(found)} per cent, what guessing would score; no encoder stands behind it "
        "(the index.json of each probe set says how it follows from the classes)"
    )


def _seed(place: Place, spec: Mapping[str, Any], id_: str, column: str) -> str:
    return f"{_mean(place, [id_], numbers.benchmarks(spec)[column])} ({id_})"


def _mean(place: Place, ids: Sequence[str], probes: Sequence[str]) -> str:
    records = {id_: _read(place.record(f"probe/{id_}")) for id_ in ids}
    try:
        return f"{numbers.value(ids, probes, records):.1f}"
    except (KeyError, TypeError):
        return "unknown"


def _broken(place: Place, spec: Mapping[str, Any], ids: Ids, column: str) -> Broken | None:
    """The first link of this number's chain that does not hold, its control's included: a gain is over that."""
    trained = not ids[0].startswith("untrained/")
    encoders = (*ids, *(numbers.control(ids, spec) if trained else ()))
    cell = Cell(encoders, tuple(numbers.benchmarks(spec)[column]), column)
    try:
        for _, items in walk(TableChain(place, cell).links(), place.snakemake(TABLE)):
            for _ in items:
                pass
    except Broken as error:
        return error
    return None


# --- the jobs behind it -------------------------------------------------------------------------------------------------


def _jobs(place: Place, ids: Ids, probes: Sequence[str]) -> list[str]:
    """A section a job: first the probes and runs by seed, then the data and the table."""
    said: list[str] = []
    first: dict[str, Mapping[str, Any]] = {}
    versions: dict[str, Any] | None = None
    corpora: dict[str, None] = {}
    for id_ in ids:
        for layer in ("runs", "probe"):
            job = f"{layer}/{id_}"
            if job not in place.configs:
                continue
            record = _read(place.record(job))
            said += ["", *_job(place, job, record)]
            config = record.get("config", {})
            corpora |= {config["corpus"]: None} if layer == "runs" and "corpus" in config else {}
            if record.get("versions") != versions:
                versions = record.get("versions")
                said.append(_line("versions", _joined(versions)))
            said += _config(config, first.get(layer))
            first.setdefault(layer, config)
    data = [*(f"data/corpora/{c}" for c in corpora), *(["data/vocabulary"] if corpora else [])]
    for job in [*data, *(f"data/probes/{p}" for p in probes), TABLE]:
        if job in place.configs:
            said += ["", *_job(place, job, _read(place.made(job)))]
    return said


def _job(place: Place, job: str, record: Mapping[str, Any]) -> list[str]:
    path = place.record(job)
    said = [job, _line("record", str(path) if path.is_file() else f"{path} is missing")]
    if "checkpoint" in record:
        training = f"{record['steps']} steps, {record['samples_seen']} samples seen, last loss {record['loss']:.3f}"
        said.append(_line("training", training))
        file = path.parent / record["checkpoint"]["file"]
        said.append(_line("checkpoint", f"{file}, sha256 {record['checkpoint']['sha256'][:12]}…"))
    host = _host(place, job)
    if host is None:
        return [*said, _line("command", "not known: no host file of this record is here"), _log(place, job)]
    threads = f"{host['threads']} thread{'' if host['threads'] == 1 else 's'}" if "threads" in host else None
    where = ", ".join(filter(None, (host.get("device"), host["processor"], host["machine"], threads)))
    speed = f", {host['images_per_second']:.0f} images/s" if host.get("images_per_second") else ""
    earlier = f", {host['seconds_before']:.0f} s of them before a restart" if host.get("seconds_before") else ""
    said += [
        _line("command", host["command"]),
        _line("run time", f"{host['seconds']:.1f} s{earlier}{speed} ({where})"),
        _log(place, job, host["log"]),
    ]
    return said


def _host(place: Place, job: str) -> dict[str, Any] | None:
    """The host file of a job's record, if it is there and about this very record."""
    host, record = _read(place.host(job)), place.record(job)
    return host if host and record.is_file() and host.get("record_sha256") == sha256_file(record) else None


def _log(place: Place, job: str, told: str | None = None) -> str:
    path = Path(told) if told else place.log(job)
    return _line("log", str(path) if path.is_file() else f"{path} (not here)")


def _config(config: Mapping[str, Any], before: Mapping[str, Any] | None) -> list[str]:
    """A resolved configuration; of a later seed only what differs from the first's."""
    if not config:
        return []
    if before is not None:
        changed = ", ".join(f"{path} {new}" for path, _, new in leaves(before, config) if path != "job")
        return [_line("config", f"as the first seed's, but {changed}")]
    text = yaml.safe_dump(dict(config), sort_keys=False, default_flow_style=None, width=100, allow_unicode=True)
    return [_line("config", ""), *(f"    {line}" for line in text.rstrip().splitlines())]


def _read(path: Path) -> dict[str, Any]:
    """A record, or nothing where there is none: what is missing is told by the chain."""
    try:
        return read_json(path)
    except UserError:
        return {}


def _joined(versions: Mapping[str, str] | None) -> str:
    return ", ".join(f"{name} {version}" for name, version in (versions or {}).items()) or "not known"


def _line(name: str, text: str) -> str:
    return f"  {name:<{_INDENT - 2}}{text}".rstrip()


def _short(number: str) -> str:
    return f"{float(number):.1f}"


def _signed(number: str) -> str:
    return f"{float(number):+.1f}"
