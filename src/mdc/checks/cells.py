"""Which line of a csv file, and which of its columns, a row and a column name."""

from __future__ import annotations

import csv
import difflib
import itertools
import re
from collections.abc import Sequence
from pathlib import Path

from mdc.checks.place import Broken
from mdc.plan.records import UserError
from mdc.report.frame import POOLINGS

Line = dict[str, str]
_JOBS = ("records", "control_records")  # headings of cells that name jobs


def lines(path: Path) -> list[Line]:
    """The lines of a csv file by heading. Raises Broken if it cannot be read, or holds none."""
    try:
        with path.open(encoding="utf-8", newline="") as stream:
            found = list(csv.DictReader(stream))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise Broken(f"{path}: cannot be read ({error})") from None
    if not found:
        raise Broken(f"{path}: holds no line")
    return found


def are_numbers(found: Sequence[Line]) -> bool:
    """Whether each line is one number of a row and column of a table (see :class:`mdc.report.frame.Number`)."""
    return {"system", "label", "run", "value"} <= found[0].keys()


def labels(line: Line) -> tuple[str, str, str]:
    """Of a number its dataset, backbone and method, as tables show them; without a dataset the pooling is said too."""
    pooling = POOLINGS.get(line["pooling"], line["pooling"]) if line["dataset"] == "none" else ""
    return line["dataset"], line["backbone"], ", ".join(filter(None, (line["method"], pooling)))


def name(line: Line) -> str:
    """Of a number its row's labels and its column's."""
    return f"{', '.join(labels(line))}: {line['label']}"


def choose(found: Sequence[Line], row: str, column: str) -> tuple[Line, str]:
    """The one line that ``row`` and ``column`` fit, and the heading of the cell that is asked for.

    ``row``: the line's first cell, or as many of its cells and labels, with commas between, as tell it from others. In their own
    order they are sought first: it says which side of a comparison is which. ``column``: a heading; of numbers a label,
    its key, a dataset, or several of these. UserError if they fit no line (the closest rows or columns are
    listed) or several (these).
    """
    numbers, asked, first = are_numbers(found), _parts(row), next(iter(found[0]))
    rules = (
        lambda line: line[first].casefold() == row.strip().casefold(),
        lambda line: _in_order(asked, line),
        lambda line: set(asked) <= _words(line, numbers),
        lambda line: numbers and set(asked) <= _words(line, numbers) | _run_keys(line),
    )
    in_row = next((some for rule in rules if asked and (some := [line for line in found if rule(line)])), [])
    if not in_row:
        called = [_called(line) for line in found]
        alone = len({cells[0] for cells in called}) == len(called)
        rows = dict.fromkeys(cells[0] if alone else ", ".join(cells) for cells in called)
        raise UserError(f"no row '{row}'; rows: {'; '.join(closest(row, list(rows)))}")
    if numbers:
        datasets = {line["dataset"] for line in found}
        heading, columns = "value", dict.fromkeys(line["label"] for line in found)
        fitting = [line for line in in_row if {*_parts(column)} <= _columns(line, datasets) and column.strip()]
    else:
        columns = dict.fromkeys(found[0])
        heading = next((head for head in columns if head.casefold() == column.strip().casefold()), "")
        fitting = in_row if heading else []
    if not fitting:
        raise UserError(f"no column '{column}'; columns: {', '.join(closest(column, list(columns)))}")
    # a number may appear in a figure several times, as that of untouched images in each of its panels
    apart = {(name(line), line["estimator"], line["records"]) if numbers else tuple(line.values()) for line in fitting}
    if len(apart) > 1:
        told = dict.fromkeys(
            name(line) if numbers else ", ".join(line[head] for head in line if head not in _JOBS) for line in fitting
        )
        raise UserError(
            f"row '{row}' and column '{column}' fit {len(apart)} lines: {'; '.join([*told][:12])}; say more"
        )
    return fitting[0], heading


def _in_order(asked: Sequence[str], line: Line) -> bool:
    """Whether all of ``asked`` stand among a line's cells, and in this order."""
    there = (part for cell in line.values() for part in _parts(cell))
    return all(part in there for part in asked)


def _words(line: Line, number: bool) -> set[str]:
    """Its cells and labels, whole and between their commas."""
    cells = [*line.values(), *(labels(line) if number else ())]
    return {*(cell.casefold() for cell in cells), *_parts(",".join(cells))}


def _run_keys(line: Line) -> set[str]:
    """Its runs, and the keys that their names consist of."""
    runs = line["run"].casefold().split()
    return {*runs, *(key for run in runs for key in run.split("/"))}


def _columns(line: Line, datasets: set[str]) -> set[str]:
    """What a number's column may be called; what was trained on no dataset stands under every one."""
    under = datasets if line["dataset"] == "none" else {line["dataset"]}
    return {word.casefold() for word in (line["label"], line["column"], *under)}


def _called(line: Line) -> list[str]:
    """What tells a line from others: its cells up to the first number, without the scale."""
    cells = [cell for head, cell in line.items() if head not in ("scale", "artefact", *_JOBS) and cell]
    named = list(itertools.takewhile(lambda cell: not re.fullmatch(r"[-+]?[\d.]+(e[-+]?\d+)?", cell), cells))
    return named or cells[:1] or [""]


def closest(text: str, names: Sequence[str]) -> list[str]:
    """At most twelve of ``names``, the likest first."""
    by = {name.casefold(): name for name in names}
    return [by[name] for name in difflib.get_close_matches(text.casefold(), by, 12, cutoff=0)]


def _parts(text: str) -> list[str]:
    return [part.strip().casefold() for part in text.split(",") if part.strip()]
