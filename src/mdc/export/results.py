"""What a scale's tables say of one run."""

from __future__ import annotations

import csv
from dataclasses import dataclass, replace
from pathlib import Path

from mdc.artefacts import ARTEFACTS


@dataclass(frozen=True)
class Result:
    """A number as its table has it: ``value`` with its 95 % interval [``low``, ``high``], of ``n`` items; ``seeds``: of all the
    runs that it is a mean of, apart by spaces; ``chance`` is "" where there is no such level."""

    table: str
    what: str
    metric: str
    value: str
    low: str
    high: str
    n: str
    seeds: str
    chance: str


def results_of(scale: Path, run: str, weights: set[str]) -> list[Result]:
    """The numbers of the run ``run`` (its id without "runs/") in the tables that are made in the ``scale``'s folder, by one of
    ``weights`` (last, best); one that several tables show is the first's."""
    found: dict[Result, Result] = {}
    for table, artefact in ARTEFACTS.items():
        name = f"{table}_long.csv"
        path = scale / table / name
        if name not in artefact.files or not path.is_file():
            continue
        with path.open(encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file):
                # a table that names no weights is of the last ones, as probes are
                own = run in row.get("run", "").split() and (row.get("weights") or "last") in weights
                if own and _of_its_own_image(row):
                    result = _result(table, row)
                    found.setdefault(replace(result, table=""), result)
    return list(found.values())


def _of_its_own_image(row: dict[str, str]) -> bool:
    # blind rows say what a model makes of other images, or of none
    return row.get("control", "none") == "none" and row.get("blind", "False") == "False"


def _result(table: str, row: dict[str, str]) -> Result:
    # by which of a run's estimators, or of which images, by which system and how long
    how = [row[name] for name in ("dataset", "method", "length")] if "length" in row else []
    how += [row.get(name, "") for name in ("estimator", "per")]
    words = [row["benchmark"]]
    for one in how:
        if one not in ("", "–") and not words[-1].endswith(f"· {one}"):  # many a label ends in the length
            words.append(one)
    what = ", ".join(words)
    return Result(
        table,
        what,
        row["metric"],
        row["value"],
        row["low"],
        row["high"],
        row["n"],
        row["seeds"],
        row["chance"],
    )
