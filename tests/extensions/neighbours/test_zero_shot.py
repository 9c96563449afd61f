"""Zero-shot classification's table against its records' items, and Winoground's columns against the scores of Table 2."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import small_project
from shown import read_rows

from mdc.plan.jobs.folder import ScaleFolder
from mdc.plan.records import read_json
from mdc.report.make import make

SEEDS = (0, 1)
METHODS = {"mdc": "heuristic", "arc": "likelihood", "clip": "cosine"}


def _shown(r: Path, table: str, **wanted: str) -> dict[tuple[str, str], float]:
    """(shown, column) → value."""
    lines = read_rows(r / f"{table}/{table}_long.csv")
    return {(line["shown"], line["column"]): float(line["value"]) for line in lines if wanted.items() <= line.items()}


@pytest.mark.parametrize("method", METHODS)
def test_the_table_is_what_the_items_say(r: Path, method: str) -> None:
    estimator = METHODS[method]
    shown = _shown(r, "table_zero_shot", system=f"alt/ViT-T-12/{method}/last/{estimator}/sum/own")
    shown |= _shown(r, "table_zero_shot", system=f"alt/ViT-T-12/{method}/last/{estimator}/sum/debiased")
    found: dict[tuple[str, str], list[float]] = {}
    for seed in SEEDS:
        folder = r / f"zero-shot/alt/ViT-T-12/{method}/s{seed}/last"
        record, rows = read_json(folder / "zero_shot.json"), pq.read_table(folder / "items.parquet").to_pylist()
        for probe in ("shape", "colour"):
            own: list[dict[str, Any]] = [x for x in rows if (x["probe"], x["estimator"]) == (probe, estimator)]
            assert record["probes"][probe]["n"] == len(own) == len({row["item"] for row in own}) == 20
            for name, column in (("own", "value"), ("debiased", "debiased")):
                values = [row[column] for row in own]
                if None not in values:
                    found.setdefault((name, probe), []).append(100 * float(np.mean(values)))
    assert found and ((("debiased", "shape") in found) == (method != "clip"))
    for key, values in found.items():
        assert len(values) == len(SEEDS) and shown[key] == pytest.approx(np.mean(values), abs=1e-6)


def test_beside_the_heads_stands_the_mean_of_the_same_rows(r: Path) -> None:
    rows = {line["method"]: line for line in read_rows(r / "table_neighbours/table_neighbours.csv")}
    told = {"CLIP": "clip", "ARC": "arc", "MDC": "mdc"}
    assert set(told) < set(rows)
    for label, line in rows.items():
        for shown, column in (("own", "Zero-shot"), ("debiased", "Zero-shot, debiased")):
            method = told.get(label, "")
            if not method or (method, shown) == ("clip", "debiased"):
                assert not line[column]
                continue
            first = "monte_carlo" if method == "mdc" else METHODS[method]
            system = f"alt/ViT-T-12/{method}/last/{first}/sum/{shown}"
            mean = _shown(r, "table_zero_shot", system=system)[shown, "average"]
            assert float(line[column]) == pytest.approx(mean, abs=0.051)


@pytest.mark.parametrize("method", METHODS)
def test_winogrounds_columns_are_of_both_images_of_an_item(r: Path, method: str) -> None:
    estimator = METHODS[method]
    expected: dict[str, list[float]] = {"text": [], "group": []}
    for seed in SEEDS:
        rows = pq.read_table(r / f"scores/alt/ViT-T-12/{method}/s{seed}/last/scores.parquet").to_pylist()
        score: dict[tuple[str, str, int], float] = {}
        for row in rows:
            if (row["set"], row["estimator"]) == ("pairs", estimator):
                score[row["group"], row["image"].rpartition("-")[2], row["option"]] = row["score"]
        groups = dict.fromkeys(group for group, _, _ in score)
        assert len(groups) == 8
        text, group = [], []
        for name in groups:
            # an image's own caption is its first option, and the other image's own its second
            c0i0, c1i0, c1i1, c0i1 = (score[name, image, option] for image in "01" for option in (0, 1))
            text.append(c0i0 > c1i0 and c1i1 > c0i1)
            group.append(text[-1] and c0i0 > c0i1 and c1i1 > c1i0)
        expected["text"].append(100 * float(np.mean(text)))
        expected["group"].append(100 * float(np.mean(group)))
    shown = _shown(r, "table2", system=f"alt/ViT-T-12/{method}/last/{estimator}/sum/own")
    for key, values in expected.items():
        assert shown["own", f"pairs_{key}"] == pytest.approx(np.mean(values), abs=1e-6)
    constant = _shown(r, "table2", system=f"alt/ViT-T-12/{method}/last/{estimator}/sum/constant")
    assert constant["constant", "pairs_text"] == constant["constant", "pairs_group"] == 0


def test_pairs_have_the_best_shortcut_of_their_own_score(r: Path) -> None:
    lines = read_rows(r / "table2/table2_long.csv")
    found = {line["column"]: float(line["shortcut"]) for line in lines if line["column"].startswith("pairs_")}
    # the first object's side is enough: the two objects are in opposite halves
    assert found == dict.fromkeys(("pairs_text", "pairs_group"), 100)


def test_a_table_of_heads_keeps_its_zero_shot_columns_where_the_corpus_is_the_beginning_of_a_list(
    r: Path, tmp_path: Path
) -> None:
    jobs: dict[str, Any] = small_project.plan(SEEDS).jobs
    job = jobs["table_neighbours"]

    def listed(systems: list[Any]) -> list[Any]:
        return [system.but(corpus=system.corpus and system.corpus.but(listed=99)) for system in systems]

    of_list = job.but(systems=listed(job.systems), beside=job.beside.but(systems=listed(job.beside.systems)))
    make(of_list, {name: ScaleFolder(r).manifest(name, jobs[name].verb) for name in job.inputs}, tmp_path)
    rows, others = (read_rows(place / "table_neighbours.csv") for place in (tmp_path, r / "table_neighbours"))
    assert {row["dataset"] for row in rows} >= {"Alt-text (64 pairs)"}
    assert any(row["Zero-shot"] for row in rows)
    assert [{**row, "dataset": ""} for row in rows] == [{**row, "dataset": ""} for row in others]
