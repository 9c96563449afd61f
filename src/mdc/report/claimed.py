"""What a table or figure claimed, as a page shows it, read from its csv files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mdc.report.frame import what


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
    decimals = 1 if max(map(abs, numbers)) >= 1 else 2
    value, *interval = (f"{round(number, decimals) + 0.0:+.{decimals}f}".replace("-", "−") for number in numbers)
    found = f"{value} [{', '.join(interval)}]" if len(interval) == 2 else value
    size = f", {row['size']}" if row["size"] not in ("", "undecided") else ""
    where = ", ".join(one for one in (what(row), row["condition"], row["label"]) if one)
    return Claimed(where, f"{found} {row['unit']}", f"{row['direction']} ({row['scope']}){size}", row["label"])
