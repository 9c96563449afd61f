"""Figure 5: its trend against numpy's least squares, what it draws and refuses, and its job."""

from __future__ import annotations

import argparse
import csv
import json
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from probing_world import ProbingWorld

from mdc.records import UserError, sha256_file
from mdc.report.estimates import Estimator
from mdc.report.figures import figure5, figure5_job
from mdc.report.items import ProbeItems
from mdc.statistics import intervals as statistics
from mdc.statistics.trend import slope_weights

PAIRS = {"d750": 750, "d2000": 2000, "d6000": 6000}
LOGS = np.log2(list(PAIRS.values()))


def world(corpora: dict[str, list[str]] | None = None, pairs: dict[str, int] = PAIRS, **given: Any) -> ProbingWorld:
    def skill(corpus: str | None, method: str, probe: str, seed: int) -> float:
        if corpus is None:
            return 0.4
        return 0.35 + 0.01 * seed + {"mdc": 0.03, "arc": 0.02}[method] * float(np.log2(pairs[corpus] / 100))

    chosen = {corpus: ["mdc"] for corpus in pairs} if corpora is None else corpora
    return ProbingWorld(chosen, skill, pairs, **{"table": "figure5", **given})


def values(made: ProbingWorld, probe: str = "shape", method: str = "mdc") -> np.ndarray:
    """Of all items (seeds, corpora, N)."""
    seeds = made.spec["seeds"]
    records = [[made.record(f"{corpus}/B/{method}/s{seed}") for corpus in PAIRS] for seed in seeds]
    return np.array([[made.items(record)[probe].value for record in line] for line in records])


def read(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(path.read_text(encoding="utf-8").splitlines()))


# --- the trend ------------------------------------------------------------------------------------------------------


def test_slope_weights_are_least_squares() -> None:
    rng = np.random.default_rng(0)
    for _ in range(50):
        x, y = rng.normal(size=(2, int(rng.integers(2, 7))))
        assert slope_weights(x) @ y == pytest.approx(np.polyfit(x, y, 1)[0])
    with pytest.raises(UserError, match="two different places"):
        slope_weights([3.0, 3.0])


@pytest.mark.parametrize("seeds", [(0,), (0, 1)])
def test_with_few_seeds_the_trend_is_resampled_over_items(tmp_path: Path, seeds: tuple[int, ...]) -> None:
    made = world(seeds=seeds, n=300, bootstrap=20_000)
    _, (trend,) = figure5.build(made.records, made.items, made.spec, tmp_path)
    mean = values(made).mean(axis=0)
    slope, intercept = np.polyfit(LOGS, 100 * mean.mean(axis=1), 1)
    assert (trend.slope, trend.intercept) == (pytest.approx(slope), pytest.approx(intercept))
    assert trend.at(2000) == pytest.approx(intercept + slope * np.log2(2000))
    off = 100 * mean.mean(axis=1) - intercept - slope * LOGS
    assert trend.residual_sd == pytest.approx(np.sqrt((off**2).sum()))  # three points, two parameters
    # by hand: the same items at every size in each resample, and numpy's line through each
    picks = np.random.default_rng(9).integers(0, 300, size=(4000, 300))
    slopes = [np.polyfit(LOGS, 100 * mean[:, pick].mean(axis=1), 1)[0] for pick in picks]
    assert (trend.low, trend.high) == pytest.approx(np.quantile(slopes, [0.025, 0.975]), abs=0.06)
    apart = [100 * (np.polyfit(LOGS, np.eye(3), 1)[0] * mean.std(axis=1) / np.sqrt(300))]
    assert trend.high - trend.low < 0.9 * 2 * 1.96 * np.sqrt((np.array(apart) ** 2).sum()), "paired by item"
    assert "bootstrap over test items" in trend.interval and 0 < trend.p < 0.01


def test_with_three_seeds_the_trend_is_students_over_slopes(tmp_path: Path) -> None:
    from scipy import stats

    made = world(seeds=(0, 1, 2, 3), probes=("shape", "colour"))
    _, trends = figure5.build(made.records, made.items, made.spec, tmp_path)
    for trend, probe in zip(trends, ("shape", "colour"), strict=True):
        slopes = [np.polyfit(LOGS, 100 * seed.mean(axis=1), 1)[0] for seed in values(made, probe)]
        oracle = stats.ttest_1samp(slopes, 0)
        low, high = oracle.confidence_interval(0.95)
        assert (trend.slope, trend.low, trend.high) == pytest.approx((np.mean(slopes), low, high))
        assert trend.p == pytest.approx(oracle.pvalue) and trend.interval == "t over 4 seeds"
        error = np.std(slopes, ddof=1) / 2
        assert trend.smallest_detectable == pytest.approx(stats.t(3).ppf([0.975, 0.8]).sum() * error)
    assert [t.p_holm for t in trends] == pytest.approx(statistics.holm([t.p for t in trends]))
    lines = read(tmp_path / "figure5_trend.csv")
    assert [line["benchmark"] for line in lines] == ["Shape", "Colour"]
    assert {line["pairs"] for line in lines} == {"750 2000 6000"}
    assert [float(line["slope"]) for line in lines] == pytest.approx([t.slope for t in trends], abs=5.1e-5)


@pytest.mark.parametrize("seeds", [1, 2, 3])
def test_a_difference_is_one_combination(seeds: int) -> None:
    rng = np.random.default_rng(3)
    ids = tuple(map(str, range(80)))
    a, b = ([{"x": ProbeItems(ids, value=rng.integers(0, 2, 80) * 1.0)} for _ in range(seeds)] for _ in "ab")
    estimator = Estimator(draws=500)
    apart = estimator.difference(a, b, ["x"])
    by_hand = [np.array([member["x"].value for member in group]) for group in (a, b)]
    if seeds < 3:
        x, y = (group.mean(axis=0) for group in by_hand)
        expected = statistics.bootstrap_paired(x, y, np.random.default_rng(0), 500)
    else:
        expected = statistics.t_interval_paired(*(group.mean(axis=1) for group in by_hand))
    assert apart == expected.times(100) and apart.p is not None
    double = estimator.combination([(2.0, a), (-2.0, b)], ["x"])
    assert double == replace(apart.times(2), p=pytest.approx(apart.p))
    with pytest.raises(UserError, match="as many seeds"):
        estimator.combination([(1.0, a), (1.0, b), (1.0, a * 2)], ["x"])
    moved = [{"x": ProbeItems(ids[::-1], value=member["x"].value)} for member in b]
    with pytest.raises(UserError, match="not tested on the same items"):
        estimator.combination([(1.0, a), (1.0, b), (1.0, moved)], ["x"])


def test_of_multi_label_probes_too() -> None:
    rng = np.random.default_rng(4)
    ids, targets = tuple("abcdefghij"), rng.integers(0, 2, (10, 2))

    def linear(scores: Any, targets: Any, counts: Any) -> Any:
        return counts @ (scores * targets).mean(axis=1) / counts.sum(axis=1)

    groups = [[{"x": ProbeItems(ids, scores=rng.random((10, 2)), targets=targets)}] for _ in range(3)]
    weights = slope_weights(LOGS).tolist()
    estimator = Estimator(draws=300, mean_average_precision=linear)
    slope = estimator.combination(list(zip(weights, groups, strict=True)), ["x"])
    levels = [estimator.level(group, ["x"]).value for group in groups]
    assert slope.value == pytest.approx(np.polyfit(LOGS, levels, 1)[0])
    assert slope.low < slope.value < slope.high


# --- files ----------------------------------------------------------------------------------------------------------


def test_every_number_has_its_pairs_and_the_samples_seen(tmp_path: Path) -> None:
    made = world(epochs=4)
    figure5.build(made.records, made.items, made.spec, tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(figure5.FILES)
    untrained, *lines = read(tmp_path / "figure5.csv")
    assert (untrained["pairs"], untrained["samples_seen"]) == ("", "")
    assert [int(line["pairs"]) for line in lines] == list(PAIRS.values())
    assert [int(line["samples_seen"]) for line in lines] == [4 * pairs for pairs in PAIRS.values()]
    for line in lines:
        assert float(line["value"]) == pytest.approx(made.record(line["run"])["probes"]["shape"]["value"], abs=5.1e-5)
    svg = (tmp_path / "figure5.svg").read_text(encoding="utf-8")
    for words in ("image–caption pairs", "2,000", "8,000", "points a doubling of the pairs", "not a reproduction"):
        assert words in svg, "as a comment beside the drawn letters"


def test_methods_of_one_size_have_a_point_and_no_trend(tmp_path: Path) -> None:
    made = world({"d750": ["mdc"], "d2000": ["arc", "mdc"], "d6000": ["mdc"]})
    numbers, trends = figure5.build(made.records, made.items, made.spec, tmp_path)
    assert [trend.method_key for trend in trends] == ["mdc"]
    assert [number.method_key for number in numbers].count("arc") == 1
    made = world({"d750": ["arc", "mdc"], "d2000": ["mdc"], "d6000": ["arc"]})
    _, trends = figure5.build(made.records, made.items, made.spec, tmp_path)
    assert {t.method_key: (t.pairs, t.residual_sd) for t in trends} == {
        "arc": ("750 6000", None),
        "mdc": ("750 2000", None),
    }


def test_same_records_same_bytes_whatever_their_order(tmp_path: Path) -> None:
    made = world()
    for name, records in (("a", made.records), ("b", made.records[::-1])):
        figure5.build(records, made.items, made.spec, tmp_path / name)
    for name in figure5.FILES:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes(), name
    ElementTree.parse(tmp_path / "a/figure5.svg")


@pytest.mark.parametrize(
    ("count", "words"),
    [
        (750, "750"),
        (6000, "6,000"),
        (999_499, "999,499"),
        (999_500, "1M"),
        (4_912_345, "4.91M"),
        (1_280_000_000, "1.28B"),
    ],
)
def test_counts_are_short(count: int, words: str) -> None:
    assert figure5.count_words(count) == words


def test_what_makes_no_trend_is_refused(tmp_path: Path) -> None:
    def refused(match: str, made: ProbingWorld) -> None:
        with pytest.raises(UserError, match=match) as told:
            figure5.build(made.records, made.items, made.spec, tmp_path / "out")
        assert "\n" not in str(told.value) and not (tmp_path / "out").exists()

    refused("figure 5: d750 and d2000 both had 750 pairs", world(pairs={**PAIRS, "d2000": 750}))
    refused("figure 5: a trend needs two corpora or more", world({"d750": ["mdc"]}))
    made = world(seeds=(0, 1))
    made.record("d2000/B/mdc/s1")["training"]["pairs"] = 1999
    refused("runs of d2000 saw different numbers of pairs: d2000/B/mdc/s0 on 2,000, d2000/B/mdc/s1 on 1,999", made)
    made = world()
    made.record("d2000/B/mdc/s0")["training"] = None
    refused("the probe record of d2000/B/mdc/s0 does not tell its pairs", made)


def test_the_job_names_what_it_made_and_from_what(tmp_path: Path) -> None:
    made = world()
    files = made.write(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps({**made.spec, "job": "figure5"}))
    out = tmp_path / "out"
    figure5_job.main(argparse.Namespace(config=tmp_path / "config.json", records=files, out=out))
    record = json.loads((out / "figure5.json").read_text())
    assert record["outputs"] == {name: sha256_file(out / name) for name in figure5.FILES}
    assert len(record["inputs"]) == len(made.records) == len(files)
