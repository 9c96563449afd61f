"""Every csv file of numbers and of differences of a whole project, read by its schema (docs/results.md)."""

import csv
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from shown import read_rows

from mdc.plan.jobs.folder import ScaleFolder
from mdc.plan.records import read_json
from mdc.report.frame import CLAIM_FILES, CLAIMS, ESTIMATE, LEVELS

Rows = list[dict[str, str]]
#: cells that may hold words with spaces: what things are called
CALLED = {
    *("dataset", "second_dataset", "backbone", "second_backbone", "method", "second_method", "label", "metric", "unit"),
    *("pooling", "estimator", "condition", "direction", "size", "seen", "rates"),
}
NUMBERS = {
    *set(ESTIMATE) - {"interval", "scope"},
    *("chance", "gain", "gain_low", "gain_high", "pairs", "steps", "published"),
    *("p", "p_holm", "margin", "p_size", "p_size_holm", "detectable"),
}
#: floats have six significant digits
FLOAT = re.compile(r"-?(\d+(\.\d+)?|\d\.\d+)(e[+-]\d+)?")
KINDS = {"exact", "bootstrap", "seeds_and_items", "seeds", "splits"}
KEY = re.compile(r"[A-Za-z0-9_./+-]*")


def files(r: Path) -> Iterator[tuple[Path, tuple[str, ...], Rows]]:
    """Of every table and figure the csv files that hold estimates, their columns and their rows."""
    for record in sorted(r.glob("*/*.json")):
        if record.stem != record.parent.name:
            continue
        for name in sorted(read_json(record)["outputs"]):
            path = record.with_name(name)
            if path.suffix != ".csv":
                continue
            with path.open(newline="") as file:
                reader = csv.DictReader(file)
                rows = list(reader)
            if set(ESTIMATE) <= set(reader.fieldnames or ()):
                yield path, tuple(reader.fieldnames or ()), rows


def test_levels_and_differences_have_one_schema_each(r: Path) -> None:
    levels, claims = [], []
    for path, columns, _ in files(r):
        place = columns.index("value")
        assert columns[place : place + len(ESTIMATE)] == ESTIMATE, path
        assert {"scale", "artefact"} <= set(columns), path
        if path.name.endswith(CLAIM_FILES):
            assert columns[: len(CLAIMS)] == CLAIMS, path
            claims.append(path.parent.name)
        elif "chance" in columns:
            assert columns[: len(LEVELS)] == LEVELS, path
            levels.append(path.parent.name)
    assert {"table1", "table2", "table3", "figure4", "figure5", "table_retrieval", "mcd_figure3"} <= set(levels)
    compared = {"table1", "table_splits", "figure5", "figure_position", "figure_robustness"}
    assert compared <= set(claims)


def test_a_difference_stands_once_in_a_file(r: Path) -> None:
    for path, columns, rows in files(r):
        keys = [
            tuple(row[key] for key in ("kind", "first", "second", "column", "condition"))
            for row in rows
            if "first" in columns
        ]
        assert len(keys) == len(set(keys)), path


def test_cells_hold_keys_words_and_numbers(r: Path) -> None:
    kinds = set()
    for path, columns, rows in files(r):
        for row in rows:
            told = path, row
            assert row["scale"] == r.name and row["artefact"] == path.parent.name, told
            for column in columns:
                cell = row[column]
                if column in NUMBERS and cell:
                    assert FLOAT.fullmatch(cell), (column, *told)
                    digits = re.sub(r"e.*|[-.]", "", cell).lstrip("0")
                    assert "." not in cell or len(digits) <= 6, (column, *told)
                elif column in (*LEVELS, *CLAIMS) and column not in CALLED | NUMBERS:
                    assert KEY.fullmatch(cell), (column, *told)
            if row.get("direction") == "not compared" or (row.get("direction") == "below control" and not row["value"]):
                assert not any(row[name] for name in ESTIMATE), told
                continue
            assert row["interval"] in (KINDS if row["low"] else {""}), told
            scopes = ("",) if row.get("metric") == "cost" else ("checkpoints", "methods", "splits")
            assert row["scope"] in scopes, told
            kinds.add(row["interval"])
            value = float(row["value"])
            for low, middle, high in (("low", "value", "high"), ("gain_low", "gain", "gain_high")):
                if row.get(low):
                    # a bootstrap's shifted ends need not hold the value; see the next test
                    assert float(row[low]) < float(row[high]), told
                assert bool(row.get(low)) == bool(row.get(high)) <= bool(row.get(middle)), told
            if row["low"] and row["interval"] != "bootstrap":
                assert float(row["low"]) <= value <= float(row["high"]), told
            assert int(row["n"]) >= 1 and int(row["seeds"]) >= 1, told
            assert not row["groups"] or int(row["groups"]) <= int(row["n"]), told
    assert kinds >= {"bootstrap", "exact", "splits"}


def test_what_was_named_has_a_direction_and_all_else_has_none(r: Path) -> None:
    seen = set()
    for path, columns, rows in files(r):
        if columns[: len(CLAIMS)] != CLAIMS:
            continue
        named = [row["primary"] == "True" for row in rows]
        assert named == sorted(named, reverse=True), f"{path}: claims stand first"
        for row, primary in zip(rows, named, strict=True):
            told = path, row
            assert row["primary"] in ("True", "False"), told
            if not primary:
                empty = (
                    "predicted",
                    "p",
                    "p_holm",
                    "direction",
                    "margin",
                    "p_size",
                    "p_size_holm",
                    "size",
                    "detectable",
                )
                assert {row[key] for key in empty} == {""}, told
                continue
            seen.add(row["direction"])
            assert row["predicted"] in ("higher", "lower"), told
            decided = ("supported", "reversed", "inconclusive", "below control", "not tested")
            assert bool(row["p"]) == (row["direction"] in decided), told
            assert row["size"] in ("", "larger", "equivalent", "undecided", "not tested"), told
            assert bool(row["size"]) == bool(row["p_size"]) <= bool(row["margin"]), told
            assert not row["detectable"] or row["direction"] == "inconclusive", told
    assert {"too few groups"} <= seen


def test_keys_lead_from_a_difference_to_its_sides(r: Path) -> None:
    """Of tables: both sides are systems of the levels, and the value is the difference of their values."""
    for table in ("table1", "table2", "table3", "table4", "table_neighbours", "table_ratio", "table_retrieval"):
        of = {path.name: rows for path, _, rows in files(r) if path.parent.name == table}
        levels = {(row["system"], row["column"]): float(row["value"]) for row in of[f"{table}_long.csv"]}
        assert len(levels) == len(of[f"{table}_long.csv"]), "a system and a column are a key"
        for row in of[f"{table}_contrasts.csv"]:
            apart = levels[row["first"], row["column"]] - levels[row["second"], row["column"]]
            assert float(row["value"]) == pytest.approx(apart, abs=2e-3), row
        for row in of[f"{table}_long.csv"]:
            if row["gain"]:
                apart = float(row["value"]) - levels[row["control"], row["column"]]
                assert float(row["gain"]) == pytest.approx(apart, abs=2e-3), row
            if row["gain_low"]:  # none of a difference that never varies
                assert float(row["gain_low"]) <= float(row["gain"]) <= float(row["gain_high"]), row


def test_every_column_stands_on_the_page_of_the_schemas(r: Path) -> None:
    """… but for tables in the paper's layout."""
    page = Path(__file__).resolve().parents[2] / "docs/results.md"
    told = set(re.findall(r"`([a-z0-9_]+)`", page.read_text(encoding="utf-8")))
    paths = [path for path in r.glob("*/*.csv") if path.stem != path.parent.name or path.parent.name[0] == "f"]
    assert len(paths) > 30
    for path in paths:
        with path.open(newline="") as file:
            assert set(next(csv.reader(file))) <= told, path


#: what is text by its nature: captions, and what datasets say of themselves
_TEXT = ("caption", "note", "its_own_page", "reference")


def test_no_cell_holds_a_list(r: Path) -> None:
    paths = sorted(r.glob("*/*.csv"))
    assert len(paths) > 50
    for path in paths:
        for row in read_rows(path):
            assert not any("; " in cell for head, cell in row.items() if head not in _TEXT), path
            assert not any(" " in row.get(head, "") for head in ("record", "run", "system", "first", "second")), path


def test_every_system_has_its_runs_and_their_records(r: Path) -> None:
    folder, count = ScaleFolder(r), 0
    for path, columns, rows in files(r):
        runs = path.with_name(f"{path.parent.name}_runs.csv")
        if "system" not in columns or not runs.is_file():
            continue
        of, count = read_rows(runs), count + 1
        seeds = {(row["system"], row["seed"]) for row in of if row["role"] == "result"}
        assert len(seeds) == len([row for row in of if row["role"] == "result"]), path
        assert {row["system"] for row in rows} <= {system for system, _ in seeds}, path
        for row in of:
            assert folder.job(row["record"]).is_dir() and " " not in row["record"], (path, row)
    assert count > 10
