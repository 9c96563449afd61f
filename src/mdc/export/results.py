"""What a scale's tables say of one run."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

#: tables with a line a number, in the order in which a card shows them
_TABLES = ("table1", "table2", "table3")


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


def results_of(scale: Path, run: str) -> list[Result]:
    """The numbers of the run ``run`` (its id without "runs/") in the tables that are made in the ``scale``'s folder."""
    found = []
    for table in _TABLES:
        path = scale / table / f"{table}_long.csv"
        if not path.is_file():
            continue
        with path.open(encoding="utf-8", newline="") as file:
            rows = [row for row in csv.DictReader(file) if run in row["run"].split() and _of_its_own_image(row)]
        found += [_result(table, row) for row in rows]
    return found


def _of_its_own_image(row: dict[str, str]) -> bool:
    # blind rows say what a model makes of other images, or of none
    return row.get("control", "none") == "none" and row.get("blind", "False") == "False"


def _result(table: str, row: dict[str, str]) -> Result:
    # by which of a run's estimators, weights or lengths
    how = [
        row.get(name, "") for name in ("estimator", "weights", "per", "method" if table == "table3" else "", "length")
    ]
    what = ", ".join([row["benchmark"], *(one for one in how if one not in ("", "–"))])
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
