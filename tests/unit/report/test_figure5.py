"""Figure 5: its trend against numpy's least squares, what it draws and refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mdc.report.statistics.contrasts import holm
from probing_world import ProbingWorld
from shown import STATISTICS, read_rows

from mdc.plan.records import UserError
from mdc.report.figures import accuracy_panels
from mdc.report.figures.trends import Sizes, Trend
from mdc.report.statistics.trend import slope_weights

PAIRS = {"d750": 750, "d2000": 2000, "d6000": 6000}
LOGS = np.log2(list(PAIRS.values()))


def world(corpora: dict[str, list[str]] | None = None, pairs: dict[str, int] = PAIRS, **given: Any) -> ProbingWorld:
    def skill(corpus: str | None, method: str, probe: str, seed: int) -> float:
        if corpus is None:
            return 0.4
        return 0.35 + 0.01 * seed + {"mdc": 0.03, "arc": 0.02}[method] * float(np.log2(pairs[corpus] / 100))

    chosen = {corpus: ["mdc"] for corpus in pairs} if corpora is None else corpora
    return ProbingWorld(chosen, skill, pairs, **{"artefact": "figure5", **given})


def values(made: ProbingWorld, probe: str = "shape", method: str = "mdc") -> np.ndarray:
    """Of all items (seeds, corpora, N)."""
    return np.array([[made.items[f"probe/{c}/B/{method}/s{seed}"][probe].value for c in PAIRS] for seed in made.seeds])


def trends(made: ProbingWorld, folder: Path) -> list[Trend]:
    return Sizes(made.job, made.write(folder)).trends()


def test_slope_weights_are_least_squares() -> None:
    rng = np.random.default_rng(0)
    for _ in range(50):
        x, y = rng.normal(size=(2, int(rng.integers(2, 7))))
        assert slope_weights(x) @ y == pytest.approx(np.polyfit(x, y, 1)[0])
    with pytest.raises(UserError, match="two different places"):
        slope_weights([3.0, 3.0])


@pytest.mark.parametrize("seeds", [(0,), (0, 1)])
def test_with_few_seeds_the_trend_is_resampled_over_items(tmp_path: Path, seeds: tuple[int, ...]) -> None:
    made = world(seeds=seeds, n=300, statistics=STATISTICS | {"bootstrap": 20_000})
    (trend,) = trends(made, tmp_path)
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
    assert "bootstrap over test items" in trend.interval and 0 < float(trend.p) < 0.01
    assert (trend.verdict, trend.primary) == ("held", "true")


def test_with_three_seeds_the_trend_counts_seeds_and_items(tmp_path: Path) -> None:
    from scipy import stats

    made = world(seeds=(0, 1, 2, 3), probes=("shape", "colour"))
    found = trends(made, tmp_path)
    for trend, probe in zip(found, ("shape", "colour"), strict=True):
        slopes = [np.polyfit(LOGS, 100 * seed.mean(axis=1), 1)[0] for seed in values(made, probe)]
        per_item = np.polyfit(LOGS, 100 * values(made, probe).mean(axis=0), 1)[0]
        over_seeds = np.var(slopes, ddof=1) / len(slopes)
        whole = over_seeds + per_item.var(ddof=1) / len(per_item)
        assert trend.slope == pytest.approx(np.mean(slopes))
        assert trend.interval == "t over 4 seeds and test items"
        half = (trend.high - trend.low) / 2
        # the items' part is a bootstrap's, and Student's quantile lies between those of 3 and of all items' degrees of freedom
        least, most = (float(stats.t.isf(0.025, df)) * np.sqrt(whole) for df in (3 + made.n, 3))
        assert 0.9 * least < half < 1.1 * most
        assert half > 1.1 * stats.norm.isf(0.025) * np.sqrt(over_seeds), "seeds alone would be too narrow"
    shape, colour = found
    assert (shape.primary, colour.primary) == ("true", "false")
    assert (colour.p, colour.p_holm, colour.verdict, colour.smallest_detectable) == ("", "", "", None)


def test_trends_of_the_primary_column_are_corrected_for_one_another(tmp_path: Path) -> None:
    made = world({corpus: ["arc", "mdc"] for corpus in PAIRS}, n=40, probes=("shape", "colour"))
    found = [trend for trend in trends(made, tmp_path) if trend.primary == "true"]
    assert [trend.method for trend in found] == ["ARC", "MDC"] and {trend.benchmark for trend in found} == {"Shape"}
    assert [float(t.p_holm) for t in found] == pytest.approx(holm([float(t.p) for t in found]), rel=1e-3)
    out = made.make(tmp_path)
    lines = read_rows(out / "figure5_trend.csv")
    assert [line["benchmark"] for line in lines] == ["Shape", "Colour"] * 2
    assert {line["pairs"] for line in lines} == {"750 2000 6000"}
    assert [line["primary"] for line in lines] == ["true", "false"] * 2 and {line["scale"] for line in lines} == {
        "mini"
    }


def test_only_trends_that_were_named_have_a_verdict_and_it_is_of_the_whole_rise(tmp_path: Path) -> None:
    statistics = STATISTICS | {"bootstrap": 2000}
    both = {corpus: ["arc", "mdc"] for corpus in PAIRS}
    made = world(both, n=20_000, statistics=statistics, trends=["arc"])
    made.fields["trends"] = ["arc"]
    arc, mdc = trends(made, tmp_path)
    assert (arc.verdict, mdc.verdict) == ("held", "") and mdc.p == ""

    # 0.7 points a doubling would be within ±2 points, the rise over three doublings is not
    def flat(corpus: str | None, method: str, probe: str, seed: int) -> float:
        return 0.4 if corpus is None else 0.4 + 0.0012 * float(np.log2(PAIRS[corpus] / 750))

    found = {}
    for bound in (0.5, 2.0):
        made = ProbingWorld(
            both, flat, PAIRS, artefact="figure5", n=20_000, statistics={**statistics, "comparable": bound}
        )
        found[bound] = trends(made, tmp_path / str(bound))[0]
        told = found[bound]
        assert told.smallest_detectable is not None and told.high - told.low < 2 * told.smallest_detectable
    assert found[2.0].verdict == "comparable" and max(abs(found[2.0].low), abs(found[2.0].high)) * 3 < 2
    assert found[0.5].verdict == "cannot be told" and max(abs(found[0.5].low), abs(found[0.5].high)) < 0.5


def test_every_number_has_its_pairs_and_the_samples_seen(tmp_path: Path) -> None:
    made = world(epochs=4)
    out = made.make(tmp_path)
    untrained, *lines = read_rows(out / "figure5.csv")
    assert (untrained["pairs"], untrained["samples_seen"]) == ("", "")
    assert [int(line["pairs"]) for line in lines] == list(PAIRS.values())
    assert [int(line["samples_seen"]) for line in lines] == [4 * pairs for pairs in PAIRS.values()]
    for line in lines:
        assert float(line["value"]) == pytest.approx(made.value(line["run"], "shape"), abs=5.1e-5)
    svg = (out / "figure5.svg").read_text(encoding="utf-8")
    for words in ("image–caption pairs", "2,000", "8,000", "points a doubling of the pairs"):
        assert words in svg, "as a comment beside the drawn letters"
    told = {750: "750", 999_499: "999,499", 999_500: "1M", 4_912_345: "4.91M", 1_280_000_000: "1.28B"}
    assert {count: accuracy_panels.count_words(count) for count in told} == told


def test_methods_of_one_size_have_a_point_and_no_trend(tmp_path: Path) -> None:
    made = world({"d750": ["mdc"], "d2000": ["arc", "mdc"], "d6000": ["mdc"]})
    assert [trend.method for trend in trends(made, tmp_path)] == ["MDC"]
    assert [line["method"] for line in read_rows(made.make(tmp_path) / "figure5.csv")].count("ARC") == 1
    made = world({"d750": ["arc", "mdc"], "d2000": ["mdc"], "d6000": ["arc"]})
    assert {t.method: (t.pairs, t.residual_sd) for t in trends(made, tmp_path)} == {
        "ARC": ("750 6000", None),
        "MDC": ("750 2000", None),
    }


def test_a_run_by_two_estimators_has_two_trends(tmp_path: Path) -> None:
    made = world()
    for corpus, pairs in PAIRS.items():
        told = {"pairs": pairs, "steps": 1, "samples_seen": pairs}
        more: dict[str, Any] = {"runs": [f"{corpus}/B/mdc/s0"], "suffix": "/heuristic", "estimator": "heuristic"}
        made.add(f"{corpus}/heuristic", corpus, "mdc", training=told, **more)
        made.systems[-1]["method"] = {"key": "mdc", "label": "MDC (heuristic)"}
    found = trends(made, tmp_path)
    assert [(trend.system.estimator, trend.pairs) for trend in found] == [
        ("linear probe", "750 2000 6000"),
        ("heuristic", "750 2000 6000"),
    ]


def test_what_makes_no_trend_is_refused(tmp_path: Path) -> None:
    def refused(match: str, made: ProbingWorld) -> None:
        with pytest.raises(UserError, match=match) as told:
            made.make(tmp_path)
        assert "\n" not in str(told.value) and not (tmp_path / "out").exists()

    refused("figure 5: d750 and d2000 both had 750 pairs", world(pairs={**PAIRS, "d2000": 750}))
    refused("figure 5: a trend needs two corpora or more", world({"d750": ["mdc"]}))
    made = world(seeds=(0, 1))
    made.records["probe/d2000/B/mdc/s1"]["training"] = {"pairs": 1999, "steps": 9, "samples_seen": 3998}
    refused("runs of d2000 saw different numbers of pairs: .*d2000/B/mdc/s0 on 2,000, .*d2000/B/mdc/s1 on 1,999", made)
    made = world()
    made.records["probe/d2000/B/mdc/s0"]["training"] = None
    refused("the record of probe/d2000/B/mdc/s0 does not tell its pairs", made)
    made = world(probes=("shape", "shape2"), primary_column="average")
    refused("figure 5: it has no average; primary_column must be one of shape, shape2", made)
