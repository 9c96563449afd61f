"""What a scale's tables say of one run, if they are up to date."""

from __future__ import annotations

import csv
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from mdc.plan.jobs.folder import ScaleFolder
from mdc.plan.records import read_json, sha256_file
from mdc.plan.verbs import verb_of
from mdc.report.claimed import Claimed, claimed
from mdc.report.frame import POOLINGS

Row = dict[str, str]


@dataclass(frozen=True)
class Result:
    """A number of a ``table``: ``row``, its line of levels; ``what`` it is; ``gain``, the line of differences to its control."""

    table: str
    row: Row
    what: str
    gain: Row | None


@dataclass(frozen=True)
class Results:
    """``numbers`` of a run; ``claims`` that it is a side of, each with its table; (name, reason) of tables that are left out."""

    numbers: list[Result]
    claims: list[tuple[str, Claimed]]
    left_out: list[tuple[str, str]]


def results_of(scale: Path, run: str, weights: set[str]) -> Results:
    """What the tables in the ``scale``'s folder say of the run ``run`` (its id without "runs/"), by one of ``weights`` (last,
    best): of probes every number, of scores and captions the average, or without one what is claimed; a number that several
    tables show once. A table is left out if its records, by sha256, do not lead to the run as it is now.
    """
    results: dict[tuple[str, ...], Result] = {}
    claims, left_out = list[tuple[str, Claimed]](), list[tuple[str, str]]()
    folder, broken = ScaleFolder(scale), _broken_links(ScaleFolder(scale), f"runs/{run}")
    # Table 1 first
    for runs in sorted(scale.glob("*/*_runs.csv"), key=lambda path: (not path.name.startswith("table"), path)):
        table = runs.parent.name
        files = [runs, *(runs.with_name(f"{table}_{what}.csv") for what in ("long", "contrasts"))]
        of_runs, levels, differences = map(_rows, files)
        systems = {row["system"] for row in of_runs if row["run"] == run}
        numbers = [row for row in levels if row["system"] in systems and _shows(row, weights)]
        if not numbers:
            continue
        record = folder.record(table, "make")
        named = read_json(record).get("outputs", {}) if record.is_file() else {}
        changed = [file.name for file in files if file.is_file() and named.get(file.name) != sha256_file(file)]
        leads, reason = broken(table)
        if changed or reason or not leads:
            problem = f"{changed[0]} is not the file that its record names" if changed else reason
            problem = problem if record.is_file() else f"its record, {record.name}, is missing"
            left_out.append((table, problem or f"no record links it to runs/{run}"))
            continue
        gains = {(row["first"], row["column"]): row for row in differences if row["kind"] == "gain"}
        primary = [row for row in differences if row["primary"] == "True"]
        every = {row["column"] for row in numbers}
        columns = every & ({"average"} if "average" in every else {row["column"] for row in primary}) or every
        for row in numbers:
            if row["column"] in columns or row["pooling"] in POOLINGS:
                gain = gains.get((row["system"], row["column"]))
                key = _what(row), row["value"], row["low"], row["n"], gain["value"] if gain else ""
                results.setdefault(key, Result(table, row, _what(row), gain))
        sides = {row["system"] for row in numbers}
        claims += [(table, claimed(row)) for row in primary if sides & {row["first"], row["second"]}]
    return Results(list(results.values()), claims, left_out)


def _rows(path: Path) -> list[Row]:
    """The lines of a csv file; none if it is missing."""
    if not path.is_file():
        return []
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def _shows(row: Row, weights: set[str]) -> bool:
    # a table that names no weights is of the last ones, as probes are; costs are no results; nor are controls
    of_weights = (row.get("weights") or "last") in weights and row["metric"] != "cost"
    own = row.get("shown", "own") == "own" and not row["system"].endswith("/debiased")
    return of_weights and own and row.get("blind", "False") == "False"


def _what(row: Row) -> str:
    details = [row[name] for name in ("dataset", "method", "length")] if "length" in row else []
    details += [row["estimator"].replace("_", " "), row.get("per", "")]
    return ", ".join([row["label"], *(detail for detail in details if detail not in ("", "–"))])


def _broken_links(folder: ScaleFolder, run: str) -> Callable[[str], tuple[bool, str]]:
    """A function of a job: whether ``run`` is among its inputs, and which link to it has changed."""

    @cache
    def broken(job: str) -> tuple[bool, str]:
        record = folder.record(job, verb_of(job))
        leads, reason = job == run, ""
        for name, sha256 in (read_json(record).get("inputs", {}) if record.is_file() and not leads else {}).items():
            below, lost = broken(name)
            if below:
                manifest = folder.manifest(name, verb_of(name))
                changed = not manifest.is_file() or sha256_file(manifest) != sha256
                leads, reason = True, reason or lost or (f"{name} has been rebuilt since" if changed else "")
        return leads, reason

    return broken
