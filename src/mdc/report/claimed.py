"""The claims of a table or figure, read from its csv files."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mdc.report import words
from mdc.report.csv_file import signed
from mdc.report.frame import comparison_name

#: how the numbers of a list of claims are to be read
TOGETHER = (
    "An interval is of its difference alone. A verdict also takes the other claims of its table or figure into account, so it "
    "may be inconclusive where the interval leaves out 0."
)


@dataclass(frozen=True)
class Claimed:
    """``comparison``: both sides, dataset, column, and whether the first is predicted to be lower; ``difference``: with interval
    and unit; ``direction`` with its ``scope``, and ``size``; ``detectable``: the minimum detectable effect of an inconclusive
    claim, else ""; ``label``: the column; ``seen``: see :func:`mdc.report.words.seen`."""

    comparison: str
    difference: str
    direction: str
    scope: str
    size: str
    detectable: str
    label: str
    seen: str

    @property
    def about(self) -> str:
        """``supported (methods)``; "not compared" has no scope."""
        return self.direction + (f" ({self.scope})" if self.scope else "") + self.seen

    @property
    def verdict(self) -> str:
        """``inconclusive (methods), equivalent, minimum detectable 2.3``"""
        size = self.size if self.size not in ("undecided", "not tested") else ""
        least = f"minimum detectable {self.detectable}" if self.detectable else ""
        return ", ".join(part for part in (self.about, size, least) if part)


def claimed(row: Mapping[str, Any]) -> Claimed:
    """A line of a csv file of differences (:data:`mdc.report.frame.CLAIMS`), or the cells of one."""
    numbers = [float(row[key]) for key in ("value", "low", "high") if row[key] not in ("", None)]
    unit = row["unit"] if numbers else ""
    least = float(row["detectable"]) if row["detectable"] not in ("", None) else None
    if not numbers:  # one side has no such number
        shown = ["–"]
    else:
        decimals = 1 if max(map(abs, numbers)) >= 1 else 2
        shown = [signed(number, decimals) for number in numbers]
    difference = f"{shown[0]} [{', '.join(shown[1:])}] {unit}" if len(shown) == 3 else f"{shown[0]} {unit}"
    parts = comparison_name(row), row["condition"], row["label"], "predicted lower" * (row["predicted"] == "lower")
    comparison = ", ".join(filter(None, parts))
    detectable = "" if least is None else f"{least:#.2g}".rstrip(".")
    cells = (
        row["direction"],
        row["scope"] or "",
        row["size"],
        detectable,
        row["label"],
        words.seen(row.get("seen") or ""),
    )
    return Claimed(comparison, difference.strip(), *cells)
