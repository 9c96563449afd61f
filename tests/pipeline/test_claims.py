"""Tables that show a part of the claims' captions."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from mdc.records import read_json
from mdc.statistics.splits import over_splits


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


def test_a_few_examples_change_what_a_run_writes(r: Path) -> None:
    rows = {row["method"]: row for row in rows_of(r / "table_few/table_few_long.csv") if row["benchmark"] == "CIDEr"}
    assert set(rows) == {"most frequent training caption", "MDC", "MDC, 32 examples"}
    assert [rows[name]["tuned"] for name in ("MDC", "MDC, 32 examples")] == ["", "tuned"]
    assert rows["MDC"]["run"] != rows["MDC, 32 examples"]["run"]


def test_the_table_of_splits_compares_over_them(r: Path) -> None:
    rows = [row for row in rows_of(r / "table_splits/table_splits_over.csv") if row["benchmark"] == "CIDEr"]
    assert [row["dataset"] for row in rows] == ["Described", "Described, val", "all"]
    contrasts = rows_of(r / "table_splits/table_splits_contrasts.csv")
    within = {row["dataset"]: row["difference"] for row in contrasts if row["benchmark"] == "CIDEr"}
    for row in rows[:2]:
        assert row["value"] == within[row["dataset"]] and (row["method"], row["against"]) == ("MDC", "100 %")
    share = 8 / read_json(r / "data/corpora/alt/index.json")["splits"]["train"]["samples"]
    values = [float(row["value"]) for row in rows[:2]]
    whole = over_splits(values, share)
    assert [float(rows[2][key]) for key in ("value", "low", "high")] == pytest.approx(
        [whole.value, whole.low, whole.high], abs=2e-3
    )
    assert (rows[2]["higher"], rows[2]["datasets"]) == (str(sum(value > 0 for value in values)), "2")
    page = (r / "table_splits/table_splits.md").read_text()
    assert "Over all 2 splits" in page and "MDC − 100 %" in page
