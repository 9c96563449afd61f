"""The table of several heads: one row per method, one column per head, then each head's probes, and claims of one head each."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from probing_world import ProbingWorld
from scale_plans import plan_of
from shown import read_rows

HEADS = {"linear": "linear probe", "attentive": "attentive probe", "knn": "nearest neighbours"}
SKILL = {"untrained": 0.3, "clip": 0.6, "arc": 0.5, "mdc": 0.7}


def world(
    probes: tuple[str, ...] = ("shape", "colour"), heads: tuple[str, ...] = tuple(HEADS), **changes: Any
) -> ProbingWorld:
    """Systems as the plan makes them; attention sees a tenth more."""
    now = {"head": ""}

    def skill(corpus: str | None, method: str, probe: str, seed: int) -> float:
        return SKILL[method] + 0.1 * (now["head"] == "attentive") + 0.05 * (probe == "colour")

    primary = [["alt/B/mdc/attentive", "alt/B/arc/attentive"], ["alt/B/mdc/linear", "alt/B/arc/linear"]]
    fields: dict[str, Any] = {"primary": primary, "primary_metric": "average" if len(probes) > 1 else probes[0]}
    made = ProbingWorld({}, skill, probes=probes, artefact="table_neighbours", backbones={}, **(fields | changes))
    made.contrasts = [[f"alt/B/mdc/{head}", f"alt/B/arc/{head}"] for head in heads]
    for head in heads:
        now["head"] = head
        for method in ("untrained", "clip", "arc", "mdc"):
            control = method == "untrained"
            base, corpus = ("untrained/B/patch_mean", None) if control else (f"alt/B/{method}", "alt")
            label = f"{method if control else method.upper()} · {HEADS[head]}"
            told: dict[str, Any] = {"reference": True} if control else {"control": f"untrained/B/patch_mean/{head}"}
            told |= {"method": {"key": method, "label": label}, "estimator": HEADS[head]}
            training = None if control else {"pairs": 8, "steps": 1, "samples_seen": 8}
            suffix = "" if head == "linear" else f"/{head}"
            made.add(f"{base}/{head}", corpus, method, training, runs=[f"{base}/s0"], suffix=suffix)
            made.systems[-1] |= told
    return made


def test_a_row_a_method_and_a_column_a_head(tmp_path: Path) -> None:
    made = world()
    out = made.make(tmp_path)
    rows = {row["method"]: row for row in read_rows(out / "table_neighbours.csv")}
    assert list(rows) == ["untrained, mean of patches", "CLIP", "ARC", "MDC"]
    columns = ["Linear probe", "Attentive probe", "Nearest neighbours"]
    assert [key for key in rows["MDC"] if key in columns] == columns
    for column, ending in zip(columns, ("", "/attentive", "/knn"), strict=True):
        for name, run in (("MDC", "alt/B/mdc/s0"), ("untrained, mean of patches", "untrained/B/patch_mean/s0")):
            mean = np.mean([made.value(run + ending, probe) for probe in made.probes])
            assert float(rows[name][column]) == pytest.approx(mean, abs=0.051)
    levels = read_rows(out / "table_neighbours_long.csv")
    assert {(row["system"], row["estimator"]) for row in levels} >= {("alt/B/mdc/knn", "nearest neighbours")}
    claims = [row for row in read_rows(out / "table_neighbours_contrasts.csv") if row["primary"] == "True"]
    assert {row["first"] for row in claims} == {"alt/B/mdc/attentive", "alt/B/mdc/linear"}
    assert {row["column"] for row in claims} == {"average"}
    page = (out / "table_neighbours.html").read_text()
    for head in columns:
        assert f"{head}, probe by probe" in page


def test_one_probe_is_its_own_column(tmp_path: Path) -> None:
    out = world(probes=("shape",)).make(tmp_path)
    assert "probe by probe" not in (out / "table_neighbours.md").read_text()
    assert "Shape, ViT-T/12, per cent" in (out / "table_neighbours.md").read_text()


def test_the_probe_that_is_claimed_comes_first_and_all_stand_by_each_head(tmp_path: Path) -> None:
    """Of two metrics, which have no mean."""
    notes = ["Shape: its own training target."]
    made = world(multi=("shape",), primary_metric="colour", notes=notes)
    out = made.make(tmp_path)
    rows = {row["method"]: row for row in read_rows(out / "table_neighbours.csv")}
    for column, ending in (("Linear probe", ""), ("Attentive probe", "/attentive")):
        assert float(rows["MDC"][column]) == pytest.approx(made.value(f"alt/B/mdc/s0{ending}", "colour"), abs=0.051)
    claims = [row for row in read_rows(out / "table_neighbours_contrasts.csv") if row["primary"] == "True"]
    assert [row["column"] for row in claims] == ["colour", "colour"]
    page = (out / "table_neighbours.md").read_text()
    assert "Linear probe, probe by probe" in page and notes[0] in page


def test_shapes_are_probed_linearly_and_attentively() -> None:
    job = plan_of("scenes").jobs["table_shapes"]
    by_row: dict[str, dict[str, list[str]]] = {}
    for system in job.systems:
        by_row.setdefault(system.key.rpartition("/")[0], {})[system.estimator] = system.records
    assert len(by_row) == 21
    for row, records in by_row.items():
        linear = [f"probe/{row}/s{seed}" for seed in (1, 2, 3)]
        attentive = [f"{record}/attentive" for record in linear]
        assert records == {"linear probe": linear, "attentive probe": attentive}
        assert {*linear, *attentive} <= {*job.inputs}
