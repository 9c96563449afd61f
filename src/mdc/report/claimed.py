"""What a table or figure claimed beforehand, read from the csv file that holds its differences and their verdicts."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

#: ends of the names of files that hold claims
_FILES = ("_contrasts.csv", "_claims.csv", "_over.csv")
#: columns that may hold the difference, the first side, and what tells the claims of one file apart
_DIFFERENCES = ("difference", "points", "fall", "value")
_FIRST = ("method", "curve")
_PLACES = ("dataset", "backbone", "estimator", "distortion", "context")
_MEASURES = ("benchmark", "metric")


@dataclass(frozen=True)
class Claim:
    """``what``: both sides, and on what; ``found``: the difference with its interval; ``verdict``: in words that
    docs/statistics.md defines; ``benchmark``: the column that it was claimed of, "" where the file names none."""

    what: str
    found: str
    verdict: str
    benchmark: str


def claims(folder: Path, files: Sequence[str]) -> list[Claim]:
    """The claims in those of the ``files`` of a table's or figure's ``folder`` that hold any, in their order."""
    found: list[Claim] = []
    for name in files:
        path = folder / name
        if name.endswith(_FILES) and path.is_file():
            with path.open(encoding="utf-8", newline="") as file:
                rows = [row for row in csv.DictReader(file) if row.get("verdict")]
            apart = [key for key in _PLACES if len({row.get(key, "") for row in rows}) > 1]
            found += [_claim(row, apart) for row in rows]
    return found


def _claim(row: dict[str, str], apart: Sequence[str]) -> Claim:
    first, second = _one(row, _FIRST), row["against"]
    here, there = row.get("dataset", ""), row.get("against_dataset", "")
    across = there not in ("", here)
    if across:
        first, second = f"{first} on {here}", f"{second} on {there}"
    # systems on unlike backbones say so by their own labels
    places = [row[key] for key in apart if not (across and key == "dataset") and " − " not in row[key]]
    context = ", ".join(one for one in (*places, _one(row, _MEASURES)) if one)
    numbers = [float(number) for number in (_one(row, _DIFFERENCES), row["low"], row["high"])]
    decimals = 1 if max(map(abs, numbers)) >= 1 else 2
    shown = [f"{round(number, decimals) + 0.0:+.{decimals}f}" for number in numbers]
    found = f"{shown[0]} [{shown[1]}, {shown[2]}]".replace("-", "−")
    return Claim(
        f"{first} − {second}{f', {context}' if context else ''}", found, row["verdict"], row.get("benchmark", "")
    )


def _one(row: dict[str, str], keys: Sequence[str]) -> str:
    """The value of the first of ``keys`` that has one."""
    return next((row[key] for key in keys if row.get(key)), "")
