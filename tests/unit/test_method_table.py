"""Tables of methods by corpora: the paper's Table 4 layout, its numbers against the records, its contrasts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_report import World, read

from mdc import jobs
from mdc.config import load
from mdc.records import UserError
from mdc.report import published
from mdc.report.lines import Contrast
from mdc.report.probing import verdict_words
from mdc.report.tables.method_table import build, files
from mdc.statistics.intervals import Interval, verdict

ROOT = Path(__file__).resolve().parents[2]
PROBE = [{"key": "imagenet1k", "label": "ImageNet-1K"}]


def made(out: Path, world: World, **changes: Any) -> list[dict[str, str]]:
    table = changes.get("table", "table4")
    spec = {**world.spec, "table": table, "backbones": world.spec["backbones"][:1], "probes": PROBE}
    spec["corpora"] = [{**corpus, "methods": ["arc", "mdc"]} for corpus in world.spec["corpora"]]
    spec |= {"contrasts": [["mdc", "arc"]], **changes}
    build(world.records, lambda r: world.items[r["encoder"]["id"].removeprefix("runs/")], spec, out)
    assert sorted(path.name for path in out.iterdir()) == sorted(files(table))
    return read(out / f"{table}.csv")


@pytest.mark.parametrize("seeds", [(0,), (0, 1, 2)])
def test_a_row_a_method_and_a_column_a_corpus(tmp_path: Path, seeds: tuple[int, ...]) -> None:
    world = World(seeds=seeds)
    rows = {row["method"]: row for row in made(tmp_path, world)}
    assert list(rows) == ["untrained, mean of patches", "ARC", "MDC", "chance"]
    for key, label in (("alt", "Alt <text> & co"), ("dense", "Dense_2")):
        for name, method in (("ARC", "arc"), ("MDC", "mdc")):
            values = [world.record(f"{key}/B/{method}/s{s}")["probes"]["imagenet1k"]["value"] for s in seeds]
            assert float(rows[name][label]) == pytest.approx(np.mean(values), abs=0.051)
        control = [world.record(f"untrained/B/patch_mean/s{s}")["probes"]["imagenet1k"]["value"] for s in seeds]
        assert float(rows["untrained, mean of patches"][label]) == pytest.approx(np.mean(control), abs=0.051)
        assert rows["chance"][label] == "12.5"
    contrasts = read(tmp_path / "table4_contrasts.csv")
    named = [line for line in contrasts if line["against"] == "ARC"]
    assert len(named) == 2 and len(contrasts) == 2 + 4, "one a corpus, and each method against its initial weights"
    assert {line["benchmark"] for line in contrasts} == {"ImageNet-1K"}, "no average of one probe"
    for ending in ("html", "md", "tex"):
        text = (tmp_path / f"table4.{ending}").read_text(encoding="utf-8")
        assert "Ablation on t" in text and "not a reproduction" in text
    assert "Differences between methods" in (tmp_path / "table4.html").read_text(encoding="utf-8")


def test_several_probes_stand_side_by_side_with_their_average(tmp_path: Path) -> None:
    world = World()
    (arc, mdc) = [row for row in made(tmp_path, world, probes=world.spec["probes"]) if row["method"] in ("ARC", "MDC")]
    columns = ["Dense_2, ImageNet-1K", "Dense_2, Pets", "Dense_2, Average"]
    assert float(mdc[columns[2]]) == pytest.approx((float(mdc[columns[0]]) + float(mdc[columns[1]])) / 2, abs=0.11)
    assert set(columns) < set(arc)
    page = (tmp_path / "table4.html").read_text(encoding="utf-8")
    assert page.count('colspan="3">Dense_2</th>') == 2, "a heading over its corpus's columns, in both tables"
    assert page.count(">Pets<small>") == 4 and "Dense_2, Pets" not in page
    assert "Dense\\_2, Pets" in (tmp_path / "table4.md").read_text(encoding="utf-8"), "Markdown has one row of headings"
    assert r"\multicolumn{3}{c}{Dense\_2}" in (tmp_path / "table4.tex").read_text(encoding="utf-8")


def test_a_method_that_a_corpus_lacks_leaves_an_empty_cell(tmp_path: Path) -> None:
    world = World()
    corpora = [{**c, "methods": m} for c, m in zip(world.spec["corpora"], (["mdc"], ["arc", "mdc"]), strict=True)]
    rows = {row["method"]: row for row in made(tmp_path, world, corpora=corpora)}
    assert rows["ARC"]["Alt <text> & co"] == "" != rows["ARC"]["Dense_2"]


def test_a_missing_record_is_named(tmp_path: Path) -> None:
    world = World()
    world.records = [r for r in world.records if "dense/B/mdc" not in r["encoder"]["id"]]
    with pytest.raises(UserError, match="table 4: no probe record for dense/B/mdc/s0"):
        made(tmp_path, world)


def test_the_papers_table_4_confirms_its_table_1() -> None:
    assert published.lookup("table4", "CC12M", "ViT-B/32", "MDC (w/o t)", "ImageNet-1K") == 54.0
    assert published.lookup("table4", "Recap-DataComp-10M", "ViT-B/32", "MDC (w/o t)", "ImageNet-1K") == 59.5
    for (dataset, backbone, method), value in published.TABLE4.items():
        if method == "MDC":
            assert published.lookup("table1", dataset, backbone, method, "ImageNet-1K") == value
    assert published.lookup("table4", "CC12M", "ViT-B/32", "MDC", "Pets") is None


def test_the_papers_table_5_stands_beside_our_rows_by_their_ranges() -> None:
    printed = [29.3, 36.1, 38.6, 39.2]
    spec = jobs.table_config(load(ROOT / "params.yaml", "paper"), "table5")
    (corpus,), (backbone,), (probe,) = spec["corpora"], spec["backbones"], spec["probes"]
    names = [spec["methods"][method]["label"] for method in corpus["methods"]]
    assert names == ["[0.0, 1.0]", "[0.3, 0.8]", "[0.4, 0.9]", "[0.5, 1.0]"]
    cells = [published.lookup("table5", corpus["label"], backbone["label"], name, probe["label"]) for name in names]
    assert cells == printed and len(published.TABLE5) == 4
    assert published.lookup("table5", "CC12M", backbone["label"], names[0], probe["label"]) is None


def test_table_5_says_what_its_rows_are(tmp_path: Path) -> None:
    made(tmp_path, World(), table="table5")
    for ending in ("html", "md", "tex"):
        text = (tmp_path / f"table5.{ending}").read_text(encoding="utf-8")
        assert "Analysis of noise schedule" in text and "share of a caption that is masked" in text


@pytest.mark.parametrize(
    ("low", "high", "says"),
    [
        (0.4, 3.0, "held, p 0.012"),
        (-1.0, 1.5, "comparable"),
        (-1.0, 2.5, "cannot be told (≥ 2.4)"),
        (-7.1, -2.2, "cannot be told (below 0, p 0.012)"),
    ],
)
def test_a_verdict_says_when_the_opposite_is_seen(low: float, high: float, says: str) -> None:
    middle = (low + high) / 2
    told = verdict(Interval(middle, low, high, 9, "seeds"))
    line = Contrast(*[""] * 9, middle, low, high, "", 9, "0", 0.004, 0.012, told, 2.4)
    assert verdict_words(line) == says
