"""What a scale's tables say of one run, if they are up to date."""

from __future__ import annotations

import csv
from dataclasses import dataclass, replace
from pathlib import Path

from mdc.plan.jobs.folder import ScaleFolder
from mdc.plan.records import read_json, sha256_file
from mdc.plan.verbs import verb_of
from mdc.report.claimed import Claimed, claimed
from mdc.report.frame import POOLINGS

Row = dict[str, str]


@dataclass(frozen=True)
class Result:
    """A number of a table: ``value`` with its 95 % interval ``shown`` as [low, high], of the kind ``interval``, over ``n`` items;
    ``seeds``: how many runs it averages; ``feature``: of a probe. ``gain``: points above its ``control``, with their interval.
    "–" where there is none, of ``chance``, ``control`` and ``interval`` "".
    """

    table: str
    what: str
    feature: str
    metric: str
    value: str
    shown: str
    gain: str
    control: str
    chance: str
    interval: str
    n: str
    seeds: str


@dataclass(frozen=True)
class Results:
    """``numbers`` of a run; ``claims`` that it is a side of, each with its table; (name, reason) of tables that are left out."""

    numbers: list[Result]
    claims: list[tuple[str, Claimed]]
    left_out: list[tuple[str, str]]


def results_of(scale: Path, run: str, weights: set[str]) -> Results:
    """What the tables in the ``scale``'s folder say of the run ``run`` (its id without "runs/"), by one of ``weights`` (last,
    best): of probes every number, of scores and captions the average, or without one what is claimed; a number that several
    tables show once.

    A table is left out if its chain of records, by sha256, does not lead to the run as it is now.
    """
    results: dict[Result, Result] = {}
    claims, left_out = list[tuple[str, Claimed]](), list[tuple[str, str]]()
    chain = _Chain(ScaleFolder(scale), f"runs/{run}")
    # Table 1 first
    for runs in sorted(scale.glob("*/*_runs.csv"), key=lambda path: (not path.name.startswith("table"), path)):
        table = runs.parent.name
        levels, contrasts = (runs.with_name(f"{table}_{what}.csv") for what in ("long", "contrasts"))
        systems = {row["system"] for row in _rows(runs) if row["run"] == run}
        numbers = [row for row in _rows(levels) if row["system"] in systems and _shows(row, weights)]
        if not numbers:
            continue
        if broken := next(filter(None, (chain.broken(table, file) for file in (runs, levels, contrasts))), ""):
            left_out.append((table, broken))
            continue
        differences, own = _rows(contrasts), {row["system"] for row in numbers}
        gains = {(row["first"], row["column"]): row for row in differences if row["kind"] == "gain"}
        named = [row for row in differences if row["primary"] == "True"]
        every = {row["column"] for row in numbers}
        columns = every & ({"average"} if "average" in every else {row["column"] for row in named}) or every
        for row in numbers:
            if row["column"] in columns or row["pooling"] in POOLINGS:
                result = _result(table, row, gains.get((row["system"], row["column"])))
                results.setdefault(replace(result, table="", control=""), result)
        claims += [(table, claimed(row)) for row in named if own & {row["first"], row["second"]}]
    return Results(list(results.values()), claims, left_out)


def _rows(path: Path) -> list[Row]:
    """The lines of a csv file; none if it is missing."""
    if not path.is_file():
        return []
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def _shows(row: Row, weights: set[str]) -> bool:
    # a table that names no weights is of the last ones, as probes are; costs are no results
    of_weights = (row.get("weights") or "last") in weights and row["metric"] != "cost"
    # skip controls with mismatched images
    own = row.get("shown", "own") == "own" and not row["system"].endswith("/debiased")
    return of_weights and own and row.get("blind", "False") == "False"


class _Chain:
    """The records between tables and one ``run``, each read once."""

    def __init__(self, folder: ScaleFolder, run: str) -> None:
        self._folder, self._run = folder, run
        self._known: dict[str, tuple[bool, str]] = {run: (True, "")}

    def broken(self, table: str, file: Path) -> str:
        """Why a ``file`` of the table is not of the run; "" if it is, or is not there."""
        record = self._folder.record(table, "make")
        if not record.is_file():
            return f"its record, {record.name}, is missing"
        if file.is_file() and read_json(record).get("outputs", {}).get(file.name) != sha256_file(file):
            return f"{file.name} is not the file that its record names"
        leads, reason = self._of(table)
        return reason if leads else f"no record links it to {self._run}"

    def _of(self, job: str) -> tuple[bool, str]:
        """(whether the run is an input of ``job``, which link has changed)."""
        if job not in self._known:
            record = self._folder.record(job, verb_of(job))
            inputs = read_json(record).get("inputs", {}) if record.is_file() else {}
            leads, reason = False, ""
            for name, sha256 in inputs.items():
                below, lost = self._of(name)
                if not below:
                    continue
                manifest = self._folder.manifest(name, verb_of(name))
                changed = not manifest.is_file() or sha256_file(manifest) != sha256
                leads, reason = True, reason or lost or (f"{name} has been rebuilt since" if changed else "")
            self._known[job] = leads, reason
        return self._known[job]


def _result(table: str, row: Row, gain: Row | None) -> Result:
    # estimator, dataset, system, length
    details = [row[name] for name in ("dataset", "method", "length")] if "length" in row else []
    details += [row.get(name, "") for name in ("estimator", "per")]
    words = [row["label"]]
    for detail in details:
        if detail not in ("", "–") and not words[-1].endswith(f"· {detail}"):  # labels may end in the length
            words.append(detail.replace("_", " "))
    interval = _bounds(row["low"], row["high"])
    return Result(
        table,
        ", ".join(words),
        POOLINGS.get(row["pooling"], "–"),
        row["metric"],
        _rounded(row["value"]),
        interval,
        f"{_rounded(gain['value'], '+')} {_bounds(gain['low'], gain['high'], '+')}".removesuffix(" –") if gain else "–",
        gain["second_method"] if gain else "",
        _rounded(row["chance"]) if row["chance"] else "",
        row["interval"].replace("_", " ") if interval != "–" else "",
        row["n"],
        row["seeds"],
    )


def _bounds(low: str, high: str, sign: str = "") -> str:
    # a degenerate interval gives no uncertainty
    return f"[{_rounded(low, sign)}, {_rounded(high, sign)}]" if low and high and low != high else "–"


def _rounded(number: str, sign: str = "") -> str:
    """As tables show it."""
    return f"{round(float(number), 1) + 0.0:{sign}.1f}".replace("-", "−")
