"""Find the line and the column of a csv file from a row name and a column name."""

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


def lines(path: Path) -> list[Line]:
    """The lines of a csv file as {heading: cell}. Broken if it cannot be read or is empty."""
    try:
        with path.open(encoding="utf-8", newline="") as stream:
            rows = list(csv.DictReader(stream))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise Broken(f"{path}: cannot be read ({error})") from None
    if not rows:
        raise Broken(f"{path}: holds no line")
    return rows


def are_numbers(rows: Sequence[Line]) -> bool:
    """Whether the file is in long format: each line one number of a table (see :class:`mdc.report.frame.Number`)."""
    return {"system", "label", "control", "value"} <= rows[0].keys()


def labels(line: Line) -> tuple[str, str, str]:
    """A number's dataset, backbone and method, as tables show them; without a dataset the pooling is added."""
    pooling = POOLINGS.get(line["pooling"], line["pooling"]) if line["dataset"] == "none" else ""
    return line["dataset"], line["backbone"], ", ".join(filter(None, (line["method"], pooling)))


def name(line: Line) -> str:
    """A number's row labels and column label."""
    return f"{', '.join(labels(line))}: {line['label']}"


def choose(table: Sequence[Line], row: str, column: str) -> tuple[Line, str]:
    """The one line that matches ``row`` and ``column``, and the heading of the requested cell.

    ``row``: the line's first cell, or enough of its cells and labels, separated by commas, to identify it. A match in the given
    order has priority: in a comparison the order distinguishes the two sides. ``column``: a heading; in long format a label, its
    key, a dataset, or several of these. UserError if no line matches (the closest rows or columns are listed) or several do
    (they are listed).
    """
    numbers, requested, first = are_numbers(table), _parts(row), next(iter(table[0]))
    rules = (
        lambda line: line[first].casefold() == row.strip().casefold(),
        lambda line: _in_order(requested, line),
        lambda line: set(requested) <= _words(line, numbers),
        lambda line: numbers and set(requested) <= _words(line, numbers) | {*line["system"].casefold().split("/")},
    )
    in_row = next((hits for rule in rules if requested and (hits := [line for line in table if rule(line)])), [])
    if not in_row:
        cells = [[*filter(None, labels(line))] if numbers else _called(line) for line in table]
        alone = not numbers and len({parts[0] for parts in cells}) == len(cells)
        rows = dict.fromkeys(parts[0] if alone else ", ".join(parts) for parts in cells)
        raise UserError(f"no row '{row}'; rows: {'; '.join(closest(row, list(rows)))}")
    if numbers:
        datasets = {line["dataset"] for line in table}
        heading, columns = "value", dict.fromkeys(line["label"] for line in table)
        fitting = [line for line in in_row if {*_parts(column)} <= _columns(line, datasets) and column.strip()]
    else:
        columns = dict.fromkeys(table[0])
        heading = next((head for head in columns if head.casefold() == column.strip().casefold()), "")
        fitting = in_row if heading else []
    if not fitting:
        raise UserError(f"no column '{column}'; columns: {', '.join(closest(column, list(columns)))}")
    # a number may appear in a figure several times, as that of untouched images in each of its panels
    apart = {(name(line), line["estimator"], line["system"]) if numbers else tuple(line.values()) for line in fitting}
    if len(apart) > 1:
        fits = dict.fromkeys(name(line) if numbers else ", ".join(_shown(line)) for line in fitting)
        raise UserError(
            f"row '{row}' and column '{column}' fit {len(apart)} lines: {'; '.join([*fits][:12])}; say more"
        )
    return fitting[0], heading


def _in_order(requested: Sequence[str], line: Line) -> bool:
    """Whether all of ``requested`` are among a line's cells, in this order."""
    cells = (part for cell in line.values() for part in _parts(cell))
    return all(part in cells for part in requested)


def _words(line: Line, number: bool) -> set[str]:
    """Its cells and labels, whole and between their commas."""
    cells = [*line.values(), *(labels(line) if number else ())]
    return {*(cell.casefold() for cell in cells), *_parts(",".join(cells))}


def _columns(line: Line, datasets: set[str]) -> set[str]:
    """The names that a number's column can have; an encoder trained on no dataset is shown under every dataset."""
    under = datasets if line["dataset"] == "none" else {line["dataset"]}
    return {word.casefold() for word in (line["label"], line["column"], *under)}


def _called(line: Line) -> list[str]:
    """The cells that identify a line: those up to the first number, without scale and keys."""
    cells = _shown(line)
    named = list(itertools.takewhile(lambda cell: not re.fullmatch(r"[-+]?[\d.]+(e[-+]?\d+)?", cell), cells))
    return named or cells[:1] or [""]


def closest(text: str, names: Sequence[str]) -> list[str]:
    """At most twelve of ``names``, the most similar first."""
    by = {name.casefold(): name for name in names}
    return [by[name] for name in difflib.get_close_matches(text.casefold(), by, 12, cutoff=0)]


def _parts(text: str) -> list[str]:
    return [part.strip().casefold() for part in text.split(",") if part.strip()]


def _shown(line: Line) -> list[str]:
    """Its cells without scale and keys."""
    return [cell for head, cell in line.items() if head not in ("scale", "artefact", "system", "record") and cell]
