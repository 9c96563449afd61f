"""The claims of a table or figure, read from its csv files."""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mdc.report.frame import LOG_RATIO, comparison_name
from mdc.report.signed import signed
from mdc.report.tables.render import escape_markdown

_HEADS = ("claim", "difference", "direction (scope)", "size", "minimum detectable", "seeds", "groups")


@dataclass(frozen=True)
class Claimed:
    """``comparison``: both sides, dataset and column; ``difference``: with interval and unit; ``verdict``: direction with its
    scope, and size; ``label``: the column."""

    comparison: str
    difference: str
    verdict: str
    label: str


def claimed(row: Mapping[str, str]) -> Claimed:
    """A line of a csv file of differences (:data:`mdc.report.frame.CLAIMS`)."""
    numbers = [float(row[key]) for key in ("value", "low", "high") if row[key]]
    unit = row["unit"] if numbers else ""
    if not numbers:  # one side has no such number
        shown = ["–"]
    elif unit == LOG_RATIO:  # read as a ratio
        shown, unit = [f"{math.exp(number):.2f}×" for number in numbers], ""
    else:
        decimals = 1 if max(map(abs, numbers)) >= 1 else 2
        shown = [signed(number, decimals) for number in numbers]
    difference = f"{shown[0]} [{', '.join(shown[1:])}] {unit}" if len(shown) == 3 else f"{shown[0]} {unit}"
    size = f", {row['size']}" if row["size"] not in ("", "undecided", "not tested") else ""
    comparison = ", ".join(part for part in (comparison_name(row), row["condition"], row["label"]) if part)
    return Claimed(comparison, difference.strip(), f"{direction_of(row)}{size}", row["label"])


def direction_of(row: Mapping[str, str]) -> str:
    """``supported (methods)``; "not compared" has no scope."""
    return row["direction"] + (f" ({row['scope']})" if row["scope"] else "")


def detectable(row: Mapping[str, str]) -> str:
    """The minimum detectable effect of an inconclusive claim, "" of any other."""
    least = float(row["detectable"]) if row["detectable"] else None
    return (
        "" if least is None else f"{math.exp(least):.2f}×" if row["unit"] == LOG_RATIO else f"{least:#.2g}".rstrip(".")
    )


def as_markdown(rows: Sequence[Mapping[str, str]]) -> str:
    """The claims of a scale as Markdown, one table for each table and figure, for the pages of the documentation."""
    lines = []
    for (artefact, stale), group in itertools.groupby(rows, key=lambda row: (row["artefact"], row.get("stale"))):
        lines += [
            f"### {artefact}{' (stale)' * (stale == 'True')}",
            "",
            f"| {' | '.join(_HEADS)} |",
            f"|{'---|' * len(_HEADS)}",
        ]
        for row in group:
            claim = claimed(row)
            sides = (claim.comparison, claim.difference, direction_of(row), row["size"] or "–")
            cells = (*sides, detectable(row), row["seeds"], row["groups"])
            lines.append(f"| {' | '.join(map(escape_markdown, cells))} |")
        lines.append("")
    return "\n".join(lines)
