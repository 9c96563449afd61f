"""Which number a row and a column name, in any table or figure of systems, and in tables that show no measurements."""

from __future__ import annotations

import csv
import difflib
import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mdc.checks.place import Broken
from mdc.plan.jobs.shown import System, SystemsJob
from mdc.plan.records import UserError
from mdc.report.lines import POOLINGS

Line = dict[str, str]


@dataclass(frozen=True)
class Cell:
    """One number: its system, and its line of the tidy csv file."""

    system: System
    line: Line
    columns: frozenset[str]  # what its column may be called

    @property
    def name(self) -> str:
        """The row's labels and the column's."""
        return f"{', '.join(labels(self.system))}: {self.line['benchmark']}"


def lines(path: Path) -> list[Line]:
    """The lines of a csv file by heading. Raises Broken if it cannot be read."""
    try:
        with path.open(encoding="utf-8", newline="") as stream:
            return list(csv.DictReader(stream))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise Broken(f"{path}: cannot be read ({error})") from None


def tidy_file(artefact: str) -> str:
    """The file of a table or figure that has one line for each number."""
    return f"{artefact}.csv" if "figure" in artefact else f"{artefact}_long.csv"


def labels(system: System) -> tuple[str, str, str]:
    """Dataset, backbone and method, as tables show them; without a dataset the pooling is said too."""
    if system.corpus:
        return system.corpus.label, system.backbone.label, system.method.label
    return "none", system.backbone.label, f"{system.method.label}, {POOLINGS.get(system.pooling, system.pooling)}"


def cells(job: SystemsJob, path: Path) -> list[Cell]:
    """Every number of the tidy file ``path`` with the system that it is of. Raises Broken if one belongs to none."""
    by_runs: dict[str, list[System]] = {}
    for system in job.systems:
        by_runs.setdefault(" ".join(system.runs), []).append(system)
    keys = {column.label: column.key for column in job.columns}
    corpora = {system.corpus.label for system in job.systems if system.corpus}
    found = []
    for line in lines(path):
        fitting = by_runs.get(line["run"], [])
        # one run may stand in several rows: then their names, or their estimators, tell them apart
        told = [s for s in fitting if line["method"] in (s.method.label, s.estimator)] if len(fitting) > 1 else fitting
        if len(told) != 1:
            raise Broken(f"{path}: a line of {line['run']} belongs to {len(told)} rows of the table, must to one")
        system, benchmark = told[0], line["benchmark"]
        # a control stands under every corpus
        under = corpora if system.corpus is None else {system.corpus.label}
        named = {benchmark, keys.get(benchmark, benchmark), *under}
        found.append(Cell(system, line, frozenset(word.casefold() for word in named)))
    return found


def choose(found: Sequence[Cell], row: str, column: str) -> Cell:
    """The one cell that ``row`` and ``column`` fit: labels, keys or runs in any order, comma between, some left out.

    UserError if they fit none (rows or columns, the closest first) or several (these).
    """
    asked_row, asked_column = _parts(row), _parts(column)
    in_row = [cell for cell in found if asked_row and set(asked_row) <= _words(cell.system)]
    if not in_row:
        names = dict.fromkeys(", ".join(labels(cell.system)) for cell in found)
        raise UserError(f"no row '{row}'; rows: {'; '.join(closest(row, list(names)))}")
    fitting = [cell for cell in in_row if asked_column and set(asked_column) <= cell.columns]
    if not fitting:
        names = dict.fromkeys(cell.line["benchmark"] for cell in found)
        raise UserError(f"no column '{column}'; columns: {', '.join(closest(column, list(names)))}")
    # a number may stand in a figure several times, as that of untouched images in each of its panels
    if len({(cell.system.key, cell.line["benchmark"]) for cell in fitting}) > 1:
        told = dict.fromkeys(cell.name for cell in fitting)
        raise UserError(f"row '{row}' and column '{column}' fit {len(fitting)} numbers: {'; '.join(told)}; say more")
    return fitting[0]


def choose_line(path: Path, row: str, column: str) -> tuple[Line, str]:
    """Of a table without systems the line that ``row`` tells, and the heading that ``column`` is.

    ``row``: the line's first cell, or as many of its cells, with commas between, as tell it from others. In their own order
    they are sought first: it says which side of a comparison is which.
    """
    found = lines(path)
    if not found:
        raise Broken(f"{path}: holds no line")
    heads = {head.casefold(): head for head in found[0]}
    head = heads.get(column.strip().casefold())
    if head is None:
        raise UserError(f"no column '{column}'; columns: {', '.join(closest(column, list(found[0])))}")
    first = next(iter(found[0]))
    named = [line for line in found if line[first].casefold() == row.strip().casefold()]
    asked = _parts(row)
    fitting = named if len(named) == 1 else [line for line in found if _in_order(asked, line)]
    if not fitting and asked:
        fitting = [line for line in found if set(asked) <= {part for cell in line.values() for part in _parts(cell)}]
    if not fitting:
        called = [_called(line) for line in found]
        alone = len({cells[0] for cells in called}) == len(called)
        names = dict.fromkeys(cells[0] if alone else ", ".join(cells) for cells in called)
        raise UserError(f"no row '{row}'; rows: {'; '.join(closest(row, list(names)))}")
    if len(fitting) > 1:
        told = "; ".join(", ".join(line.values()) for line in fitting[:2])
        raise UserError(f"row '{row}' fits {len(fitting)} lines, as {told}; say more")
    return fitting[0], head


def _in_order(asked: Sequence[str], line: Line) -> bool:
    """Whether all of ``asked``, at least one, stand among a line's cells, and in this order."""
    there = (part for cell in line.values() for part in _parts(cell))
    return bool(asked) and all(part in there for part in asked)


def _called(line: Line) -> list[str]:
    """What tells a line from others: its cells up to the first number, without the scale."""
    cells = [cell for head, cell in line.items() if head not in ("scale", "table") and cell]
    named = list(itertools.takewhile(lambda cell: not re.fullmatch(r"[-+]?[\d.]+(e[-+]?\d+)?", cell), cells))
    return named or cells[:1] or [""]


def closest(text: str, names: Sequence[str]) -> list[str]:
    """At most twelve of ``names``, the likest first."""

    def likeness(name: str) -> float:
        return difflib.SequenceMatcher(None, text.casefold(), name.casefold()).ratio()

    return sorted(names, key=lambda name: -likeness(name))[:12]


def _parts(text: str) -> list[str]:
    return [part.strip().casefold() for part in text.split(",") if part.strip()]


def _words(system: System) -> set[str]:
    """What a row may be called: its labels, whole and between their commas, its keys, and its runs."""
    shown = labels(system)
    parts = [part.strip() for label in shown for part in label.split(",")]
    keys = [part.key for part in (system.corpus, system.backbone, system.method) if part] + [system.pooling]
    return {word.casefold() for word in (*shown, *parts, *keys, system.key, system.estimator, *system.runs)}
