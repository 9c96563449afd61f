"""What a table or figure claimed, as a page shows it, read from its csv files."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mdc.report import words
from mdc.report.frame import LOG_RATIO, what
from mdc.report.tables.render import escape_markdown

_HEADS = ("claim", "difference", "direction (scope)", "size", "minimum detectable", "seeds", "groups")


@dataclass(frozen=True)
class Claimed:
    """``what``: both sides, and on what; ``found``: the difference with its interval and unit; ``verdict``: direction
    with its scope, and size; ``label``: the column that it was claimed of."""

    what: str
    found: str
    verdict: str
    label: str


def claimed(row: Mapping[str, str]) -> Claimed:
    """A line of a csv file of differences (:data:`mdc.report.frame.CLAIMS`)."""
    numbers = [float(row[key]) for key in ("value", "low", "high") if row[key]]
    unit = row["unit"]
    if unit == LOG_RATIO:  # read as a ratio
        shown, unit = [f"{math.exp(number):.2f}×" for number in numbers], ""
    else:
        decimals = 1 if max(map(abs, numbers)) >= 1 else 2
        shown = [words.signed(number, decimals) for number in numbers]
    found = f"{shown[0]} [{', '.join(shown[1:])}] {unit}" if len(shown) == 3 else f"{shown[0]} {unit}"
    size = f", {row['size']}" if row["size"] not in ("", "undecided") else ""
    where = ", ".join(one for one in (what(row), row["condition"], row["label"]) if one)
    return Claimed(where, found.strip(), f"{row['direction']} ({row['scope']}){size}", row["label"])


def detectable(row: Mapping[str, str]) -> str:
    """The minimum detectable effect of an inconclusive claim, "" of any other."""
    least = float(row["detectable"]) if row["detectable"] else None
    return "" if least is None else f"{math.exp(least):.2f}×" if row["unit"] == LOG_RATIO else f"{least:#.2g}"


def as_markdown(rows: Sequence[Mapping[str, str]]) -> str:
    """The claims of a scale as a Markdown table for each table and figure: what pages of documentation hold, so that
    none is typed by hand."""
    lines = []
    for artefact, group in itertools.groupby(rows, key=lambda row: row["artefact"]):
        lines += [f"### {artefact}", "", f"| {' | '.join(_HEADS)} |", f"|{'---|' * len(_HEADS)}"]
        for row in group:
            one = claimed(row)
            direction = f"{row['direction']} ({row['scope']})"
            cells = (one.what, one.found, direction, row["size"] or "–", detectable(row), row["seeds"], row["groups"])
            lines.append(f"| {' | '.join(map(escape_markdown, cells))} |")
        lines.append("")
    return "\n".join(lines)
