"""Table 2 as it is read: what its pages say of estimators, sets and ties, and its csv files against the scores of the jobs."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as parquet
import pytest
from shown import read_rows

from mdc.plan.records import read_json

SEEDS = (0, 1)
MEASURES = {"Relation", "Order", "Average", "Pairs text", "Pairs group"}


def _options(r: Path, seed: int, estimator: str, name: str) -> dict[str, list[dict[str, Any]]]:
    """The options of each item of a set under MDC, by item."""
    path = r / f"scores/alt/ViT-T-12/mdc/s{seed}/last/scores.parquet"
    found: dict[str, list[dict[str, Any]]] = {}
    for row in parquet.read_table(path).to_pylist():
        if (row["set"], row["estimator"]) == (name, estimator):
            found.setdefault(row["item"], []).append(row)
    return found


def _right(options: list[dict[str, Any]]) -> float:
    best = [row for row in options if row["score"] == max(other["score"] for other in options)]
    return (options[0] in best) / len(best)


def test_the_page_says_how_many_items_are_a_tie_and_what_chance_and_a_perfect_scorer_get(r: Path) -> None:
    text = (r / "table2/table2.md").read_text()
    told = read_json(r / "scores/alt/ViT-T-12/mdc/s0/last/scores.json")["sets"]["order"]
    same, items = told["same_as_answer"]["any"], told["items"]
    assert f"{items} items, of {same} a wrong option equals the right one" in text and 0 < same < items
    chance = [line for line in text.splitlines() if line.startswith("| *any* | *any* | *chance* |")]
    assert chance == ["| *any* | *any* | *chance* | 50.0 | 20.0 | 35.0 | 25.0 | 16.7 |"] * 2, (
        "below sums and below means a token"
    )
    # a perfect scorer cannot tell a perturbation that changed nothing from the right caption
    options = _options(r, 0, "heuristic", "order").values()
    order = 100 * sum(1 / (1 + sum(row["same_as"] == 0 for row in one[1:])) for one in options) / len(options)
    perfect = [line for line in text.splitlines() if line.startswith("| *any* | *any* | *perfect scorer* |")]
    shown = f"100.0 | {order:.1f} | {(100 + order) / 2:.1f} | 100.0 | 100.0"
    assert perfect == [f"| *any* | *any* | *perfect scorer* | {shown} |"] * 2
    ceilings = {line["label"]: float(line["ceiling"]) for line in read_rows(r / "table2/table2_long.csv")}
    expected = {"Relation": 100, "Order": order, "Average": (100 + order) / 2, "Pairs text": 100, "Pairs group": 100}
    assert ceilings == pytest.approx(expected, abs=1e-3)
    assert text.count("*fewer BPE tokens*") == 2


def test_a_column_stands_with_and_without_items_that_are_a_tie_by_definition(r: Path) -> None:
    """Items whose perturbation changed nothing: how many are left, and the share of right ones among them, by hand."""
    kept = {
        (line["column"], line["kept"], line["method"]): line
        for line in read_rows(r / "table2/table2_kept.csv")
        if line["backbone"] == "ViT-T/12"
    }
    for estimator, method in (("heuristic", "MDC (Heuristic)"), ("monte_carlo", "MDC (Monte Carlo)")):
        shares: dict[str, list[float]] = {"all": [], "distinct": []}
        for seed in SEEDS:
            items = _options(r, seed, estimator, "order")
            apart = {k: o for k, o in items.items() if all(row["same_as"] != 0 for row in o[1:])}
            assert 0 < len(apart) < len(items)
            assert int(kept["order", "all", method]["n"]) == len(items)
            assert int(kept["order", "distinct", method]["n"]) == len(apart)
            shares["all"].append(np.mean([_right(options) for options in items.values()]))
            shares["distinct"].append(np.mean([_right(options) for options in apart.values()]))
        for which, found in shares.items():
            assert float(kept["order", which, method]["value"]) == pytest.approx(100 * np.mean(found), abs=1e-3)
    assert ("relation", "distinct", "MDC (Heuristic)") not in kept, "it has no such item"
    assert "With and without items that cannot be answered" in (r / "table2/table2.md").read_text()


def test_every_control_stands_beside_each_method(r: Path) -> None:
    lines = read_rows(r / "table2/table2_long.csv")
    controls: dict[tuple[str, ...], set[str]] = {}
    for line in lines:
        if line["shown"] != "shorter":
            place = tuple(line[key] for key in ("estimator", "dataset", "backbone", "weights", "per"))
            controls.setdefault(place, set()).add(line["shown"])
        own = line["shown"] in ("own", "prior_subtracted")
        assert bool(line["gain"]) == line["control"].endswith("/mismatched") == own
    assert controls
    for (estimator, *_rest), found in controls.items():
        nats = {"own", "mismatched", "mismatched_mean", "constant", "prior_subtracted"}
        assert found == (nats if estimator != "cosine" else {"own", "mismatched", "constant"})
    assert {line["label"] for line in lines if line["shown"] == "shorter"} == MEASURES
