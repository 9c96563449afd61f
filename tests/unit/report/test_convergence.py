"""The figure of convergence: which snapshots its lines join, what its files tell of them, and what is claimed."""

from pathlib import Path
from typing import Any

import pytest
from probing_world import CONVERGING, ConvergingWorld
from shown import read_rows

from mdc.report.figures.accuracy_panels import AccuracyPanels


def test_its_files(tmp_path: Path) -> None:
    out = ConvergingWorld(seeds=(0, 1, 2)).make(tmp_path)
    levels = {(row["system"], row["column"]): row for row in read_rows(out / "figure_convergence.csv")}
    told = {key: (row["share"], row["steps"], row["samples_seen"], row["pairs"]) for key, row in levels.items()}
    assert told["dense/B/mdc/at-0.25", "shape"] == ("0.25", "50", "400", "800")
    assert told["dense/B/mdc", "average"] == ("1", "200", "1600", "800")
    assert told["untrained/B/patch_mean", "shape"] == ("", "", "", "")
    lines = read_rows(out / "figure_convergence_contrasts.csv")
    claims = [line for line in lines if line["primary"] == "True"]
    assert [(line["first"], line["second"], line["column"]) for line in claims] == [
        ("dense/B/mdc/at-0.25", "dense/B/parallel/at-0.25", "average")
    ]
    apart = levels["dense/B/mdc/at-0.25", "average"], levels["dense/B/parallel/at-0.25", "average"]
    assert float(claims[0]["value"]) == pytest.approx(float(apart[0]["value"]) - float(apart[1]["value"]), abs=1e-3)
    assert (claims[0]["direction"], claims[0]["scope"]) == ("supported", "methods")
    compared = {line["first"] for line in lines if line["kind"] == "difference"}
    assert compared == {"dense/B/mdc/at-0.25", "dense/B/mdc/at-0.5", "dense/B/mdc"}, "at every share"
    gains = {line["first"]: line["second"] for line in lines if line["kind"] == "gain"}
    assert gains["dense/B/mdc/at-0.5"] == "untrained/B/patch_mean"


def test_a_line_joins_the_snapshots_of_one_method_on_one_corpus(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """… each near its share, in the method's own colour, and the legend calls it what its end is called."""
    drawn: list[tuple[str, str, float, float]] = []
    point = AccuracyPanels.point
    legend: list[str] = []
    finish = AccuracyPanels.finish

    def noted(self: AccuracyPanels, panel: Any, x: float, number: Any) -> None:
        drawn.append((number.system.key, number.column, x, number.value))
        point(self, panel, x, number)

    def finished(self: AccuracyPanels, figure: Any, title: str, handles: Any, *words: str) -> None:
        legend.extend(handle.get_label() for handle in handles)
        finish(self, figure, title, handles, *words)

    monkeypatch.setattr(AccuracyPanels, "point", noted)
    monkeypatch.setattr(AccuracyPanels, "finish", finished)
    made = ConvergingWorld(corpora=("alt", "dense"))
    made.make(tmp_path)
    assert len(drawn) == 2 * 2 * 3 * 3, "two corpora, two methods, three shares; two probes and their average"
    for key, column, x, value in drawn:
        end, at, share = key.partition("/at-")
        assert abs(x - 100 * float(share or 1)) < 2
        assert column == "average" or value == pytest.approx(made.value(f"{end}/s0{at}{share}", column))
    assert legend == [method.upper() for method in CONVERGING]
