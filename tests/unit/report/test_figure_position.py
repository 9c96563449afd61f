"""The position figure on made-up tokens: the right-to-left control in the matched panel, and outside the claims."""

from __future__ import annotations

import copy
import csv
import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
from scipy import stats

from mdc.config import read_yaml, validate
from mdc.jobs.plan import Plan
from mdc.jobs.shown import PositionsFigureJob
from mdc.records import UserError, sha256_file, sha256_text
from mdc.report.figures import positions as figure
from mdc.report.positions import Positions

METHODS = {"arc": "ARC", "rtl": "ARC right to left", "mdc": "MDC"}
PIECES = 6
CAPTIONS = 30


def _rows(method: str, seed: int = 0) -> list[dict[str, Any]]:
    """Captions whose second and fifth pieces are the same: that pair is a repeat, seen from either end. Odd places are shapes."""
    rng = np.random.default_rng([list(METHODS).index(method), seed])
    rows = []
    for caption in range(CAPTIONS):
        for place in range(1, PIECES + 2):
            row = {"caption": caption, "key": f"k{caption}", "place": place, "tokens": PIECES + 1}
            row |= {"kind": "end" if place > PIECES else "shape" if place % 2 else "function"}
            row |= {"eot": place > PIECES, "before": place == 5, "after": place == 2}
            row |= {name: float(rng.normal()) for name in ("own", "own_blind", "prefix", "prefix_blind")}
            rows.append(row)
    return rows


def _norm(step: int, caption: int, place: int, seed: int) -> float:
    """Of a token's gradient: it grows with the place, after training more steeply."""
    return (1.0 + place) ** (1 + step / 10) * (1 + 0.1 * (caption % 3)) + seed


def _positions(tmp_path: Path, seeds: tuple[int, ...]) -> Positions:
    given, expected = {}, {}
    for method, seed in itertools.product(METHODS, seeds):
        name = f"positions/{method}/{seed}"
        folder = tmp_path / name
        folder.mkdir(parents=True)
        parquet.write_table(pa.Table.from_pylist(_rows(method, seed)), folder / "tokens.parquet")
        taught = [
            {"step": step, "caption": n, "key": f"k{n}", "place": place, "tokens": PIECES + 1}
            | {"norm": _norm(step, n, place, seed)}
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
            "records": [f"positions/{method}/{seed}" for seed in seeds],
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
            "seeds": list(seeds),
            "bins": 3,
            "comparable": 0.1,
            "samples": 16,
            "others": 2,
            "statistics": {"level": 0.95, "comparable": 2.0, "power": 0.8, "bootstrap": 240},
        }
    )
    return Positions(job, given)


@pytest.fixture
def found(tmp_path: Path) -> Positions:
    return _positions(tmp_path, (0,))


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


def _gains(method: str, seed: int, context: str) -> list[tuple[dict[str, Any], float]]:
    return [(row, row[context] - row[f"{context}_blind"]) for row in _rows(method, seed)]


@pytest.mark.parametrize("context", ["own", "prefix"])
@pytest.mark.parametrize("kind", ["shape", "function"])
def test_curves_of_a_kind_of_word_are_of_its_tokens_alone(found: Positions, context: str, kind: str) -> None:
    assert found.kinds["c/mdc"] == ["shape", "function"], "EOT is no kind of word"
    for number, gain, count in found.curve("c/mdc", context, kind):
        values = [
            value
            for row, value in _gains("mdc", 0, context)
            if row["kind"] == kind and (row["place"] - 1) // 2 == number and not (context == "prefix" and row["before"])
        ]
        assert gain.value == pytest.approx(np.mean(values)) and count == len(values) > 0
        assert gain.low < gain.value < gain.high


def test_three_seeds_are_a_source_of_their_own(tmp_path: Path) -> None:
    """The claim: by t, from the variance between the seeds' falls and that of captions, and wider than seeds alone would be."""
    seeds = (0, 1, 2)
    three = _positions(tmp_path, seeds)
    ((_, _, claim, _),) = three.claims()
    falls = []
    for seed in seeds:
        pairs = zip(_gains("mdc", seed, "prefix"), _gains("arc", seed, "prefix"), strict=True)
        gains = [(row, ours - theirs) for (row, ours), (_, theirs) in pairs if not (row["eot"] or row["before"])]
        late = [gain for row, gain in gains if row["place"] in (5, 6)]
        early = [gain for row, gain in gains if row["place"] in (1, 2)]
        falls.append(np.mean(late) - np.mean(early))
    assert claim.value == pytest.approx(np.mean(falls)) and (claim.kind, claim.seeds) == ("seeds and items", 3)
    between = np.std(falls, ddof=1) / np.sqrt(3)
    half = (claim.high - claim.low) / 2
    assert claim.high - claim.value == pytest.approx(claim.value - claim.low)
    assert half > stats.norm.isf(0.025) * between


def test_the_learning_signal_is_the_mean_norm_by_place_and_over_the_training(found: Positions) -> None:
    signal = found.signal("c/arc")
    assert [(step, number) for step, number, _, _ in signal] == [(s, n) for s in (0, 10) for n in range(3)]
    for step, number, mean, count in signal:
        places = (2 * number + 1, 2 * number + 2)
        norms = [_norm(step, n, place, 0) for n in range(CAPTIONS) for place in places]
        assert mean.value == pytest.approx(np.mean(norms)) and count == len(norms), "EOT is left out"
    for (share, ratio), step in zip(found.signal_ratio("c/arc"), (0, 10), strict=True):
        late, early = ([np.log(_norm(step, n, p, 0)) for n in range(CAPTIONS) for p in two] for two in ((5, 6), (1, 2)))
        assert share == step / 10 and ratio.value == pytest.approx(np.mean(late) - np.mean(early))
