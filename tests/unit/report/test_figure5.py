"""Figure 5: its trend against numpy's least squares, what it draws and refuses."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from probing_world import ProbingWorld
from shown import STATISTICS, ends, read_rows

from mdc.plan.records import UserError
from mdc.report.figures import accuracy_panels, figure5
from mdc.report.figures.figure5 import Trend
from mdc.report.results import Results
from mdc.report.statistics.claims import holm

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
    return figure5.trends(Results(made.job, made.write(folder), averages=False), made.job)


@pytest.mark.parametrize("seeds", [(0,), (0, 1)])
def test_with_few_seeds_the_trend_is_resampled_over_items(tmp_path: Path, seeds: tuple[int, ...]) -> None:
    made = world(seeds=seeds, n=300, statistics=STATISTICS | {"bootstrap": 20_000})
    (trend,) = trends(made, tmp_path)
    mean = values(made).mean(axis=0)
    slope, intercept = np.polyfit(LOGS, 100 * mean.mean(axis=1), 1)
    assert (trend.line.estimate.value, trend.intercept) == (pytest.approx(slope), pytest.approx(intercept))
    assert trend.at(2000) == pytest.approx(intercept + slope * np.log2(2000))
    # by hand: the same items at every size in each resample, and numpy's line through each
    picks = np.random.default_rng(9).integers(0, 300, size=(4000, 300))
    slopes = [np.polyfit(LOGS, 100 * mean[:, pick].mean(axis=1), 1)[0] for pick in picks]
    low, high = ends(trend.line.estimate)
    assert (low, high) == pytest.approx(np.quantile(slopes, [0.025, 0.975]), abs=0.06)
    apart = [100 * (np.polyfit(LOGS, np.eye(3), 1)[0] * mean.std(axis=1) / np.sqrt(300))]
    assert high - low < 0.9 * 2 * 1.96 * np.sqrt((np.array(apart) ** 2).sum()), "paired by item"
    decision = trend.line.decision
    assert decision is not None and (trend.line.estimate.kind, trend.line.estimate.scope) == (
        "bootstrap",
        "checkpoints",
    )
    assert decision.p is not None and 0 < decision.p < 0.01 and decision.direction == "supported"


def test_with_three_seeds_the_trend_counts_seeds_and_items(tmp_path: Path) -> None:
    from scipy import stats

    made = world(seeds=(0, 1, 2, 3), probes=("shape", "colour"))
    found = trends(made, tmp_path)
    for trend, probe in zip(found, ("shape", "colour"), strict=True):
        slopes = [np.polyfit(LOGS, 100 * seed.mean(axis=1), 1)[0] for seed in values(made, probe)]
        per_item = np.polyfit(LOGS, 100 * values(made, probe).mean(axis=0), 1)[0]
        over_seeds = np.var(slopes, ddof=1) / len(slopes)
        whole = over_seeds + per_item.var(ddof=1) / len(per_item)
        low, high = ends(trend.line.estimate)
        assert trend.line.estimate.value == pytest.approx(np.mean(slopes))
        assert (trend.line.estimate.kind, trend.line.estimate.scope) == ("seeds and items", "methods")
        half = (high - low) / 2
        # the items' part is a bootstrap's, and Student's quantile lies between those of 3 and of all items' degrees of freedom
        least, most = (float(stats.t.isf(0.025, df)) * np.sqrt(whole) for df in (3 + made.n, 3))
        assert 0.9 * least < half < 1.1 * most
        assert half > 1.1 * stats.norm.isf(0.025) * np.sqrt(over_seeds), "seeds alone would be too narrow"
    shape, colour = found
    assert shape.line.decision is not None and colour.line.decision is None


def test_trends_of_the_primary_column_are_corrected_for_one_another(tmp_path: Path) -> None:
    made = world({corpus: ["arc", "mdc"] for corpus in PAIRS}, n=60, probes=("shape", "colour"))
    out = made.make(tmp_path)
    lines = read_rows(out / "figure5_contrasts.csv")
    assert [(line["method"], line["label"]) for line in lines] == [
        (method, probe) for probe in ("Shape", "Colour") for method in ("ARC", "MDC")
    ]
    assert [line["primary"] for line in lines] == ["True"] * 2 + ["False"] * 2, "claims first"
    found = lines[:2]
    assert [float(t["p_holm"]) for t in found] == pytest.approx(holm([float(t["p"]) for t in found]), rel=1e-3)
    assert {line["p"] for line in lines[2:]} == {""} and {line["unit"] for line in lines} == {"points per doubling"}
    for trend in trends(made, tmp_path):
        (line,) = [
            one for one in lines if (one["method"], one["label"]) == (trend.system.method.label, trend.line.label)
        ]
        assert float(line["intercept"]) == pytest.approx(trend.intercept, rel=1e-5)
        assert line["first"] == trend.system.method.key


def test_only_trends_that_were_named_have_a_verdict_and_it_is_of_the_whole_rise(tmp_path: Path) -> None:
    statistics = STATISTICS | {"bootstrap": 2000}
    both = {corpus: ["arc", "mdc"] for corpus in PAIRS}
    made = world(both, n=20_000, statistics=statistics, trends=["arc"])
    made.fields["trends"] = ["arc"]
    arc, mdc = trends(made, tmp_path)
    assert arc.line.decision is not None and arc.line.decision.direction == "supported" and mdc.line.decision is None

    # 0.7 points per doubling would be within ±2 points, the rise over three doublings is not
    def flat(corpus: str | None, method: str, probe: str, seed: int) -> float:
        return 0.3 if corpus is None else 0.4 + 0.0012 * float(np.log2(PAIRS[corpus] / 750))

    found = {}
    for bound in (0.5, 2.0):
        margins = {"top-1": bound}
        made = ProbingWorld(
            both, flat, PAIRS, artefact="figure5", n=20_000, statistics={**statistics, "margins": margins}
        )
        found[bound] = trends(made, tmp_path / str(bound))[0].line
        decision, (low, high) = found[bound].decision, ends(found[bound].estimate)
        assert decision is not None and decision.direction == "inconclusive"
        assert decision.margin == pytest.approx(bound / 3), "the rise is over three doublings"
        assert decision.detectable is not None and high - low < 2 * decision.detectable
    sizes = {bound: one.decision.size for bound, one in found.items() if one.decision}
    assert sizes == {2.0: "equivalent", 0.5: "undecided"} and max(map(abs, ends(found[0.5].estimate))) < 0.5


def test_every_number_has_its_pairs_and_the_samples_seen(tmp_path: Path) -> None:
    made = world(epochs=4)
    out = made.make(tmp_path)
    untrained, *lines = read_rows(out / "figure5.csv")
    assert (untrained["pairs"], untrained["samples_seen"]) == ("", "")
    assert [int(line["pairs"]) for line in lines] == list(PAIRS.values())
    assert [int(line["samples_seen"]) for line in lines] == [4 * pairs for pairs in PAIRS.values()]
    for line in lines:
        assert float(line["value"]) == pytest.approx(made.value(f"{line['system']}/s0", "shape"), rel=1e-5)
    svg = (out / "figure5.svg").read_text(encoding="utf-8")
    for words in ("image–caption pairs", "2,000", "8,000", "points per doubling of the pairs"):
        assert words in svg, "as a comment beside the drawn letters"
    told = {750: "750", 999_499: "999,499", 999_500: "1M", 4_912_345: "4.91M", 1_280_000_000: "1.28B"}
    assert {count: accuracy_panels.count_words(count) for count in told} == told


def test_methods_of_one_size_have_a_point_and_no_trend(tmp_path: Path) -> None:
    made = world({"d750": ["mdc"], "d2000": ["arc", "mdc"], "d6000": ["mdc"]})
    assert [trend.system.method.label for trend in trends(made, tmp_path)] == ["MDC"]
    assert [line["method"] for line in read_rows(made.make(tmp_path) / "figure5.csv")].count("ARC") == 1
    made = world({"d750": ["arc", "mdc"], "d2000": ["mdc"], "d6000": ["arc"]})
    assert {t.system.method.label: t.pairs for t in trends(made, tmp_path)} == {
        "ARC": [750, 6000],
        "MDC": [750, 2000],
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
        ("linear probe", [750, 2000, 6000]),
        ("heuristic", [750, 2000, 6000]),
    ]


def test_what_makes_no_trend_is_refused(tmp_path: Path) -> None:
    def refused(match: str, made: ProbingWorld) -> None:
        with pytest.raises(UserError, match=match) as told:
            made.make(tmp_path)
        assert "\n" not in str(told.value) and not (tmp_path / "out").exists()

    refused("figure 5: runs of d750 and d2000 saw as many pairs; drop one", world(pairs={**PAIRS, "d2000": 750}))
    made = world(seeds=(0, 1))
    made.records["probe/d2000/B/mdc/s1"]["training"] = {"pairs": 1999, "steps": 9, "samples_seen": 3998}
    refused("runs of d2000 saw different numbers of pairs: .*d2000/B/mdc/s0 on 2,000, .*d2000/B/mdc/s1 on 1,999", made)
    made = world()
    made.records["probe/d2000/B/mdc/s0"]["training"] = None
    refused("the record of probe/d2000/B/mdc/s0 does not tell its pairs", made)
    made = world(probes=("shape", "shape2"), primary_metric="average")
    refused("figure 5: it has no average; primary_metric must be one of shape, shape2", made)
