"""Tables, their estimates, published numbers and figures."""

import csv
import html
import io
import itertools
import json
import re
import tomllib
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from probing_world import ProbingWorld
from scale_plans import plan_of
from shown import page, planned, read_rows, runs_of, write_manifest
from sklearn.metrics import average_precision_score

from mdc.app.export import model_card
from mdc.plan.artefacts import ARTEFACTS
from mdc.plan.records import UserError, sha256_file
from mdc.report import index_page, published, words
from mdc.report.csv_file import csv_text
from mdc.report.figures import drawing as figures
from mdc.report.figures.styles import method_styles
from mdc.report.items import items_of
from mdc.report.make import make
from mdc.report.manifests import table_of
from mdc.report.results import Results
from mdc.report.statistics.claims import Decision
from mdc.report.statistics.estimate import Estimate
from mdc.report.statistics.replicates import Items
from mdc.report.tables import table1
from mdc.report.tables.render import DATA_FILES, write_csv, write_pages
from mdc.report.tables.table import Cell, Column, Row, Table, mark_rows, rank
from mdc.report.words import claimed

SKILL = {"untrained": 0.4, "clip": 0.6, "clip_lb": 0.62, "arc": 0.68, "mdc": 0.72, "mdc_heuristic": 0.5, "mdc_ft": 0.9}
ALT, DENSE = "Alt <text> & co", "Dense_2"
CORPORA = {"alt": ["clip", "arc", "mdc"], "dense": ["clip_lb", "clip", "arc", "mdc"]}
ONE = {"B": "ViT-B/32"}
ONE_CORPUS = {"dense": ["clip", "arc", "mdc"]}
LABELS = {"alt": ALT, "dense": DENSE, "clip_lb": "CLIP-LB", "imagenet1k": "ImageNet-1K", "pets": "Pets"}


def world(**given: Any) -> ProbingWorld:
    """Two backbones and two corpora; comparisons of methods within a corpus, and of a method between both."""

    def skill(corpus: str | None, method: str, probe: str, seed: int) -> float:
        return SKILL[method] + 0.02 * (corpus == "dense") + 0.01 * seed

    values: dict[str, Any] = {
        "probes": ("imagenet1k", "pets"),
        "n": 150,
        "backbones": {"B": "ViT-B/32", "A": "ViT-T/8"},
        "cls": ("clip", "clip_lb"),
        "unranked": ("clip_lb",),
        "contrasts": (("mdc", "arc"), ("mdc", "clip")),
        "primary_metric": "average",
    }
    corpora = given.pop("corpora", CORPORA)
    made = ProbingWorld(corpora, skill, **{**values, **given, "labels": LABELS | given.get("labels", {})})
    for backbone in made.backbones if corpora is CORPORA else ():
        made.contrasts += [[f"alt/{backbone}/clip", f"dense/{backbone}/clip"]]
        made.contrasts += [[f"dense/{backbone}/mdc", f"alt/{backbone}/mdc"]]
    return made


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[ProbingWorld, Table, Path]:
    made, folder = world(), tmp_path_factory.mktemp("table1")
    out = made.make(folder)
    return made, table1.main_table(Results(made.job, made.write(folder))), out


# --- marks ----------------------------------------------------------------------------------------------------------


def test_rank_equals_brute_force() -> None:
    rng = np.random.default_rng(0)
    seen = set()
    for _ in range(500):
        size = int(rng.integers(1, 6))
        values = [None if rng.random() < 0.1 else float(v) for v in rng.choice([50.0, 50.04, 50.06, 51.0, 49.0], size)]
        ranked = [bool(b) for b in rng.random(size) < 0.8]
        marks = rank(values, ranked)
        seen |= set(marks)
        rivals = sorted((float(f"{v:.1f}") for v, r in zip(values, ranked, strict=True) if r and v is not None))[::-1]
        for value, counts, mark in zip(values, ranked, marks, strict=True):
            if value is None:
                assert mark is None
            elif not counts:
                assert mark == "grey"
            elif rivals[0] == rivals[-1]:
                assert mark is None, "one, or all alike"
            else:
                place = rivals.index(float(f"{value:.1f}"))
                assert mark == {0: "best", 1: "second"}.get(place)
    assert seen == {"best", "second", "grey", None}


def test_marks_stand_within_dataset_and_backbone(built: tuple[ProbingWorld, Table, Path]) -> None:
    _, table, _ = built
    for column in range(3):
        blocks: dict[tuple[str, str], list[tuple[str, Cell]]] = {}
        for row in table.rows:
            if row.reference:
                assert row.cells[column].mark is None
            else:
                blocks.setdefault(row.labels[:2], []).append((row.labels[2], row.cells[column]))
        assert len(blocks) == 4
        for block in blocks.values():
            assert all((cell.mark == "grey") == (method == "CLIP-LB") for method, cell in block)
            top = max(round(float(cell.value or 0), 1) for method, cell in block if method != "CLIP-LB")
            assert all((round(float(c.value or 0), 1) == top) == (c.mark == "best") for m, c in block if m != "CLIP-LB")


# --- table 1 --------------------------------------------------------------------------------------------------------


def test_a_probe_reported_separately_is_no_part_of_the_average(tmp_path: Path) -> None:
    """Mean average precision beside top-1: levels, differences and claims on the average are those without it."""
    apart: dict[str, Any] = {"reported_separately": ["voc"], "notes": ["VOC: another metric."], "corpora": ONE_CORPUS}
    with_it = world(**apart, probes=("imagenet1k", "pets", "voc"), multi=("voc",), labels={"voc": "VOC"}, backbones=ONE)
    out = with_it.make(tmp_path / "with")
    rows = read_rows(out / "table1.csv")
    assert list(rows[0]) == ["dataset", "backbone", "method", "ImageNet-1K", "Pets", "Average", "VOC", "scale"]
    for row in rows:
        assert float(row["Average"]) == pytest.approx((float(row["ImageNet-1K"]) + float(row["Pets"])) / 2, abs=0.11)
    metrics = {(line["label"], line["metric"]) for line in read_rows(out / "table1_long.csv")}
    assert metrics == {("ImageNet-1K", "top-1"), ("Pets", "top-1"), ("Average", "mean"), ("VOC", "mAP")}
    claims = read_rows(out / "table1_contrasts.csv")
    assert {line["label"] for line in claims if line["direction"]} == {"Average"}
    headline = json.loads((out / "table1_metrics.json").read_text())
    mdc = next(row for row in rows if row["method"] == "MDC")
    assert headline["dense/B/mdc"]["average"] == pytest.approx(float(mdc["Average"]), abs=0.06)
    text = (out / "table1.md").read_text()
    assert "VOC: another metric." in text and "the plain mean of the columns under its heading" in text
    alone = world(
        **{**apart, "primary_metric": "imagenet1k"}, probes=("imagenet1k", "voc"), multi=("voc",), backbones=ONE
    )
    assert Results(alone.job, alone.write(tmp_path / "alone")).measures == ["imagenet1k", "voc"]


def test_claims_on_two_metrics_are_one_family_without_a_mean(tmp_path: Path) -> None:
    """Each pair is claimed on each of the two columns, and all four are corrected together; there is no average of the two."""
    both = world(
        probes=("imagenet1k", "voc"), multi=("voc",), backbones=ONE, corpora=ONE_CORPUS, seeds=(0, 1, 2),
        contrasts=(("mdc", "arc"), ("mdc", "clip")), primary_metric="imagenet1k", also_claimed=["voc"],
    )  # fmt: skip
    lines = read_rows(both.make(tmp_path) / "table1_contrasts.csv")
    assert {line["label"] for line in lines} == {"ImageNet-1K", "Voc"}
    claimed = [line for line in lines if line["primary"] == "True"]
    assert len({(line["first"], line["second"], line["column"]) for line in claimed}) == len(claimed) == 4
    ps = sorted(float(line["p"]) for line in claimed)
    corrected = [max((4 - place) * p for place, p in enumerate(ps[: last + 1])) for last in range(4)]
    assert sorted(float(line["p_holm"]) for line in claimed) == pytest.approx(
        [min(1.0, p) for p in corrected], abs=1e-5
    )


def test_layout_csv_round_trip(built: tuple[ProbingWorld, Table, Path]) -> None:
    made, table, out = built
    rows = read_rows(out / "table1.csv")
    assert list(rows[0]) == ["dataset", "backbone", "method", "ImageNet-1K", "Pets", "Average", "scale"]
    assert {row["scale"] for row in rows} == {made.job.scale}
    assert [cell.value for cell in table.rows[-1].cells] == [12.5, 12.5, 12.5], (
        "chance, in the pages and in the long file alone"
    )
    # by backbone as specified, untrained first, then corpora and methods as specified
    names = ["untrained, [CLS]", "untrained, mean of patches", "CLIP", "ARC", "MDC", "CLIP-LB", "CLIP", "ARC", "MDC"]
    sets = ["none"] * 2 + [ALT] * 3 + [DENSE] * 4
    expected = [(s, b, m) for b in ("ViT-B/32", "ViT-T/8") for s, m in zip(sets, names, strict=True)]
    assert [(r["dataset"], r["backbone"], r["method"]) for r in rows] == expected
    assert [row.labels for row in table.rows[:-1]] == expected
    long = read_rows(out / "table1_long.csv")
    assert len(long) == 3 * len(rows) and {line["chance"] for line in long} == {"12.5"}
    value = {(line["system"], line["label"]): float(line["value"]) for line in long}
    control = {system["key"]: system.get("control") for system in made.systems}
    assert runs_of(out, "table1") == {system["key"]: system["runs"] for system in made.systems}
    for number, line in enumerate(long):
        row = rows[number // 3]
        assert (line["dataset"], line["backbone"]) == (row["dataset"], row["backbone"])
        assert row[line["label"]] == f"{float(line['value']):.1f}"
        assert float(line["low"]) <= float(line["value"]) <= float(line["high"])
        if line["label"] != "Average":
            assert float(line["value"]) == pytest.approx(
                made.value(f"{line['system']}/s0", line["label"].lower().replace("-", "")), rel=1e-5
            )
        else:
            parts = [float(x["value"]) for x in long[number - 2 : number]]
            assert float(line["value"]) == pytest.approx(np.mean(parts), abs=2e-4)
            assert int(line["n"]) == 2 * made.n
        if (of := control[line["system"]]) is None:
            assert line["method"] == "untrained" and line["gain"] == ""
            continue
        gain = value[line["system"], line["label"]] - value[of, line["label"]]
        assert float(line["gain"]) == pytest.approx(gain, abs=2e-4)
        assert float(line["gain_low"]) < float(line["gain"]) < float(line["gain_high"])
    # the headline numbers: the averages of systems with a control
    told = json.loads((out / "table1_metrics.json").read_text())
    assert list(told) == sorted(system["key"] for system in made.systems if system.get("control"))
    averages = {line["system"]: line for line in long if line["label"] == "Average"}
    for key, numbers in told.items():
        line = averages[key]
        expected = {"average": float(line["value"]), "gain": float(line["gain"])}
        assert numbers == pytest.approx(expected, abs=0.0051)


def test_contrasts_are_those_named_and_the_primary_alone_are_judged(built: tuple[ProbingWorld, Table, Path]) -> None:
    made, _, out = built
    lines = read_rows(out / "table1_contrasts.csv")
    system = {one["key"]: one for one in made.systems}
    gains = [(s["key"], s["control"]) for s in made.systems if s.get("control")]
    measures = ("imagenet1k", "pets", "average")
    # the first difference between both corpora is alt − dense, and so are all
    shown = [pair[::-1] if pair[0][:5] == "dense" and pair[1][:3] == "alt" else pair for pair in made.contrasts]
    expected_lines = [
        (kind, *pair, measure)
        for kind, pairs in (("difference", shown), ("gain", gains))
        for pair in pairs
        for measure in measures
    ]
    assert {(x["kind"], x["first"], x["second"], x["column"]) for x in lines} == set(expected_lines)
    assert len(lines) == len(expected_lines) == 3 * (14 + 12)
    assert [(x["first"], x["second"]) for x in lines[:6]] == [tuple(pair) for pair in made.contrasts[:6]], (
        "claims first"
    )
    primary = []
    for line in lines:
        first, second = (system[line[side]] for side in ("first", "second"))
        assert (line["method"], line["second_method"]) == (first["method"]["label"], second["method"]["label"])
        assert line["dataset"] == (first["corpus"] or {"label": "none"})["label"]
        assert line["second_dataset"] == (second["corpus"] or {"label": "none"})["label"]
        items = [[made.items[s["records"][0]][probe].value for probe in made.probes] for s in (first, second)]
        apart = [100 * (a - b).mean() for a, b in zip(*items, strict=True)]
        expected = {"ImageNet-1K": apart[0], "Pets": apart[1], "Average": np.mean(apart)}[line["label"]]
        assert float(line["value"]) == pytest.approx(expected, rel=1e-5)
        judged = [line["first"], line["second"]] in made.contrasts[:6] and line["label"] == "Average"
        assert line["primary"] == str(judged)
        if judged:
            primary.append(line)
        else:
            assert {line[key] for key in ("p", "p_holm", "direction", "margin", "size", "detectable")} == {""}
    # Holm by its definition: the k-th smallest is rejected at level a only if it and all smaller ones pass
    p = np.array([float(line["p"]) for line in primary])
    assert len(p) == 6 and len(set(p)) > 1
    for line in primary:
        smaller = [(len(p) - (p < q).sum()) * q for q in p if q <= float(line["p"])]
        assert float(line["p_holm"]) == pytest.approx(min(1, max(smaller)), rel=1e-3)
        low, high, told = float(line["low"]), float(line["high"]), float(line["value"])
        sure = float(line["p_holm"]) < 0.05
        assert line["direction"] == (("supported" if told > 0 else "reversed") if sure else "inconclusive")
        assert (line["detectable"] == "") == sure and line["scope"] == "checkpoints"
        assert sure or float(line["detectable"]) > (high - low) / 2
        assert float(line["margin"]) == 2 and line["size"] in ("larger", "equivalent", "undecided")
        assert (line["size"] == "larger") <= (min(abs(low), abs(high)) > 2 and low * high > 0)
    assert {"supported", "inconclusive"} <= {line["direction"] for line in primary}
    assert {"larger", "undecided"} <= {line["size"] for line in primary}


def test_differences_between_two_corpora_have_one_sign_and_claims_their_prediction(tmp_path: Path) -> None:
    """Claimed are alt/clip over dense/clip and dense/mdc over alt/mdc; whichever is named first, the verdicts are the same."""
    told = []
    for order in (1, -1):
        made = world(backbones=ONE, contrasts=(), n=3000)
        made.contrasts = made.contrasts[::order]
        out = made.make(tmp_path / str(order))
        lines = [x for x in read_rows(out / "table1_contrasts.csv") if x["kind"] == "difference"]
        (sides,) = {(x["dataset"], x["second_dataset"]) for x in lines}
        assert sides == ((ALT, DENSE) if order == 1 else (DENSE, ALT))
        text = (out / "table1.md").read_text(encoding="utf-8")
        heads = [line.split(" | ") for line in text.splitlines() if "| Predicted |" in line or "| lower |" in line]
        assert [cells.index("Predicted") for cells in heads[:1]] == [cells.index("lower") for cells in heads[1:]]
        claims = {x["method"]: x for x in lines if x["primary"] == "True"}
        assert claims["CLIP"]["predicted"] == ("higher" if order == 1 else "lower") != claims["MDC"]["predicted"]
        assert not any(x["predicted"] for x in lines if x["primary"] == "False")
        assert "predicted lower" in claimed(claims["MDC" if order == 1 else "CLIP"]).comparison
        told.append(claims)
    first, again = told
    for method, direction in (("CLIP", "reversed"), ("MDC", "supported")):
        assert float(first[method]["value"]) == pytest.approx(-float(again[method]["value"]))
        assert float(first[method]["low"]) == pytest.approx(-float(again[method]["high"]))
        same = ("p", "p_holm", "direction", "margin", "p_size", "p_size_holm", "size", "detectable")
        assert [first[method][key] for key in same] == [again[method][key] for key in same]
        assert first[method]["direction"] == direction


def test_a_comparison_in_both_directions_stands_once(tmp_path: Path) -> None:
    both = (("mdc", "arc"), ("arc", "mdc"))
    lines = read_rows(
        world(corpora=ONE_CORPUS, backbones=ONE, contrasts=both, primary=[]).make(tmp_path) / "table1_contrasts.csv"
    )
    assert {(x["method"], x["second_method"]) for x in lines if x["kind"] == "difference"} == {("MDC", "ARC")}


def test_a_refuted_claim_is_reversed_in_every_file(tmp_path: Path) -> None:
    made = world(contrasts=(("clip", "mdc"),), backbones=ONE)
    out = made.make(tmp_path)
    told = [x for x in read_rows(out / "table1_contrasts.csv") if x["primary"] == "True" and x["method"] == "CLIP"]
    refuted = [line for line in told if line["second_method"] == "MDC"]
    assert len(refuted) == 2 and {line["direction"] for line in refuted} == {"reversed"}
    page = (out / "table1.html").read_text(encoding="utf-8")
    assert ">reversed (checkpoints)</td>" in page
    assert "| reversed (checkpoints) |" in (out / "table1.md").read_text(encoding="utf-8")


def test_a_claim_between_encoders_that_learnt_nothing_is_below_control(tmp_path: Path) -> None:
    """Also where one is worse than the other; but not where one of the two is above its untrained self."""
    told, out = {}, {}
    for skill in (0.4, 0.9):  # of mdc; the untrained encoder's is 0.4
        made = ProbingWorld(
            ONE_CORPUS,
            lambda corpus, method, probe, seed, skill=skill: {"mdc": skill, "untrained": 0.4, "clip": 0.35}.get(
                method, 0.1
            ),
            n=400,
            backbones=ONE,
            cls=("clip",),
            contrasts=(("mdc", "arc"), ("clip", "arc")),
            labels=LABELS,
        )
        out[skill] = made.make(tmp_path / str(skill))
        lines = read_rows(out[skill] / "table1_contrasts.csv")
        told[skill] = {(x["method"], x["second_method"]): x for x in lines if x["primary"] == "True"}
    low = told[0.4]["MDC", "ARC"]
    assert (
        low["direction"] == "below control" and float(low["p"]) == float(low["p_holm"]) == 1 and float(low["low"]) > 0
    )
    assert low["size"] == "undecided" and told[0.9]["CLIP", "ARC"]["direction"] == "below control"
    assert told[0.9]["MDC", "ARC"]["direction"] == "supported"
    assert "| below control (checkpoints) |" in (out[0.4] / "table1.md").read_text(encoding="utf-8")


def test_level_bounds_and_power_are_the_jobs(built: tuple[ProbingWorld, Table, Path], tmp_path: Path) -> None:
    given = {"level": 0.9, "margins": {"top-1": 3.5}, "power": 0.7, "bootstrap": 300}
    wide, narrow = built[2], world(statistics=given, backbones=ONE).make(tmp_path)
    text = (narrow / "table1.md").read_text(encoding="utf-8")
    for told in ("90 % interval", "below 0.1", "3.5)", "70 % power", "300 resamples"):
        assert told in text, told
    assert "95 %" not in text
    longs = [read_rows(out / "table1_long.csv") for out in (wide, narrow)]
    sizes = [np.mean([float(x["high"]) - float(x["low"]) for x in long]) for long in longs]
    assert sizes[1] < 0.9 * sizes[0]


def test_a_small_p_is_never_shown_as_0() -> None:
    told = {1.0: "1", 0.0123: "0.0123", 0.00049: "0.00049", 4e-17: "4e-17", 0.0: "< 1e-300"}
    assert {p: words.p_value(p) for p in told} == told


def test_the_least_p_of_a_bootstrap_is_shown_as_a_bound() -> None:
    decision = Decision("supported", "", None, p_holm=0.004)
    of = {
        kind: Estimate(5.0, 4.0, 6.0, n=60, seeds=1, kind=kind, p=0.002, draws=999) for kind in ("bootstrap", "seeds")
    }
    assert words.corrected_p(decision, of["bootstrap"]) == "≤ 0.004"
    assert words.corrected_p(decision, of["seeds"]) == "0.004"
    assert words.corrected_p(decision, replace(of["bootstrap"], p=0.003)) == "0.004"
    assert words.corrected_p(replace(decision, p_holm=None), of["bootstrap"]) == "", "a claim that was not tested"


def test_every_output_says_what_its_intervals_and_its_scale_are_worth(built: tuple[ProbingWorld, Table, Path]) -> None:
    _, _, out = built
    for name in ARTEFACTS["table1"].files[:6]:
        text = html.unescape((out / name).read_text(encoding="utf-8"))
        if not name.endswith(".csv"):  # these have a column for the scale's name
            assert "not a reproduction of the paper's numbers" in text and "these checkpoints only" in text, name
        elif name not in ("table1.csv", "table1_runs.csv"):
            assert {line["scope"] for line in read_rows(out / name)} == {"checkpoints"}
    assert {line["published"] for line in read_rows(out / "table1_long.csv")} == {""}


def test_published_values_stand_only_at_scale_paper(tmp_path: Path) -> None:
    out = world(scale="paper", labels={"alt": "CC12M"}, backbones=ONE).make(tmp_path)
    place = ("dataset", "backbone", "method", "label")
    found = {tuple(line[key] for key in place): line["published"] for line in read_rows(out / "table1_long.csv")}
    assert found["CC12M", "ViT-B/32", "MDC", "ImageNet-1K"] == "54.8"
    assert found["CC12M", "ViT-B/32", "CLIP", "Pets"] == "74.8"
    assert found["none", "ViT-B/32", "untrained", "Pets"] == ""
    page = (out / "table1.html").read_text(encoding="utf-8")
    assert "paper 54.8" in page and "not a reproduction" not in page


@pytest.mark.parametrize(
    ("seeds", "kind", "said"), [(2, "bootstrap", "(seeds 0 1)"), (3, "seeds_and_items", "(seeds 0 1 2)")]
)
def test_more_seeds_change_the_interval(tmp_path: Path, seeds: int, kind: str, said: str) -> None:
    out = world(seeds=range(seeds), backbones=ONE).make(tmp_path)
    for line in read_rows(out / "table1_long.csv"):
        assert (line["interval"], line["seeds"]) == (kind, str(seeds))
        assert len(runs_of(out, "table1")[line["system"]]) == seeds
    assert said in (out / "table1.md").read_text(encoding="utf-8")


def test_trainings_with_equal_results_are_trainings_and_one_record_for_all_seeds_is_one(tmp_path: Path) -> None:
    made = ProbingWorld({"dense": ["mdc"]}, lambda *_: 2.0, seeds=range(3), backbones=ONE)  # every answer is right
    made.add("external", None, "external", runs=["external"] * 3, role="reference")
    seeds = {line["system"]: line["seeds"] for line in read_rows(made.make(tmp_path) / "table1_long.csv")}
    assert seeds.pop("external") == "1" and set(seeds.values()) == {"3"}
    of = [row["seed"] for row in read_rows(tmp_path / "out/table1_runs.csv") if row["system"] == "external"]
    assert of == [""], "one line, of no seed"


MDC = "probe/dense/B/mdc/s0"


@pytest.mark.parametrize(
    ("probe", "outputs", "match"),
    [
        (None, None, "probe.json: cannot be read .KeyError..pets"),
        ({"value": 1.0}, None, f"{MDC} on pets: the record says 1.000"),
        ({}, {"items.parquet": "0" * 64}, "items.parquet: not the file that"),
        ({"chance": 1.0}, None, f"pets has other chance levels: .*{MDC} with 1"),
    ],
)
def test_a_record_that_is_not_its_items_is_refused_by_name(
    tmp_path: Path, probe: Any, outputs: Any, match: str
) -> None:
    made = world(backbones=ONE)
    given = made.write(tmp_path)
    record = json.loads(given[MDC].read_text())
    pets = record["probes"].pop("pets")
    record["probes"] |= {} if probe is None else {"pets": pets | probe}
    given[MDC].write_text(json.dumps(record | ({"outputs": outputs} if outputs else {})))
    with pytest.raises(UserError, match=match) as told:
        make(made.job, given, tmp_path / "out")
    assert "\n" not in str(told.value) and not (tmp_path / "out").exists()


# --- systems --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("artefact", ["table1", "table4"])
def test_a_table_says_which_of_its_runs_overfitted(tmp_path: Path, artefact: str) -> None:
    """The last held-out loss above the best by more than 5 % of the drop from first to best: 4.04 of 8 to 4 is not, 4.3 is."""
    probes = ("imagenet1k",) if artefact == "table4" else ("imagenet1k", "pets")
    made = world(backbones={"B": "ViT-T/8"}, artefact=artefact, probes=probes, seeds=(0, 1), primary_metric=probes[0])
    made.held_out = {run: {9: 8.0, 45: 4.0, 360: 4.04} for s in made.systems if s["corpus"] for run in s["runs"]}
    quiet = made.make(tmp_path / "quiet")
    made.held_out |= {f"alt/B/clip/s{seed}": {9: 8.0, 18: 20.0, 45: 4.0, 360: 4.3 + seed} for seed in (0, 1)}
    made.held_out["alt/B/arc/s0"] = {9: 8.0, 45: 4.0, 360: 6.0}
    next(system for system in made.systems if system["key"] == "alt/B/arc")["weights"] = "best"
    made.held_out["dense/B/mdc/s0"] = {9: 3.0, 45: 4.25, 360: 5.0}  # never better than at first
    loud = made.make(tmp_path / "loud")
    for ending in ("html", "md", "tex"):
        before, after = ((out / f"{artefact}.{ending}").read_text(encoding="utf-8") for out in (quiet, loud))
        (said,) = [line for line in after.splitlines() if line not in before.splitlines()]
        runs = {run for run in made.held_out if run in said}
        assert runs == {"alt/B/clip/s1", "dense/B/mdc/s0"}, "the worst seed of each"
        assert "5.30 at step 360, 4.00 at step 45 (and 1 more seed)" in said and "3.00 at step 9" in said
        assert "Primary comparisons" not in after.partition(said)[0], "below the first block"


def test_every_table_of_runs_reads_the_logs_of_those_whose_last_weights_it_measures() -> None:
    jobs, told = planned("mini"), []
    for name in (name for name in jobs if "table" in name and hasattr(jobs[name], "columns")):
        last = {f"runs/{run}" for system in jobs[name].systems if system.weights != "best" for run in system.runs}
        assert last & set(jobs) <= set(jobs[name].inputs) & set(jobs[name].expected), name
        told += [name] if last & set(jobs) else []
    assert {"table1", "table2", "table4", "table5", "table_neighbours", "table_retrieval"} <= set(told)


@pytest.mark.parametrize("artefact", ["table1", "table4", "figure4"])
def test_a_row_is_a_system_and_no_id_is_taken_apart(tmp_path: Path, artefact: str) -> None:
    """A run by two estimators, an id of five parts, and a control that is itself trained."""
    corpora, column = {"alt": ["mdc"], "dense": ["mdc"]}, "imagenet1k" if artefact == "figure4" else "average"
    made = world(artefact=artefact, corpora=corpora, backbones=ONE, contrasts=(), primary_metric=column)
    place = {"backbone": {"key": "B", "label": "ViT-B/32"}, "training": {"pairs": 800, "steps": 9, "samples_seen": 72}}
    other: dict[str, Any] = {"runs": ["alt/B/mdc/s0"], "suffix": "/heuristic", "estimator": "heuristic", **place}
    made.add("alt/B/mdc/heuristic", "alt", "mdc_heuristic", **other)
    made.add("alt/B/mdc/ft-dense", "alt", "mdc_ft", runs=["alt/B/mdc/s0/ft-dense"], control="alt/B/mdc", **place)
    made.contrasts += [["alt/B/mdc/heuristic", "alt/B/mdc"], ["alt/B/mdc/ft-dense", "alt/B/mdc"]]
    out = made.make(tmp_path)
    lines = read_rows(out / ("figure4.csv" if artefact == "figure4" else f"{artefact}_long.csv"))
    assert len(lines) == len(made.systems) * (2 if artefact == "figure4" else 3), "each system has lines of its own"
    told = {line["method"]: line for line in lines if line["label"] == "Pets" and line["dataset"] == ALT}
    records = {"MDC": "alt/B/mdc/s0", "MDC_HEURISTIC": "alt/B/mdc/s0/heuristic", "MDC_FT": "alt/B/mdc/s0/ft-dense"}
    for method, record in records.items():
        assert float(told[method]["value"]) == pytest.approx(made.value(record, "pets"), rel=1e-5)
        assert runs_of(out, artefact)[told[method]["system"]] == [record.removesuffix("/heuristic")]
    # the gain of the finetuned system is over the run that it began with, and the other estimate has no control
    gain = float(told["MDC_FT"]["value"]) - float(told["MDC"]["value"])
    assert float(told["MDC_FT"]["gain"]) == pytest.approx(gain, abs=2e-4)
    assert told["MDC_HEURISTIC"]["gain"] == "" != told["MDC"]["gain"]
    pairs = [(line["method"], line["second_method"]) for line in read_rows(out / f"{artefact}_contrasts.csv")]
    assert {("MDC_HEURISTIC", "MDC"), ("MDC_FT", "MDC"), ("MDC", "untrained")} <= set(pairs)
    if artefact == "table4":
        (tuned,) = [row for row in read_rows(out / "table4.csv") if row["method"] == "MDC_FT"]
        assert tuned[f"{ALT}, Pets"] == f"{float(told['MDC_FT']['value']):.1f}"
        assert tuned[f"{DENSE}, Pets"] == "", "it stands in one corpus"
    if artefact == "table1":
        metrics = json.loads((out / "table1_metrics.json").read_text())
        assert list(metrics) == ["alt/B/mdc", "alt/B/mdc/ft-dense", "dense/B/mdc"]
        page = (out / "table1.html").read_text(encoding="utf-8")
        assert "Gain over the control" in page and "Methods with different controls are compared" in page


# --- writers --------------------------------------------------------------------------------------------------------


def cells_of(path: Path) -> list[tuple[str, str]]:
    """(class, text) of the cells of a page that loads nothing."""
    whole = page(path)
    assert not [tag for tag in whole.iter() if {"src", "href"} & set(tag.keys())]
    return [(td.get("class", ""), " ".join(td.itertext())) for td in whole.iter("td")]


def test_html_is_whole_and_holds_every_number(built: tuple[ProbingWorld, Table, Path]) -> None:
    _, table, out = built
    text = (out / "table1.html").read_text(encoding="utf-8")
    assert "http" not in text and "<text>" not in text and "&lt;text&gt; &amp; co" in text
    cells = cells_of(out / "table1.html")
    width = len(table.labels) + len(table.columns)
    for i, row in enumerate(table.rows):
        shown = cells[i * width : (i + 1) * width]
        assert tuple(text for _, text in shown[:3]) == row.labels
        for (kind, text), cell in zip(shown[3:], row.cells, strict=True):
            assert kind == (cell.mark or "")
            interval = "" if cell.low is None else f" [{cell.low:.1f}, {cell.high:.1f}]"
            assert text == f"{cell.value:.1f}{interval}"


def test_latex_balances_and_marks(built: tuple[ProbingWorld, Table, Path]) -> None:
    _, table, out = built
    text = re.sub(r"(\\\\)|\\[{}%&_#$]", r"\1", (out / "table1.tex").read_text(encoding="utf-8"))
    depth = 0
    for character in text:
        depth += {"{": 1, "}": -1}.get(character, 0)
        assert depth >= 0
    assert depth == 0
    marks = [cell.mark for row in table.rows for cell in row.cells]
    for command, mark in ((r"\textbf", "best"), (r"\underline", "second"), (r"\textcolor{gray}", "grey")):
        assert text.count(command) == marks.count(mark) > 0  # type: ignore[arg-type]
    body = text.split(r"\midrule", 1)[1].split(r"\bottomrule")[0]
    lines = [line for line in body.splitlines() if line.endswith(r"\\")]
    assert len(lines) == len(table.rows)
    assert all(line.count(" & ") == 5 for line in lines)  # the & of a label is escaped
    assert not set("_<>&%#^~") & set(text.replace(" & ", "").replace("$<$", "").replace("$>$", "").split("\n", 1)[1])


def test_markdown_is_rectangular_and_marks(built: tuple[ProbingWorld, Table, Path]) -> None:
    _, table, out = built
    text = (out / "table1.md").read_text(encoding="utf-8")
    for part in text.split("### ")[1:]:
        lines = [line for line in part.splitlines() if line.startswith("|")]
        assert len({len(re.findall(r"(?<!\\)\|", line)) for line in lines}) == 1
    first = text.split("### ")[1]
    marks = [cell.mark for row in table.rows for cell in row.cells]
    assert len(re.findall(r"\*\*[0-9.]+\*\*", first)) == marks.count("best")
    assert first.count("<ins>") == marks.count("second")
    assert len(re.findall(r"[0-9]†", first)) == marks.count("grey")


def in_every_format(table: Table, folder: Path) -> tuple[list[dict[str, str]], str, list[tuple[str, str]], str]:
    """The rows of the csv, the Markdown, the cells of the page, and the LaTeX."""
    write_csv(table, folder / "t.csv", {"k": "v,w"})
    write_pages([table], folder, "t")
    md, tex = ((folder / f"t.{kind}").read_text(encoding="utf-8") for kind in ("md", "tex"))
    return read_rows(folder / "t.csv"), md, cells_of(folder / "t.html"), tex


def test_awkward_text_and_signs(tmp_path: Path) -> None:
    rows = (Row(("*e* [f]",), (Cell(-0.04, -1.26, 2.0, note="<g>"),)), Row(("empty",), (Cell(None),)))
    caption = ("x^2 ~ \\ #1 $",)
    table = Table("a_b | <c> 50% & {d}", caption, ("Na|me",), (Column("p_q"),), rows, signed=True)
    lines, md, cells, tex = in_every_format(table, tmp_path)
    assert ("", "0.0 [−1.3, +2.0] <g>") in cells
    assert [tuple(line.values()) for line in lines] == [("*e* [f]", "0.0", "v,w"), ("empty", "", "v,w")]
    assert list(lines[0]) == ["na|me", "p_q", "k"] and r"\*e\* \[f\]" in md
    assert r"a\_b $|$ $<$c$>$ 50\% \& \{d\}" in tex
    assert r"x\textasciicircum{}2 \textasciitilde{} \textbackslash{} \#1 \$" in tex
    with pytest.raises(UserError, match="where 1 and 1 are needed"):
        Table("t", (), ("a",), (Column("b"),), (Row(("c",), ()),))


def test_a_number_can_have_decimals_of_its_own(tmp_path: Path) -> None:
    cells = (Cell(7480, decimals=0), Cell(3.976, 3.9, 4.04, decimals=2), Cell(0.0), Cell(3, 2.96, 3.04))
    columns = tuple(map(Column, ("steps", "loss", "true", "told")))
    table = Table("t", (), ("who",), columns, (Row(("a",), cells),))
    lines, md, found, tex = in_every_format(table, tmp_path)
    shown = ["7480", "3.98 [3.90, 4.04]", "0.0", "3.0 [3.0, 3.0]"]
    assert list(lines[0].values()) == ["a", "7480", "3.98", "0.0", "3.0", "v,w"]
    assert f"| {' | '.join(shown)} |" in md and [text for _, text in found][-4:] == shown and "7480 &" in tex


def test_reference_rows_are_never_ranked() -> None:
    rows = [Row((m,), (Cell(v),), reference=m == "untrained") for m, v in (("untrained", 99.0), ("a", 5.0), ("b", 4.0))]
    assert [row.cells[0].mark for row in mark_rows(rows)] == [None, "best", "second"]


def test_the_package_ships_its_templates() -> None:
    root = Path(__file__).resolve().parents[3]
    shipped = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]
    folder = resources.files("mdc.report") / "templates"
    # all are named, so that fingerprints cover them, and a wheel holds what is named
    assert {f"report/templates/{file.name}" for file in folder.iterdir()} == {
        *DATA_FILES,
        *index_page.DATA_FILES,
        *model_card.DATA_FILES,
    }
    assert shipped["mdc.report"] == ["templates/*"]


def test_csv_equals_the_standard_library() -> None:
    rng = np.random.default_rng(0)
    pieces = ["", "a", ",", '"', "'", "\n", "é", " ", ";"]
    rows = [{"te,xt": "".join(rng.choice(pieces, 3)), "count": int(rng.integers(9))} for _ in range(200)]
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, ["count", "te,xt"], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    assert csv_text(rows, ["count", "te,xt"]) == buffer.getvalue()
    assert csv_text([], ["a", "b"]) == "a,b\n"
    values = {"none": None, "nan": float("nan"), "minus": -0.0, "third": np.float64(1 / 3), "whole": 2, "yes": True}
    assert csv_text([values], list(values)).splitlines()[1] == ",,0,0.333333,2,True"
    with pytest.raises(KeyError):
        csv_text([{"a": 1}], ["a", "b"])


def test_lines_say_what_repeats_and_groups_where_they_stand() -> None:
    labels = [("x", "u", "1"), ("x", "v", "1"), ("x", "v", "2"), ("x", "v", "2"), ("y", "v", "2")]
    rows = [Row(label, (Cell(1.0),) * 4, block) for label, block in zip(labels, "aaabb", strict=True)]
    columns = (Column("p", "one"), Column("q", "one"), Column("r"), Column("s", "two"))
    table = Table("t", (), ("a", "b", "c"), columns, tuple(rows))
    assert [(new_block, repeated) for _, new_block, repeated in table.lines()] == [
        (False, 0), (False, 1), (False, 2), (True, 0), (False, 0),
    ]  # fmt: skip
    assert table.groups() == [("one", 1, 2), ("", 3, 1), ("two", 4, 1)]
    assert Table("t", (), ("a",), (Column("p"), Column("q")), ()).groups() == []


# --- items, published numbers ---------------------------------------------------------------------------------------


def test_items_round_trip_with_their_groups(tmp_path: Path) -> None:
    import pandas as pd

    path, job = tmp_path / "items.parquet", world(backbones=ONE).job
    name = job.inputs[0]
    given = {name: write_manifest(tmp_path, name, "probe.json")}
    path = given[name].with_name("items.parquet")
    columns: dict[str, Any] = {
        "probe": ["one", "many", "one", "many"],
        "item": ["a", "x", "b", "y"],
        "value": np.array([1, np.nan, 1 / 3, np.nan], dtype=np.float32),
        "scores": [None, [0.5, -1.0], None, [2.0, 3.0]],
        "targets": [None, [1, 0], None, [0, 1]],
        "group": [None, "i", None, "j"],
    }

    def read(frame: pd.DataFrame) -> dict[str, Items]:
        frame.to_parquet(path)
        write_manifest(tmp_path, name, "probe.json", outputs={path.name: sha256_file(path)})
        return items_of(table_of(given, name, path.name))

    frame = pd.DataFrame(columns)
    items = read(frame)
    assert items["one"].ids == ("a", "b") and items["one"].of == pytest.approx([1, 1 / 3])
    assert items["many"].ids == ("x", "y") and items["many"].groups == ("i", "j") and items["many"].biased
    scores, targets = np.array(columns["scores"][1::2]), np.array(columns["targets"][1::2])
    assert items["many"].value == pytest.approx(average_precision_score(targets, scores, average="macro"))
    assert set(items["one"].groups).isdisjoint(("a", "b", "i", "j")) and len(set(items["one"].groups)) == 2
    alone = read(frame.drop(columns="group"))
    assert set(alone["many"].groups).isdisjoint(alone["one"].groups), "items without groups share nothing"
    frame.loc[3, "group"] = None
    with pytest.raises(ValueError, match="some items of a probe have a group and some have none"):
        read(frame)


def test_published_averages_are_the_means_of_their_columns() -> None:
    for (dataset, backbone, method), row in published.TABLE1.items():
        # five columns and their mean, each rounded to 0.1
        assert abs(np.mean(row[:5]) - row[5]) <= 0.1 + 1e-9, (dataset, backbone, method)
        assert published.lookup("table1", dataset, backbone, method, "Average") == row[5]
    assert published.lookup("table1", "CC12M", "ViT-B/32", "MDC", "Shape") is None
    assert published.lookup("table1", "Alt-text", "ViT-B/32", "MDC", "Pets") is None
    assert published.lookup("table9", "CC12M", "ViT-B/32", "MDC", "Pets") is None


# --- figures --------------------------------------------------------------------------------------------------------


def test_smooth_equals_brute_force() -> None:
    values = np.random.default_rng(0).normal(size=23)
    for window in (0, 1, 2, 5, 100):
        for i, found in enumerate(figures.smooth(values, window)):
            reach = min(max(window, 1) // 2, i, len(values) - 1 - i)
            assert found == pytest.approx(np.mean(values[i - reach : i + reach + 1]))
    line = np.arange(9.0)
    np.testing.assert_allclose(figures.smooth(line, 5), line)  # no shift, at the ends neither


def test_a_method_keeps_its_style() -> None:
    styles = {key: method.style for key, method in plan_of("mini").params.methods.items() if method.style}
    assert len(set(styles.values())) == len(styles) > 20, "each method of the project has its own"
    declared = [(key, *style) for key, style in styles.items()]
    methods = ["mdc", "bert_15", "arc", "new", "bert_90"]
    found = method_styles(methods, declared)
    assert list(found) == ["arc", "mdc", "bert_15", "bert_90", "new"], "as in the legend, whatever order they come in"
    assert found == method_styles(methods[::-1], declared) and found["mdc"] == styles["mdc"]
    for size in range(1, 6):
        for some in itertools.combinations(methods, size):
            assert method_styles(some, declared) == {key: found[key] for key in found if key in some}
    two = method_styles(["z", "y"], declared)
    assert two["y"] != two["z"] and not set(two.values()) & set(styles.values())
    copied = method_styles(["mdc", "own"], [*declared, ("own", *styles["mdc"])])
    assert copied["own"] != copied["mdc"] == styles["mdc"], "an entry that was copied has no style of its own"


@pytest.mark.parametrize("across", [False, True])
def test_error_bars_reach_from_end_to_end(across: bool) -> None:
    from matplotlib.figure import Figure

    panel = Figure().subplots()
    # a bootstrap's interval need not hold the value, as here that of the second
    numbers = [(50.0, 45.0, 58.0), (70.0, 71.0, 75.0)]
    figures.error_bars(panel, [1.0, 2.0], numbers, ("#0072B2", "s"), across=across)
    (bars,) = panel.collections
    ends = [sorted(point[0 if across else 1] for point in path.vertices) for path in bars.get_paths()]
    assert ends == [pytest.approx(number[1:]) for number in numbers]
    (markers,) = [line for line in panel.get_lines() if line.get_marker() == "s"]
    shown = [list(map(float, data)) for data in (markers.get_xdata(), markers.get_ydata())]
    assert shown == ([[50.0, 70.0], [1.0, 2.0]] if across else [[1.0, 2.0], [50.0, 70.0]])


def test_table_1s_figure_shows_accuracies_beside_both_controls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In each panel a solid mark for each method and a hollow one for each control that a method of the panel has."""
    from matplotlib.figure import Figure

    drawn: list[dict[bool, set[tuple[float, ...]]]] = []

    def savefig(self: Figure, path: Path, **_: Any) -> None:
        for panel in self.axes:
            marks: dict[bool, set[tuple[float, ...]]] = {True: set(), False: set()}
            for line in (line for line in panel.get_lines() if line.get_marker() not in ("None", "", None)):
                marks[line.get_markerfacecolor() == "white"].add(tuple(np.round(line.get_xdata(), 6)))
            drawn.append(marks)
        path.touch()

    monkeypatch.setattr(Figure, "savefig", savefig)
    corpora = {"alt": ["arc", "mdc"], "dense": ["clip", "mdc"]}
    made = world(corpora=corpora, backbones={"B": "ViT-T/8"}, seeds=(0, 1, 2), contrasts=(("mdc", "arc"),))
    made.make(tmp_path)

    def levels(system: str) -> tuple[float, ...]:
        each = [np.mean([made.value(f"{system}/s{s}", probe) for s in made.seeds]) for probe in made.probes]
        return tuple(np.round([*each, np.mean(each)], 6))

    for panel, corpus, controls in ((drawn[0], "alt", ["patch_mean"]), (drawn[1], "dense", ["cls", "patch_mean"])):
        assert panel[False] == {levels(f"{corpus}/B/{method}") for method in corpora[corpus]}
        assert panel[True] == {levels(f"untrained/B/{pooling}") for pooling in controls}


def test_a_figure_of_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no trained encoder"):
        figures.table1_dots([], [tmp_path / "t.png"], "t", "points", str, [])
    assert not list(tmp_path.iterdir())
