"""The verb ``mdc why``: everything that stands behind one number of a table, in words."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from mdc.checks.cells import Cell, cells, choose, choose_line, labels, lines, tidy_file
from mdc.checks.checks import CHECKS
from mdc.checks.copies import copy_again
from mdc.checks.place import Broken, Place
from mdc.checks.story import line, read, story
from mdc.checks.verify import place_of
from mdc.checks.walk import Walk
from mdc.plan.artefacts import declared
from mdc.plan.jobs.job import Job
from mdc.plan.jobs.shown import (
    LengthsJob,
    LossesJob,
    ProbingJob,
    RecipesJob,
    SchedulesJob,
    ShownRun,
    System,
    SystemsJob,
)
from mdc.plan.jobs.shown_captions import CaptionTableJob
from mdc.plan.records import UserError, sha256_file

_TOLERANCE = 2e-4  # tidy files have four decimals, and values come from float32 items


def main(args: argparse.Namespace) -> None:
    """``args``: table (its csv), row, column, params, deep; the scale is the csv's. Broken if its chain does not hold."""
    place, artefact = _asked(Path(args.table), args.params)
    try:
        _why(place, artefact, args)
    except (KeyError, TypeError, AttributeError, IndexError, ValueError) as error:
        told = f"lacks {error}" if isinstance(error, KeyError) else str(error)
        raise Broken(
            f"{args.table}: a file behind it is not as this version writes it ({told}); see `mdc verify`"
        ) from None


def _asked(path: Path, params_file: str) -> tuple[Place, str]:
    """The scale and the table or figure whose csv ``path`` is. UserError if it is none's."""
    if not path.is_file():
        raise UserError(f"{path}: no such file; `snakemake {path} --cores all` makes a table's csv at results/")
    found = lines(path) if path.suffix == ".csv" else []
    scale = (found[0].get("scale") or "").split(" ")[0] if found else ""
    if path.suffix == ".csv" and not scale:
        raise UserError(f"{path}: does not say of which scale it is; it is no csv file of this version")
    of_scale = place_of(params_file, scale or None)
    artefact = next((name for name, job in of_scale.shown.items() if path.name in job.files), None)
    if artefact is None or not scale:
        there = ", ".join(file for job in of_scale.shown.values() for file in job.files if file.endswith(".csv"))
        raise UserError(f"{path}: numbers are looked up in the csv files of tables and figures: {there}")
    results = path.parent.parent.parent if path.parent.name == artefact else path.parent
    return replace(of_scale, results=results), artefact


def _why(place: Place, artefact: str, args: argparse.Namespace) -> None:
    job = place.jobs[artefact]
    if not isinstance(job, SystemsJob) or Path(args.table).name not in (f"{artefact}.csv", tidy_file(artefact)):
        _plain(place, artefact, args)
        return
    found = cells(job, place.record(artefact).parent / tidy_file(artefact))
    if args.row.strip().casefold() == "chance":
        print(_chance(found, args.column))
        return
    cell = choose(found, args.row, args.column)
    print("\n".join(_number(place, job, cell)))
    systems = [cell.system, *(s for s in job.systems if s.key == cell.system.control)]
    records = list(dict.fromkeys([*(record for system in systems for record in system.records), *_judged(job, cell)]))
    broken = _check(place, artefact, Path(args.table), records, args.deep)
    broken = broken or _value_broken(place, job, cell)
    own = [*cell.system.records, *_judged(job, cell)]
    print("\n".join(story(place, _behind(place, artefact, own, _columns(job, cell)))))
    if broken is not None:
        raise broken


# --- a number of systems ------------------------------------------------------------------------------------------------


def _number(place: Place, job: SystemsJob, cell: Cell) -> list[str]:
    told, paper = cell.line, place.scale == "paper"
    title = declared(job.artefact, job.kind, job.title).title
    said = [
        f"{title}, scale {job.scale_label}" + ("" if paper else ": not a reproduction of the paper's numbers"),
        f"{', '.join(labels(cell.system))}: {told['benchmark']} ({told['metric']})",
        "",
        line("value", f"{_short(told['value'])} [{_short(told['low'])}, {_short(told['high'])}] per cent"),
        line("interval", f"{100 * job.statistics.level:g} %: {told['interval']}"),
        # of captions there is no guessing
        line("n", f"{told['n']} test items{f'; chance level {_short(chance)}' if (chance := told['chance']) else ''}"),
        line("estimator", cell.system.estimator),
    ]
    columns = _columns(job, cell)
    if len(columns) > 1:
        names = {column.key: column.label for column in job.columns}
        values = {
            c: f" {_mean(place, cell.system.records, [c])}" if isinstance(job, ProbingJob) else "" for c in columns
        }
        said.append(line("mean of", ", ".join(f"{names[c]}{values[c]}" for c in columns)))
    control = next((s for s in job.systems if s.key == cell.system.control), None)
    if cell.system.reference:
        said.append(line("encoder", "a reference that other rows are held against"))
    if control is not None and told.get("gain"):
        interval = f"[{_signed(told['gain_low'])}, {_signed(told['gain_high'])}]"
        said.append(line("gain", f"{_signed(told['gain'])} {interval} points over {', '.join(labels(control)[1:])}"))
    if told.get("published"):
        said.append(line("paper", f"{told['published']} is printed in the paper"))
    each = zip(cell.system.runs, cell.system.records, strict=True)
    if not isinstance(job, ProbingJob):
        return [*said, line("seeds", f"{told['seeds']}: {', '.join(run for run, _ in each)}")]
    seeds = ", ".join(f"{_mean(place, [record], columns)} ({run})" for run, record in each)
    return [*said, line("seeds", f"{told['seeds']}: {seeds}")]


def _columns(job: SystemsJob, cell: Cell) -> list[str]:
    """The keys of the columns that a number is of: one, all of an average, none if it is a judge's choice."""
    mine = [column.key for column in job.columns if column.label == cell.line["benchmark"]]
    return mine if mine or _judged(job, cell) else [column.key for column in job.columns]


def _judged(job: SystemsJob, cell: Cell) -> list[str]:
    """The records of the judge's choices that a number counts; none of any other number."""
    contests = job.contests if isinstance(job, CaptionTableJob) else ()
    corpus = cell.system.corpus
    here = [one for one in contests if corpus is not None and one.dataset == corpus.key]
    return [record for one in here if one.label == cell.line["benchmark"] for record in one.records]


def _value(place: Place, records: Sequence[str], columns: Sequence[str]) -> float | None:
    """Per cent: the mean over seeds and columns of what the records say; None where one is missing."""
    try:
        found = [read(place.record(record))["probes"][column]["value"] for record in records for column in columns]
    except (KeyError, TypeError):
        return None
    return float(sum(found) / len(found))


def _mean(place: Place, records: Sequence[str], columns: Sequence[str]) -> str:
    value = _value(place, records, columns)
    return "unknown" if value is None else f"{value:.1f}"


def _value_broken(place: Place, job: SystemsJob, cell: Cell) -> Broken | None:
    """The number is not what its records give; of a table of scores `mdc verify` tells, which makes it anew."""
    if not isinstance(job, ProbingJob):
        return None
    value = _value(place, cell.system.records, _columns(job, cell))
    told = float(cell.line["value"])
    # not ">": a NaN must not pass
    if value is None or abs(told - value) <= _TOLERANCE:
        return None
    path = place.record(job.job).parent / tidy_file(job.artefact)
    mend = place.again(job.job, job.job)
    return Broken(f"{path}: {cell.name} is {told:.4f}, its records give {value:.4f}; to mend: {mend}")


def _chance(found: Sequence[Cell], column: str) -> str:
    wanted = column.strip().casefold()
    told = next((c.line["chance"] for c in found if c.line["benchmark"].casefold() == wanted), None)
    if told is None:
        names = ", ".join(dict.fromkeys(cell.line["benchmark"] for cell in found))
        raise UserError(f"no column '{column}'; columns: {names}")
    return (
        f"chance on {column}: {_short(told)} per cent, what guessing would score; no encoder stands behind it "
        "(the index.json of each probe set says how it follows from the classes)"
    )


# --- a table that shows no measurement ----------------------------------------------------------------------------------


def _plain(place: Place, artefact: str, args: argparse.Namespace) -> None:
    """A cell of the recipes, the licences, the contrasts, a figure's numbers: what it says, and what its line is made from."""
    path = place.record(artefact).parent / Path(args.table).name
    told, column = choose_line(path, args.row, args.column)
    job = place.shown[artefact]
    title = declared(artefact, job.kind, job.title).title
    print(f"{title}, scale {job.scale}\n{args.row}: {column}\n")
    print(line("value", told[column]))
    for run in _runs_of(place, artefact, column):
        print(line("run", run))
    behind = _jobs_of(place.jobs[artefact], told)
    broken = _check(place, artefact, Path(args.table), behind, args.deep)
    print("\n".join(story(place, _behind(place, artefact, behind))))
    if broken is not None:
        raise broken


def _runs_of(place: Place, artefact: str, column: str) -> list[str]:
    """The runs that a cell of the recipes is about, and the job whose configuration says so."""
    job, table1 = place.jobs[artefact], place.jobs.get("table1")
    if not isinstance(job, RecipesJob) or not isinstance(table1, ProbingJob):
        return []

    def fits(system: System) -> bool:
        return system.corpus is not None and (system.corpus.label, system.backbone.label) == (column, job.backbone)

    told = [f"runs/{system.runs[0]}" for system in table1.systems if fits(system)]
    return [f"{run} (`mdc config {run}` prints what decides it)" for run in told]


def _jobs_of(job: Job, told: Mapping[str, str]) -> list[str]:
    """The inputs that a line of a csv file is about: the records, runs or set of captions whose labels it shows."""
    if isinstance(job, SystemsJob):
        return [record for system in job.systems if _shown_in(system, told) for record in system.records]
    if isinstance(job, LengthsJob):
        return [one.job for one in job.sets if one.label == told.get("label")]
    if not isinstance(job, LossesJob | SchedulesJob):
        return list(job.inputs)
    seeds = (told.get("seed") or told.get("seeds") or "").split()

    def fits(run: ShownRun) -> bool:
        shown = (run.corpus.label, run.backbone.label, str(run.seed) in seeds)
        return shown == (told.get("corpus"), told.get("backbone"), True) and run.method.label == told.get("method")

    return [run.job for run in job.runs if fits(run)]


def _shown_in(system: System, told: Mapping[str, str]) -> bool:
    """Whether a line of contrasts or trends is about a system, on either side."""
    dataset = system.corpus.label if system.corpus else "none"
    datasets = (told.get("dataset"), told.get("against_dataset"), *told.get("datasets", "").split("; "))
    methods = (told["method"], told.get("against"))
    here = "dataset" not in told or dataset in datasets
    return (
        here and system.method.label in methods and told.get("backbone", system.backbone.label) == system.backbone.label
    )


# --- the chain ----------------------------------------------------------------------------------------------------------


def _check(place: Place, artefact: str, table: Path, records: Sequence[str], deep: bool) -> Broken | None:
    """Walk from the table's record and from ``records`` down; print how it ended. The first link that does not hold.

    ``table``: the csv file that was asked about, perhaps a copy.
    """
    walk = Walk(place, CHECKS, deep)
    try:
        walk.own(artefact, records)
        own = place.record(artefact).parent / table.name
        if sha256_file(table) != sha256_file(own):
            raise Broken(f"{table}: not the copy of {own}; to mend: {copy_again(place, artefact)}")
        for record in records:
            for _ in walk.jobs(record, artefact):
                pass
    except Broken as error:
        print(line("chain", f"BROKEN: {error}"))
        return error
    print(line("chain", walk.summary()))
    return None


def _behind(place: Place, artefact: str, records: Sequence[str], columns: Sequence[str] | None = None) -> list[str]:
    """The jobs to tell of: by seed the run and its probes, then the data that they used, then the table.

    ``columns``: the probes that a number is of, if it is not of all.
    """
    found: dict[str, None] = {}
    data: dict[str, None] = {}
    probes = place.plan.scale.data.probes
    unused = {f"data/probes/{name}" for name in probes if columns is not None and name not in columns}
    for record in records:
        for job in [*reversed(list(place.plan.behind(record))), record]:
            if job in unused:
                continue
            (data if job.startswith("data/") else found)[job] = None
    return [*found, *data, artefact]


def _short(number: str) -> str:
    return f"{float(number):.1f}"


def _signed(number: str) -> str:
    return f"{float(number):+.1f}"
