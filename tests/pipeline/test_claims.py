"""Tables that show a part of the claims' captions."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as lines:
        return list(csv.DictReader(lines))


def test_the_table_of_ratios_shows_each_run_and_what_was_measured_of_it(r: Path) -> None:
    rows = [row for row in rows_of(r / "table_ratio/table_ratio_long.csv") if row["benchmark"] == "CIDEr"]
    assert [row["method"].partition(" · ")[0] for row in rows] == [
        "most frequent training caption",
        "100 %",
        "MDC",
        "MDC, other image",
    ]
    # the claim is the difference of the rows that it names
    (claim,) = [row for row in rows_of(r / "table_ratio/table_ratio_contrasts.csv") if row["benchmark"] == "CIDEr"]
    values = {row["method"]: float(row["value"]) for row in rows}
    assert float(claim["difference"]) == pytest.approx(values["MDC"] - values["100 %"], abs=1e-3)
