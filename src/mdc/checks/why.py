"""The verb ``mdc why``: one number of a table, the records behind it, and whether their links hold."""

import argparse
import csv
import difflib
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import StatisticsError, fmean
from textwrap import indent
from typing import Any

import yaml

from mdc.checks.chain import Broken, Chain, read
from mdc.plan.artefacts import declared
from mdc.plan.config.read import load
from mdc.plan.jobs.folder import ScaleFolder
from mdc.plan.outputs import RESULTS, again
from mdc.plan.records import NOT_OURS, UserError, did_you_mean, sha256_file
from mdc.plan.verbs import VERBS
from mdc.report.frame import AVERAGE, OF_SYSTEMS, POOLINGS

Line = dict[str, str]
_TOLERANCE = 5e-4  # csv files have six digits, and values come from float32 items
#: rows without a system → the column of the csv files that holds their values
_LEVELS = {"chance": "chance", "perfect scorer": "ceiling"}
_LEVELS |= dict.fromkeys(("best shortcut", "most frequent class"), "shortcut")
#: jobs of these stages decide a number; their configurations and versions are printed
_CONFIGURED = ("trainings", "probes", "scoring", "captions")


def main(args: argparse.Namespace) -> None:
    """``args``: table (its csv, or a name with ``scale``), row, column, params, deep. Raises Broken if its chain is broken."""
    path = Path(args.table)
    if path.name == args.table and not path.suffix:
        path = RESULTS / load(args.params, args.scale).scale / path / f"{path}.csv"
    scale = (lines(path)[0].get("scale") or "").split(" ")[0] if path.is_file() and path.suffix == ".csv" else ""
    chain = Chain(args.params, scale or None, args.deep)
    artefact = next((name for name, job in chain.shown.items() if path.name in job.files), None)
    if artefact is None or not scale:
        known = [file for job in chain.shown.values() for file in job.files if file.endswith(".csv")]
        hint = did_you_mean(path.name, known) or f"; numbers are in {', '.join(known)}"
        raise UserError(f"{path}: not there, or no csv file of a table or figure with its scale{hint}")
    if args.scale not in (None, scale):
        raise UserError(f"{path}: of scale {scale}, and --scale says {args.scale}")
    chain.results = path.parents[2] if path.parent.name == artefact else path.parent
    chain.folder = ScaleFolder(chain.results / scale)
    try:
        _why(chain, artefact, path, args.row, args.column)
    except NOT_OURS as error:
        raise Broken(f"{path}: a file behind it is not as this version writes it ({error!r}); {again(path)}") from None


def _why(chain: Chain, artefact: str, asked: Path, row: str, column: str) -> None:
    job, path = chain.shown[artefact], chain.folder.job(artefact) / asked.name
    rows, numbers = lines(path), path.with_name(f"{artefact}_long.csv")
    if path.name == f"{artefact}.csv" and numbers.is_file() and are_numbers(lines(numbers)):
        # the long format has a line for each number of a table in the paper's layout
        path, rows = numbers, lines(numbers)
    if are_numbers(rows) and (level := _LEVELS.get(row.strip().casefold())):
        values = {line["label"].casefold(): f"{float(line[level]):.1f}" for line in rows if line[level]}
        if (key := column.strip().casefold()) not in values:
            raise UserError(f"no column '{column}' in row '{row}'; columns: {', '.join(values) or 'none'}")
        print(f"{row} on {column}: {values[key]} per cent; it is of no encoder, only of the set (its index.json)")
        return
    chosen, heading = choose(rows, row, column)
    runs = _runs(path.with_name(f"{artefact}_runs.csv"), chosen)
    # a line of one record, of some systems, or of all inputs of its table
    records = [chosen["record"]] if "record" in chosen else [run["record"] for run in runs] or job.inputs
    if unknown := next((record for record in records if record not in chain.jobs), None):
        raise Broken(
            f"{asked}: {unknown} is no job of the present parameters; if made with --config, put those values into "
            f"scales/{chain.scale}.yaml; {again(path)}"
        )
    paper = "" if chain.scale == "paper" else ": not a reproduction of the paper's numbers"
    print(f"{declared(artefact, job.kind, job.title).title}, scale {chain.scale}{paper}")
    print(f"{name(chosen) if are_numbers(rows) else row}\n")
    _tell({"value": chosen[heading], **{key: cell for key, cell in chosen.items() if key != heading}})
    broken, told, columns = None, records, dict[str, str]()
    if are_numbers(rows):
        # all columns for an average, none for a judge's choice
        apart = job.config().get("reported_separately", []) if chosen["label"] == AVERAGE else []
        entries = [entry for entry in job.config().get("columns", []) if entry["key"] not in apart]
        columns = {entry["key"]: entry["label"] for entry in entries if chosen["label"] in (entry["label"], AVERAGE)}
        runs = [run for run in runs if run["system"] == chosen["system"]]  # not its control's
        told = [run["record"] for run in runs]
        value = _recomputed(chain, columns, {run["record"]: run["run"] for run in runs if run["role"] == "result"})
        # not ">": a NaN must not pass
        if value is not None and not abs(float(chosen["value"]) - value) <= _TOLERANCE:
            said = f"{name(chosen)} is {float(chosen['value']):.4f}, its records give {value:.4f}"
            broken = Broken(f"{path}: {said}; {again(path)}")
    try:
        # of the table's own inputs only those of this number
        deque(chain.check([*chain.behind(records), artefact], {artefact: records}), 0)
        own = path.with_name(asked.name)
        if sha256_file(asked) != sha256_file(own):
            raise Broken(f"{asked}: not the copy of {own}; to mend: {chain.update(artefact)} --forcerun {artefact}")
        _tell({"chain": chain.summary()})
    except Broken as error:
        broken = error
        _tell({"chain": f"BROKEN: {error}"})
    unused = {f"data/probes/{probe}" for probe in chain.plan.scale.data.probes if columns and probe not in columns}
    behind = sorted(chain.behind(told), key=lambda name: name.startswith("data/"))
    _story(chain, [*(name for name in behind if name not in unused), artefact])
    if broken is not None:
        raise broken


def _tell(facts: Mapping[str, Any]) -> None:
    """Print ``name  value`` for each fact that is known."""
    for name, value in facts.items():
        if isinstance(value, dict):
            text = yaml.safe_dump(value, sort_keys=False, default_flow_style=None, width=100, allow_unicode=True)
            print(f"  {name}\n{indent(text.rstrip(), '    ')}")
        elif value not in (None, ""):
            print(f"  {name:<11} {value}")


def _runs(path: Path, chosen: Line) -> list[Line]:
    """The lines of a table's runs that a number, or the difference of two systems, is computed from."""
    if not path.is_file() or chosen.get("kind", "difference") not in OF_SYSTEMS:
        return []
    systems = dict.fromkeys(chosen[key] for key in ("system", "first", "second", "control") if chosen.get(key))
    runs = [run for run in lines(path) if chosen.get("metric") == "chosen" or run["role"] != "judge"]
    return [run for system in systems for run in runs if run["system"] == system]


def _recomputed(chain: Chain, columns: Mapping[str, str], runs: Mapping[str, str]) -> float | None:
    """Tell what the records of ``runs`` (record → run) give for each of ``columns`` (key → label) and each seed; returns the
    mean, None if a record has no such value. Numbers that no record holds are checked by `mdc verify`, which rebuilds."""
    try:
        values = [[float(read(chain.record(name))["probes"][key]["value"]) for key in columns] for name in runs]
        by_seed, by_column = list(map(fmean, values)), list(map(fmean, zip(*values, strict=True)))
        mean = fmean(by_seed)
    except (KeyError, TypeError, StatisticsError):
        _tell({"by seed": ", ".join(runs.values())})
        return None
    parts = [("mean of", columns, by_column)] if len(columns) > 1 else []
    for key, names, means in (*parts, ("by seed", runs, by_seed)):
        told = (f"{name} {value:.4f}" for name, value in zip(names.values(), means, strict=True))
        _tell({key: ", ".join(told)})
    _tell({"recomputed": f"{mean:.4f}"})
    return mean


def _story(chain: Chain, jobs: Iterable[str]) -> None:
    """Tell the record and the host file of each job; the configuration and versions of the first of each verb."""
    told = set[str]()
    versions: dict[str, str] | None = None
    for job in jobs:
        path, record, host, verb = chain.record(job), read(chain.record(job)), chain.host(job), chain.jobs[job].verb
        print(f"\n{job}")
        _tell({"record": path if path.is_file() else f"{path} is missing"})
        _tell({key: record.get(key) for key in ("steps", "samples_seen", "loss", "outputs")})
        _tell(host or {"command": "not known: no host file of this record is here"})
        _tell({} if host.get("log") else {"log": chain.folder.log(job)})
        for edit in chain.plan.edits.get(job, []):
            _tell({"edit": f"code {edit.old[:12]}… → {edit.new[:12]}…, accepted on {edit.date}: {edit.reason}"})
        if record and verb not in told and VERBS[verb].stage in _CONFIGURED:
            told.add(verb)
            _tell(
                {"versions": record["versions"] if record["versions"] != versions else None, "config": record["config"]}
            )
            versions = record["versions"]


# --- cells of csv files -----------------------------------------------------------------------------------------------


def lines(path: Path) -> list[Line]:
    """The lines of a csv file as {heading: cell}. Broken if it cannot be read or is empty."""
    try:
        with path.open(encoding="utf-8", newline="") as stream:
            rows = list(csv.DictReader(stream))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise Broken(f"{path}: cannot be read ({error})") from None
    if not rows:
        raise Broken(f"{path}: holds no line")
    return rows


def are_numbers(rows: Sequence[Line]) -> bool:
    """Whether the file is in long format: each line one number of a table (see :class:`mdc.report.frame.Number`)."""
    return {"system", "label", "control", "value"} <= rows[0].keys()


def labels(line: Line) -> list[str]:
    """A number's dataset, backbone and method, as tables show them; without a dataset the pooling is added."""
    pooling = POOLINGS.get(line["pooling"], line["pooling"]) if line["dataset"] == "none" else ""
    return [line["dataset"], line["backbone"], ", ".join(filter(None, (line["method"], pooling)))]


def name(line: Line) -> str:
    """A number's row labels and column label."""
    return f"{', '.join(labels(line))}: {line['label']}"


def choose(table: Sequence[Line], row: str, column: str) -> tuple[Line, str]:
    """The one line that matches ``row`` and ``column``, and the heading of the requested cell.

    ``row``: the line's first cell, or enough of its cells and labels, separated by commas, to identify it. A match in the given
    order has priority: in a comparison the order distinguishes the two sides. ``column``: a heading; in long format a label, its
    key, a dataset, or several of these. UserError if no line matches (the closest rows or columns are listed) or several do
    (they are listed).
    """
    numbers, requested, datasets = are_numbers(table), _parts(row), {line.get("dataset", "") for line in table}
    wanted = {*_parts(column)} if numbers else {column.strip().casefold()}

    def rank(line: Line) -> int:
        cells = [*line.values(), *(labels(line) if numbers else ())]
        words, in_order = {*map(str.casefold, cells), *_parts(",".join(cells))}, iter(_parts(",".join(line.values())))
        fits = [
            cells[0].casefold() == row.strip().casefold(),
            all(part in in_order for part in requested),
            {*requested} <= words,
            numbers and {*requested} <= words | {*line["system"].casefold().split("/")},
        ]
        return len(fits) - fits.index(True) if requested and any(fits) else 0

    def columns(line: Line) -> Iterable[str]:
        """An encoder that was trained on no dataset is shown under every dataset."""
        under = datasets if line.get("dataset") == "none" else {line.get("dataset", "")}
        return [line["label"], line["column"], *under] if numbers else line

    def called(line: Line) -> str:
        """Its labels, or its cells without scale and keys."""
        hidden = ("scale", "artefact", "system", "record")
        return name(line) if numbers else ", ".join(cell for key, cell in line.items() if cell and key not in hidden)

    best = max(map(rank, table))
    in_row = [line for line in table if best and rank(line) == best]
    if not in_row:
        named = [", ".join(labels(line)) if numbers else called(line) for line in table]
        raise UserError(f"no row '{row}'; rows: {'; '.join(_closest(row, named))}")
    fitting = [line for line in in_row if column.strip() and wanted <= {*map(str.casefold, columns(line))}]
    if not fitting:
        known = [line["label"] for line in table] if numbers else list(table[0])
        raise UserError(f"no column '{column}'; columns: {', '.join(_closest(column, known))}")
    # a number may appear in a figure several times, as that of untouched images in each of its panels
    apart = {
        (name(line), line["estimator"], line["system"]) if numbers else (*line.values(),): line for line in fitting
    }
    if len(apart) > 1:
        fits = "; ".join([*dict.fromkeys(map(called, fitting))][:12])
        raise UserError(f"row '{row}' and column '{column}' fit {len(apart)} lines: {fits}; say more")
    return fitting[0], "value" if numbers else next(head for head in fitting[0] if head.casefold() in wanted)


def _closest(text: str, names: Iterable[str]) -> list[str]:
    return difflib.get_close_matches(text, dict.fromkeys(names), 12, cutoff=0)


def _parts(text: str) -> list[str]:
    return [part.strip().casefold() for part in text.split(",") if part.strip()]
