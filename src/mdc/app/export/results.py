"""What a scale's tables say of one run, as far as they were made from the run as it is now."""

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
    """A number as its table has it: ``value`` with its 95 % interval ``shown`` as [low, high], made as ``interval``
    says, of ``n`` items; ``seeds``: how many runs it is a mean of; ``feature``: what a probe read. ``gain``: points
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
    """``found``, and of tables that show the run and were left out the name and the reason."""

    found: list[Result]
    left_out: list[tuple[str, str]]


def results_of(scale: Path, run: str, weights: set[str]) -> Results:
    """The numbers of the run ``run`` (its id without "runs/") in the tables that are made in the ``scale``'s folder, by one of
    ``weights`` (last, best); one that several tables show is the first's.

    A table is left out if it does not follow from the run as it is there now: its records name each other by sha256.
    """
    found: dict[Result, Result] = {}
    left_out = []
    chain = _Chain(ScaleFolder(scale), f"runs/{run}")
    # Table 1 first
    for path in sorted(scale.glob("*/*_long.csv"), key=lambda path: (not path.name.startswith("table"), path)):
        table = path.parent.name
        if path.name != f"{table}_long.csv":
            continue
        with path.open(encoding="utf-8", newline="") as file:
            every = list(csv.DictReader(file))
        rows = [row for row in every if _shows(row, run, weights)]
        if not rows:
            continue
        broken = chain.broken(table, path)
        if broken:
            left_out.append((table, broken))
            continue
        methods = {row["system"]: row["method"] for row in every}
        for row in rows:
            result = _result(table, row, methods)
            found.setdefault(replace(result, table=""), result)
    return Results(list(found.values()), left_out)


def _shows(row: dict[str, str], run: str, weights: set[str]) -> bool:
    # a table that names no weights is of the last ones, as probes are
    if run not in row.get("run", "").split() or (row.get("weights") or "last") not in weights:
        return False
    # blind rows say what a model makes of other images, or of none
    return row.get("shown", "own") == "own" and row.get("blind", "False") == "False"


class _Chain:
    """The records between tables and one ``run``, each looked at once."""

    def __init__(self, folder: ScaleFolder, run: str) -> None:
        self._folder, self._run = folder, run
        self._known: dict[str, tuple[bool, str]] = {run: (True, "")}

    def broken(self, table: str, numbers: Path) -> str:
        """Why the table's ``numbers`` do not follow from the run; "" if they do."""
        record = self._folder.record(table, "make")
        if not record.is_file():
            return f"its record, {record.name}, is missing"
        if read_json(record).get("outputs", {}).get(numbers.name) != sha256_file(numbers):
            return f"{numbers.name} is not the file that its record names"
        leads, why = self._of(table)
        return why if leads else f"no record links it to {self._run}"

    def _of(self, job: str) -> tuple[bool, str]:
        """(whether the run is behind ``job``, at which link it is another)."""
        if job not in self._known:
            record = self._folder.record(job, verb_of(job))
            inputs = read_json(record).get("inputs", {}) if record.is_file() else {}
            leads, why = False, ""
            for other, sha256 in inputs.items():
                below, lost = self._of(other)
                if not below:
                    continue
                manifest = self._folder.manifest(other, verb_of(other))
                changed = not manifest.is_file() or sha256_file(manifest) != sha256
                leads, why = True, why or lost or (f"{other} has been rebuilt since" if changed else "")
            self._known[job] = leads, why
        return self._known[job]


def _result(table: str, row: dict[str, str], methods: dict[str, str]) -> Result:
    # by which of a run's estimators, or of which images, by which system and how long
    how = [row[name] for name in ("dataset", "method", "length")] if "length" in row else []
    how += [row.get(name, "") for name in ("estimator", "per")]
    words = [row["label"]]
    for one in how:
        if one not in ("", "–") and not words[-1].endswith(f"· {one}"):  # many a label ends in the length
            words.append(one)
    what = ", ".join(words)
    shown = _bounds(row["low"], row["high"])
    gained = _bounds(row.get("gain_low", ""), row.get("gain_high", ""), "+")
    return Result(
        table,
        what,
        POOLINGS.get(row.get("pooling", ""), "–"),
        row["metric"],
        _rounded(row["value"]),
        shown,
        f"{_rounded(row['gain'], '+')} {gained}".removesuffix(" –") if row["gain"] else "–",
        methods.get(row["control"], row["control"]),
        _rounded(row["chance"]) if row["chance"] else "",
        row["interval"].replace("_", " ") if shown != "–" else "",
        row["n"],
        row["seeds"],
    )


def _bounds(low: str, high: str, sign: str = "") -> str:
    # where resampling never changes a number, it says nothing of how sure it is
    return f"[{_rounded(low, sign)}, {_rounded(high, sign)}]" if low and high and low != high else "–"


def _rounded(number: str, sign: str = "") -> str:
    """As tables show it."""
    return f"{round(float(number), 1) + 0.0:{sign}.1f}".replace("-", "−")
