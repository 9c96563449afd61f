"""Tables of methods by corpora: the paper's Table 4 layout, its numbers against the records, its contrasts."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import test_report
from probing_world import ProbingWorld
from shown import planned, read_rows
from test_report import ALT, DENSE

from mdc.plan.records import UserError
from mdc.report import published
from mdc.report.make import make

BOTH: Mapping[str, Sequence[str]] = {"alt": ["arc", "mdc"], "dense": ["arc", "mdc"]}


def world(corpora: Mapping[str, Sequence[str]] = BOTH, **given: Any) -> ProbingWorld:
    values: dict[str, Any] = {"artefact": "table4", "probes": ("imagenet1k",), "contrasts": (("mdc", "arc"),)}
    values |= {"cls": (), "backbones": {"B": "ViT-T/12"}, "primary_metric": "imagenet1k"}
    return test_report.world(corpora=corpora, **{**values, **given})


@pytest.mark.parametrize("seeds", [(0,), (0, 1, 2)])
def test_a_row_a_method_and_a_column_a_corpus(tmp_path: Path, seeds: tuple[int, ...]) -> None:
    made = world(seeds=seeds)
    out = made.make(tmp_path)
    rows = {row["method"]: row for row in read_rows(out / "table4.csv")}
    assert list(rows) == ["untrained, mean of patches", "ARC", "MDC"]
    for key, label in (("alt", ALT), ("dense", DENSE)):
        for name, method in (("ARC", "arc"), ("MDC", "mdc")):
            values = [made.value(f"{key}/B/{method}/s{s}", "imagenet1k") for s in seeds]
            assert float(rows[name][label]) == pytest.approx(np.mean(values), abs=0.051)
        control = [made.value(f"untrained/B/patch_mean/s{s}", "imagenet1k") for s in seeds]
        assert float(rows["untrained, mean of patches"][label]) == pytest.approx(np.mean(control), abs=0.051)
    contrasts = read_rows(out / "table4_contrasts.csv")
    named = [line for line in contrasts if line["second_method"] == "ARC"]
    assert len(named) == 2 and len(contrasts) == 2 + 4, "one a corpus, and each method against its control"
    assert [line["primary"] for line in contrasts] == ["True"] * 2 + ["False"] * 4
    assert {line["label"] for line in contrasts} == {"ImageNet-1K"}, "no average of one probe"
    for ending in ("html", "md", "tex"):
        text = (out / f"table4.{ending}").read_text(encoding="utf-8")
        assert "Ablation on t" in text and "not a reproduction" in text
    page = (out / "table4.html").read_text(encoding="utf-8")
    assert "Primary comparisons on ImageNet-1K" in page
    assert "Differences between methods" not in page, "all that is named has its verdict"


def test_several_probes_stand_side_by_side_with_their_average(tmp_path: Path) -> None:
    out = world(probes=("imagenet1k", "pets"), primary_metric="average").make(tmp_path)
    (arc, mdc) = [row for row in read_rows(out / "table4.csv") if row["method"] in ("ARC", "MDC")]
    columns = ["Dense_2, ImageNet-1K", "Dense_2, Pets", "Dense_2, Average"]
    assert float(mdc[columns[2]]) == pytest.approx((float(mdc[columns[0]]) + float(mdc[columns[1]])) / 2, abs=0.11)
    assert set(columns) < set(arc)
    page = (out / "table4.html").read_text(encoding="utf-8")
    assert page.count('colspan="3">Dense_2</th>') == 1, "a heading over its corpus's columns"
    assert "Dense_2, Pets" not in page and "Differences between methods" in page
    assert "Dense\\_2, Pets" in (out / "table4.md").read_text(encoding="utf-8"), "Markdown has one row of headings"
    assert r"\multicolumn{3}{c}{Dense\_2}" in (out / "table4.tex").read_text(encoding="utf-8")


def test_a_method_that_a_corpus_lacks_leaves_an_empty_cell(tmp_path: Path) -> None:
    made = world({"alt": ["mdc"], "dense": ["arc", "mdc"]})
    rows = {row["method"]: row for row in read_rows(made.make(tmp_path) / "table4.csv")}
    assert rows["ARC"][ALT] == "" != rows["ARC"][DENSE]


def test_two_systems_that_nothing_tells_apart_are_refused(tmp_path: Path) -> None:
    made = world()
    made.add("alt/B/mdc/again", "alt", "mdc")
    with pytest.raises(UserError, match=f"table 4: alt/B/mdc and alt/B/mdc/again are both called {ALT}, ViT-T/12, MDC"):
        made.make(tmp_path / "a")
    made.systems[-1]["backbone"] = {"key": "A", "label": "ViT-S/12"}
    with pytest.raises(UserError, match="table 4: alt/B/mdc and alt/B/mdc/again would stand in the same cell"):
        made.make(tmp_path / "b")


def test_the_papers_table_4_confirms_its_table_1() -> None:
    for (dataset, backbone, method), (value,) in published.TABLE4.items():
        if method == "MDC":
            assert published.lookup("table1", dataset, backbone, method, "ImageNet-1K") == value


@pytest.mark.parametrize("name", ["table1", "table2", "table3", "table4", "table5"])
def test_every_published_number_has_its_cell_at_scale_paper(name: str) -> None:
    job, numbers = planned("paper")[name], getattr(published, name.upper())
    rows = {(one.corpus.label, one.backbone.label, one.method.label) for one in job.systems if one.corpus}
    columns = {column.label for column in job.columns} | {"Average", "LLM"}
    cells = [published.lookup(name, *row, column) for row in rows for column in columns]
    expected = np.hstack(list(numbers.values()))
    assert sorted(cell for cell in cells if cell is not None) == sorted(expected) and len(expected) >= 4


def test_a_corpus_that_is_the_beginning_of_a_list_says_how_many_pairs_it_had(tmp_path: Path) -> None:
    """Links die: 10M is what was asked for. The printed value stays beside its cell."""
    named = {"recap": "Recap-DataComp-10M", "shape": "ImageNet-1K"}
    world = ProbingWorld(
        {"recap": ["mdc"], "alt": ["mdc"]},
        lambda *_: 0.6,
        {"recap": 8123456},
        labels=named,
        scale="paper",
        backbones={"B": "ViT-B/32"},
    )
    planned_rows = planned("paper")["table1"].systems
    of_paper = {system.corpus.key: system.corpus for system in planned_rows if system.corpus}
    for system in world.systems:
        if system["corpus"] and system["corpus"]["key"] == "recap":
            system["corpus"]["listed"] = of_paper["recap10m"].listed
    (out := tmp_path / "out").mkdir()
    make(world.job, world.write(tmp_path), out)
    by_dataset = {line["dataset"]: line for line in read_rows(out / "table1_long.csv")}
    assert set(by_dataset) == {"none", "Alt", "Recap-DataComp-10M (8,123,456 pairs)"}
    assert by_dataset["Recap-DataComp-10M (8,123,456 pairs)"]["published"] == "60.7"
    assert "Recap-DataComp-10M (8,123,456 pairs)" in (out / "table1.md").read_text()
