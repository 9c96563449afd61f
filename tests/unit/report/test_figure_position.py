"""The position figure on made-up tokens: the right-to-left control in the matched panel, and outside the claims."""

from __future__ import annotations

import copy
import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from mdc.config import read_yaml, validate
from mdc.jobs.plan import Plan
from mdc.jobs.shown import PositionsFigureJob
from mdc.records import UserError, sha256_file, sha256_text
from mdc.report.figures import positions as figure
from mdc.report.positions import Positions

METHODS = {"arc": "ARC", "rtl": "ARC right to left", "mdc": "MDC"}
PIECES = 6
CAPTIONS = 30


def _rows(method: str) -> list[dict[str, Any]]:
    """Captions whose second and fifth pieces are the same: that pair is a repeat, seen from either end."""
    rng = np.random.default_rng(list(METHODS).index(method))
    rows = []
    for caption in range(CAPTIONS):
        for place in range(1, PIECES + 2):
            row = {"caption": caption, "key": f"k{caption}", "place": place, "tokens": PIECES + 1, "kind": ""}
            row |= {"eot": place > PIECES, "before": place == 5, "after": place == 2}
            row |= {name: float(rng.normal()) for name in ("own", "own_blind", "prefix", "prefix_blind")}
            rows.append(row)
    return rows


@pytest.fixture
def found(tmp_path: Path) -> Positions:
    given, expected = {}, {}
    for method in METHODS:
        name = f"positions/{method}"
        folder = tmp_path / name
        folder.mkdir(parents=True)
        parquet.write_table(pa.Table.from_pylist(_rows(method)), folder / "tokens.parquet")
        taught = [
            {"step": step, "caption": n, "key": f"k{n}", "place": place, "tokens": PIECES + 1, "norm": 1.0 + place}
            for step in (0, 10)
            for n in range(CAPTIONS)
            for place in range(1, PIECES + 2)
        ]
        parquet.write_table(pa.Table.from_pylist(taught), folder / "gradients.parquet")
        outputs = {file: sha256_file(folder / file) for file in ("tokens.parquet", "gradients.parquet")}
        expected[name] = sha256_text(name)
        record = {"id": name, "config": {"scale": "mini"}, "config_sha256": expected[name], "outputs": outputs}
        (folder / "positions.json").write_text(json.dumps(record))
        given[name] = folder / "positions.json"
    systems = [
        {
            "key": f"c/{method}",
            "corpus": {"key": "c", "label": "Corpus"},
            "method": {"key": method, "label": label},
            "masked": method == "mdc",
            "reverse": method == "rtl",
            "records": [f"positions/{method}"],
        }
        for method, label in METHODS.items()
    ]
    job = PositionsFigureJob.model_validate(
        {
            "job": "figure_position",
            "verb": "make",
            "scale": "mini",
            "fingerprint": "f",
            "inputs": list(given),
            "artefact": "figure_position",
            "plan": "positions",
            "scale_label": "mini",
            "expected": expected,
            "backbone": "ViT-T/12",
            "systems": systems,
            "reference": "arc",
            "primary": ["c/mdc"],
            "seeds": [0],
            "bins": 3,
            "comparable": 0.1,
            "samples": 16,
            "others": 2,
            "statistics": {"level": 0.95, "comparable": 2.0, "power": 0.8, "bootstrap": 240},
        }
    )
    return Positions(job, given)


def test_the_control_is_drawn_in_matched_contexts_on_first_mentions_in_its_own_order(found: Positions) -> None:
    rows = _rows("rtl")
    for number, places in enumerate([(1, 2), (3, 4), (5, 6)]):
        gains = [row["prefix"] - row["prefix_blind"] for row in rows if row["place"] in places and not row["after"]]
        (_, gain, count) = found.curve("c/rtl", "prefix")[number]
        assert gain.value == pytest.approx(np.mean(gains)) and count == len(gains)
    # what is a first mention from the right is not the same as one from the left
    assert [count for _, _, count in found.curve("c/rtl", "prefix")] == [CAPTIONS, 2 * CAPTIONS, 2 * CAPTIONS]
    assert [count for _, _, count in found.curve("c/mdc", "prefix")] == [2 * CAPTIONS, 2 * CAPTIONS, CAPTIONS]


def test_the_control_is_named_and_stands_outside_the_claims(found: Positions, tmp_path: Path) -> None:
    out = tmp_path / "out"
    figure.make(found.job, {name: tmp_path / name / "positions.json" for name in found.job.expected}, out)

    def lines(name: str) -> list[dict[str, str]]:
        with (out / name).open() as file:
            return list(csv.DictReader(file))

    control = [line for line in lines("figure_position.csv") if line["method"] == METHODS["rtl"]]
    assert {line["context"] for line in control} == {"own", "suffix"}
    claims = lines("figure_position_claims.csv")
    assert [line["method"] for line in claims if line["primary"] == "true"] == ["MDC"]
    falls = [line for line in claims if line["method"] == METHODS["rtl"]]
    assert {line["context"] for line in falls} == {"own", "suffix"}
    assert all(line["against"] == line["verdict"] == "" for line in falls)
    drawn = (out / "figure_position.svg").read_text()
    assert "ARC right to left (control: suffix shown)" in drawn and "their mean in own contexts" in drawn


@pytest.mark.parametrize("changed", [{"reference": "arc_rtl", "primary": []}, {"primary": ["alt/arc_rtl"]}])
def test_nothing_can_be_claimed_of_the_control(changed: dict[str, Any]) -> None:
    values = copy.deepcopy({**read_yaml(Path(__file__).resolve().parents[3] / "params.yaml"), "scale": "mini"})
    asked = values["scales"]["mini"]["tables"]["figure_position"]
    asked |= {"corpora": {"alt": ["arc", "arc_rtl", "mdc"]}, **changed}
    with pytest.raises(UserError, match="reads from right to left, which is a control"):
        _ = Plan(validate(values)).jobs
