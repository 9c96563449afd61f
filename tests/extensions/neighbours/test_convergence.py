"""The figure of convergence: which snapshots its lines join, what its files tell of them, and what is claimed."""

from pathlib import Path

import pytest
from probing_world import ConvergingWorld
from shown import read_rows

from mdc.report.figures import accuracy_panels


@pytest.mark.parametrize("order", [1, -1], ids=["ends first", "snapshots first"])
def test_its_legend_names_methods_and_no_shares(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, order: int) -> None:
    made, named = ConvergingWorld(), list[str]()
    made.systems = made.systems[::order]
    drawn = accuracy_panels.line_handle
    monkeypatch.setattr(
        accuracy_panels, "line_handle", lambda *given, **more: named.append(given[1]) or drawn(*given, **more)
    )
    made.make(tmp_path)
    assert {"MDC", "PARALLEL"} <= set(named) and not [label for label in named if "%" in label]


def test_its_files(tmp_path: Path) -> None:
    made = ConvergingWorld(seeds=(0, 1, 2))
    out = made.make(tmp_path)
    levels = {(row["system"], row["column"]): row for row in read_rows(out / "figure_convergence.csv")}
    told = {key: (row["share"], row["steps"], row["samples_seen"], row["pairs"]) for key, row in levels.items()}
    assert told["dense/B/mdc/at-0.25", "shape"] == ("0.25", "50", "400", "800")
    assert told["dense/B/mdc", "average"] == ("1", "200", "1600", "800")
    assert told["untrained/B/patch_mean", "shape"] == ("", "", "", "")
    early = [made.value(f"dense/B/mdc/s{seed}/at-0.25", "shape") for seed in range(3)]
    assert float(levels["dense/B/mdc/at-0.25", "shape"]["value"]) == pytest.approx(sum(early) / 3)
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
