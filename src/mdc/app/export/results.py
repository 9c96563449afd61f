"""Numbers of one run in a scale's tables, if these are up to date."""

from __future__ import annotations

import csv
from dataclasses import dataclass, replace
from pathlib import Path

from mdc.plan.jobs.folder import ScaleFolder
from mdc.plan.records import read_json, sha256_file
from mdc.plan.verbs import verb_of
from mdc.report.frame import POOLINGS


@dataclass(frozen=True)
class Result:
    """A number of a table: ``value`` with its 95 % interval ``shown`` as [low, high], of the kind ``interval``, over ``n`` items;
    ``seeds``: how many runs it averages; ``feature``: of a probe. ``gain``: points
    above its ``control``, with their interval. "–" where there is none, of ``chance``, ``control`` and ``interval`` "".
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
    """``numbers`` of a run, and (name, reason) of tables that are left out."""

    numbers: list[Result]
    left_out: list[tuple[str, str]]


def results_of(scale: Path, run: str, weights: set[str]) -> Results:
    """The numbers of the run ``run`` (its id without "runs/") in the tables that are made in the ``scale``'s folder, by one of
    ``weights`` (last, best); of numbers in several tables the first.

    A table is left out if its chain of records, by sha256, does not lead to the run as it is now.
    """
    results: dict[Result, Result] = {}
    left_out = []
    chain = _Chain(ScaleFolder(scale), f"runs/{run}")
    # Table 1 first
    for path in sorted(scale.glob("*/*_long.csv"), key=lambda path: (not path.name.startswith("table"), path)):
        table = path.parent.name
        runs = path.with_name(f"{table}_runs.csv")
        if path.name != f"{table}_long.csv" or not runs.is_file():
            continue
        all_rows = _rows(path)
        systems = {row["system"] for row in _rows(runs) if row["run"] == run}
        rows = [row for row in all_rows if row["system"] in systems and _shows(row, weights)]
        if not rows:
            continue
        broken = chain.broken(table, runs) or chain.broken(table, path)
        if broken:
            left_out.append((table, broken))
            continue
        methods = {row["system"]: row["method"] for row in all_rows}
        for row in rows:
            result = _result(table, row, methods)
            results.setdefault(replace(result, table=""), result)
    return Results(list(results.values()), left_out)


def _rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def _shows(row: dict[str, str], weights: set[str]) -> bool:
    # a table that names no weights is of the last ones, as probes are
    of_weights = (row.get("weights") or "last") in weights
    # skip controls with mismatched images
    return of_weights and row.get("shown", "own") == "own" and row.get("blind", "False") == "False"


class _Chain:
    """The records between tables and one ``run``, each read once."""

    def __init__(self, folder: ScaleFolder, run: str) -> None:
        self._folder, self._run = folder, run
        self._known: dict[str, tuple[bool, str]] = {run: (True, "")}

    def broken(self, table: str, numbers: Path) -> str:
        """Why the table's ``numbers`` are not of the run; "" if they are."""
        record = self._folder.record(table, "make")
        if not record.is_file():
            return f"its record, {record.name}, is missing"
        if read_json(record).get("outputs", {}).get(numbers.name) != sha256_file(numbers):
            return f"{numbers.name} is not the file that its record names"
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


def _result(table: str, row: dict[str, str], methods: dict[str, str]) -> Result:
    # estimator, dataset, system, length
    details = [row[name] for name in ("dataset", "method", "length")] if "length" in row else []
    details += [row.get(name, "") for name in ("estimator", "per")]
    words = [row["label"]]
    for detail in details:
        if detail not in ("", "–") and not words[-1].endswith(f"· {detail}"):  # labels may end in the length
            words.append(detail)
    description = ", ".join(words)
    interval = _bounds(row["low"], row["high"])
    gain_interval = _bounds(row.get("gain_low", ""), row.get("gain_high", ""), "+")
    return Result(
        table,
        description,
        POOLINGS.get(row.get("pooling", ""), "–"),
        row["metric"],
        _rounded(row["value"]),
        interval,
        f"{_rounded(row['gain'], '+')} {gain_interval}".removesuffix(" –") if row["gain"] else "–",
        methods.get(row["control"], row["control"]),
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
