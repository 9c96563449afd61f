"""The verb ``mdc why``: the provenance of one number of a table, in words."""

import argparse
from collections.abc import Collection, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from mdc.checks.cells import Line, are_numbers, choose, labels, lines, name
from mdc.checks.place import NOT_OURS, Broken, Place, format_problem, read
from mdc.checks.story import line, story
from mdc.checks.verify import place_of
from mdc.checks.walk import Walk
from mdc.plan.artefacts import declared
from mdc.plan.config.read import load
from mdc.plan.records import UserError, did_you_mean, sha256_file
from mdc.report.frame import AVERAGE, OF_SYSTEMS

_TOLERANCE = 5e-4  # csv files have six digits, and values come from float32 items


def main(args: argparse.Namespace) -> None:
    """``args``: table (its csv, or a name with ``scale``), row, column, params, deep. Raises Broken if its chain is broken."""
    if Path(args.table).name == args.table and not Path(args.table).suffix:
        args.table = f"results/{load(args.params, args.scale).scale}/{args.table}/{args.table}.csv"
    place, artefact = _artefact_of(Path(args.table), args.params)
    if args.scale not in (None, place.scale):
        raise UserError(f"{args.table}: of scale {place.scale}, and --scale says {args.scale}")
    try:
        _why(place, artefact, args)
    except NOT_OURS as error:
        problem = format_problem(error)
        raise Broken(
            f"{args.table}: a file behind it is not as this version writes it ({problem}); see `mdc verify`"
        ) from None


def _artefact_of(path: Path, params_file: str) -> tuple[Place, str]:
    """The scale's place, and the table or figure that the csv file ``path`` belongs to. UserError if there is none."""
    if not path.is_file():
        place = place_of(params_file, None)
        known = [file for job in place.shown.values() for file in job.files]
        hint = did_you_mean(path.name, known) or "; numbers are looked up in the csv files of tables and figures"
        made = f"; to make it: snakemake results/{path.name} --cores all"
        raise UserError(f"{path}: no such file{made if path.name in known else hint}")
    rows = lines(path) if path.suffix == ".csv" else []
    scale = (rows[0].get("scale") or "").split(" ")[0] if rows else ""
    if path.suffix == ".csv" and not scale:
        raise UserError(f"{path}: does not say of which scale it is; it is no csv file of this version")
    of_scale = place_of(params_file, scale or None)
    artefact = next((name for name, job in of_scale.shown.items() if path.name in job.files), None)
    if artefact is None or not scale:
        csv_files = ", ".join(file for job in of_scale.shown.values() for file in job.files if file.endswith(".csv"))
        raise UserError(f"{path}: numbers are looked up in the csv files of tables and figures: {csv_files}")
    results = path.parent.parent.parent if path.parent.name == artefact else path.parent
    return replace(of_scale, results=results), artefact


def _why(place: Place, artefact: str, args: argparse.Namespace) -> None:
    table, folder = Path(args.table), place.record(artefact).parent
    path = folder / table.name
    rows, numbers = lines(path), folder / f"{artefact}_long.csv"
    if path == folder / f"{artefact}.csv" and numbers.is_file() and are_numbers(lines(numbers)):
        # the long format has a line for each number of a table in the paper's layout
        path, rows = numbers, lines(numbers)
    job = place.shown[artefact]
    text = [f"{declared(artefact, job.kind, job.title).title}, scale {job.scale}"]
    if are_numbers(rows) and (level := args.row.strip().casefold()) in _LEVELS:
        print(_level(rows, level, args.column))
        return
    keys = {column["label"]: column["key"] for column in job.config().get("columns", [])}
    chosen, heading = choose(rows, args.row, args.column)
    runs = _runs(folder / f"{artefact}_runs.csv", chosen)
    # a line of one record, of some systems, or of all inputs of its table
    records = [chosen["record"]] if "record" in chosen else [run["record"] for run in runs] or job.inputs
    if unknown := next((record for record in records if record not in place.jobs), None):
        file = f"scales/{place.scale}.yaml"
        raise Broken(
            f"{table}: {unknown} is no job of the present parameters; if made with --config, put those values into {file}; "
            f"to mend: {place.again(artefact, artefact)}"
        )
    columns, stale = None, None
    if are_numbers(rows):
        # all columns for an average, none for a judge's choice
        apart = job.config().get("reported_separately", []) if chosen["label"] == AVERAGE else []
        columns = {k: label for label, k in keys.items() if chosen["label"] in (label, AVERAGE) and k not in apart}
        text[0] += "" if job.scale == "paper" else ": not a reproduction of the paper's numbers"
        runs = [run for run in runs if run["system"] == chosen["system"]]  # not its control's
        results = {run["record"]: run["run"] for run in runs if run["role"] == "result"}
        text += _number(place, rows, chosen, columns, results)
        stale = _value_broken(place, artefact, path, chosen, results, list(columns))
    else:
        difference = heading == "value" and chosen.get("low")
        interval = (
            f" [{float(chosen['low']):.3g}, {float(chosen['high']):.3g}] {chosen.get('unit', '')}".rstrip()
            if difference
            else ""
        )
        text += [f"{args.row}: {heading}", "", line("value", f"{chosen[heading]}{interval}")]
        text += [line(key, chosen[key]) for key in ("scope", "direction", "size") if difference and chosen.get(key)]
        if not job.inputs:
            text.append(line("config", f"`mdc config {artefact}` prints what decides it"))
    print("\n".join(text))
    broken = _check(place, artefact, table, records, args.deep) or stale
    told = records if columns is None else [run["record"] for run in runs]
    print("\n".join(story(place, _behind(place, artefact, told, columns))))
    if broken is not None:
        raise broken


def _runs(path: Path, chosen: Line) -> list[Line]:
    """The lines of a table's runs that a number, or the difference of two systems, is computed from."""
    if not path.is_file() or chosen.get("kind", "difference") not in OF_SYSTEMS:
        return []
    systems = dict.fromkeys(chosen[key] for key in ("system", "first", "second", "control") if chosen.get(key))
    runs = [run for run in lines(path) if chosen.get("metric") == "chosen" or run["role"] != "judge"]
    return [run for system in systems for run in runs if run["system"] == system]


# --- one number -----------------------------------------------------------------------------------------------------------


def _number(
    place: Place, rows: Sequence[Line], chosen: Line, columns: Mapping[str, str], results: Mapping[str, str]
) -> list[str]:
    """A number's line as text. ``columns``: those that it averages, key → label. ``results``: record → run."""
    interval = f" [{_short(chosen['low'])}, {_short(chosen['high'])}]" if chosen["low"] else ""
    text = [
        f"{name(chosen)} ({chosen['metric']})",
        "",
        line("value", f"{_short(chosen['value'])}{interval} {chosen['unit']}"),
    ]
    if chosen["interval"]:
        level = 100 * place.jobs[chosen["artefact"]].config()["statistics"]["level"]
        how = f"{level:g} %: {chosen['interval'].replace('_', ' ')}; scope: {chosen['scope']}"
        text.append(line("interval", how))
    # captions have no chance level
    chance = f"; chance level {_short(chosen['chance'])}" if chosen["chance"] else ""
    text += [line("n", f"{chosen['n']} test items{chance}"), line("estimator", chosen["estimator"])]
    if len(columns) > 1:
        values = {label: _value(place, results, [key]) for key, label in columns.items()}
        parts = [label if value is None else f"{label} {value:.1f}" for label, value in values.items()]
        text.append(line("mean of", ", ".join(parts)))
    if any(row["control"] == chosen["system"] for row in rows):
        text.append(line("control", "a reference that other rows are compared with"))
    if chosen["gain"]:
        # a figure may leave its control out
        control = next((row for row in rows if row["system"] == chosen["control"]), None)
        over = chosen["control"] if control is None else ", ".join(labels(control)[1:])
        gained = f" [{_signed(chosen['gain_low'])}, {_signed(chosen['gain_high'])}]" if chosen["gain_low"] else ""
        text.append(line("gain", f"{_signed(chosen['gain'])}{gained} points over {over}"))
    if chosen["published"]:
        text.append(line("paper", f"{chosen['published']} is printed in the paper"))
    each = [
        run if (mean := _value(place, [record], list(columns))) is None else f"{mean:.1f} ({run})"
        for record, run in results.items()
    ]
    return [*text, line("seeds", f"{chosen['seeds']}: {', '.join(dict.fromkeys(each))}")]


def _value(place: Place, records: Collection[str], columns: Sequence[str]) -> float | None:
    """The mean over seeds and columns of the records' values, in per cent; None if a record lacks one."""
    try:
        values = [read(place.record(record))["probes"][column]["value"] for record in records for column in columns]
    except (KeyError, TypeError):
        return None
    return float(sum(values) / len(values)) if values else None


def _value_broken(
    place: Place, artefact: str, path: Path, chosen: Line, results: Collection[str], columns: Sequence[str]
) -> Broken | None:
    """Broken if the number differs from its records. Numbers that no record holds are checked by `mdc verify`, which rebuilds."""
    value, shown = _value(place, results, columns), float(chosen["value"])
    # not ">": a NaN must not pass
    if value is None or abs(shown - value) <= _TOLERANCE:
        return None
    mend = place.again(artefact, artefact)
    return Broken(f"{path}: {name(chosen)} is {shown:.4f}, its records give {value:.4f}; to mend: {mend}")


#: rows without a system → the column of the csv files that holds their values
_LEVELS = {
    "chance": "chance",
    "best shortcut": "shortcut",
    "most frequent class": "shortcut",
    "perfect scorer": "ceiling",
}


def _level(rows: Sequence[Line], level: str, column: str) -> str:
    wanted, key = column.strip().casefold(), _LEVELS[level]
    value = next((row[key] for row in rows if row["label"].casefold() == wanted and row[key]), None)
    if value is None:
        names = ", ".join(dict.fromkeys(row["label"] for row in rows if row[key])) or "none"
        raise UserError(f"no column '{column}' in row '{level}'; columns: {names}")
    return f"{level} on {column}: {_short(value)} per cent; it is of no encoder, only of the set (its index.json)"


# --- the chain ----------------------------------------------------------------------------------------------------------


def _check(place: Place, artefact: str, table: Path, records: Sequence[str], deep: bool) -> Broken | None:
    """Walk down from the table's record and from ``records``; print and return the first broken link, if any.

    ``table``: the requested csv file, perhaps a copy.
    """
    with closing(Walk(place, deep)) as walk:
        try:
            walk.begin(
                [artefact, *dict.fromkeys(job for record in records for job in [record, *place.plan.ancestors(record)])]
            )
            walk.own(artefact, records)
            own = place.record(artefact).with_name(table.name)
            if sha256_file(table) != sha256_file(own):
                raise Broken(f"{table}: not the copy of {own}; to mend: {place.copy_again(artefact)}")
            for record in records:
                for _ in walk.jobs(record, artefact):
                    pass
        except Broken as error:
            print(line("chain", f"BROKEN: {error}"))
            return error
        print(line("chain", walk.summary()))
    return None


def _behind(place: Place, artefact: str, records: Sequence[str], columns: Mapping[str, str] | None) -> list[str]:
    """The jobs to describe: by seed the run and its probes, then their data, then the table.

    ``columns``: the number's probes, if not all.
    """
    runs: dict[str, None] = {}
    data: dict[str, None] = {}
    probes = place.plan.scale.data.probes
    unused = {f"data/probes/{name}" for name in probes if columns is not None and name not in columns}
    for record in records:
        for job in [*reversed(list(place.plan.ancestors(record))), record]:
            if job in unused:
                continue
            (data if job.startswith("data/") else runs)[job] = None
    return [*runs, *data, artefact]


def _short(number: str) -> str:
    return f"{float(number):.1f}"


def _signed(number: str) -> str:
    return f"{float(number):+.1f}"
