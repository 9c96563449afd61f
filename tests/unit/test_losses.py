"""The figure of the losses of many runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mdc.report.figures import loss_curves_job, losses


def curves(methods: dict[str, list[str]], seeds: int) -> list[dict[str, Any]]:
    steps = list(range(10, 210, 10))
    return [
        {
            "corpus": corpus,
            "backbone": "B",
            "method": method,
            "seed": seed,
            "steps": steps,
            "loss": [3 + 100 / step + 0.1 * seed for step in steps],
            "validation": [[step, 3.0 + seed] for step in steps],
        }
        for corpus, listed in methods.items()
        for method in listed
        for seed in range(seeds)
    ]


def test_seeds_are_one_line_and_a_band() -> None:
    series = [{10: 1.0, 20: 5.0}, {10: 3.0, 20: 6.0}, {10: 2.0}]
    steps, low, mean, high = losses._over_seeds(series)
    assert [steps.tolist(), low.tolist(), mean.tolist(), high.tolist()] == [[10, 20], [1, 5], [2, 5.5], [3, 6]]


def test_methods_of_one_question_share_a_panel_and_mdc_stands_beside_its_variants() -> None:
    logs = curves({"a": ["clip", "arc", "mdc", "mdc_wo_t", "bert_15", "parallel"], "b": ["mdc_0_100", "mdc"]}, 2)
    logs += curves({"c": ["mdc"]}, 1)
    families = {log["method"]: losses._family(log["method"], None) for log in logs}
    panels = {
        (family, panel.corpus): list(dict.fromkeys(log["method"] for log in panel.logs))
        for family in losses._FAMILIES
        for panel in losses._panels(logs, family, families)
    }
    assert panels == {
        ("contrastive", "a"): ["clip"],
        ("captioning", "a"): ["arc", "mdc"],
        ("captioning", "c"): ["mdc"],  # in b it stands beside its variant
        ("schedules", "a"): ["mdc_wo_t", "mdc"],
        ("schedules", "b"): ["mdc_0_100", "mdc"],
        ("ratios", "a"): ["bert_15", "parallel", "mdc"],
    }
    assert losses._family("bert_15", {"bert_15": "contrastive"}) == "contrastive"


def test_a_family_goes_on_in_a_row_only_if_all_of_it_fits() -> None:
    def panels(family: str, count: int) -> list[Any]:
        return [losses._Panel(family, str(i), "B", ()) for i in range(count)]

    rows = losses._rows([panels("contrastive", 2), panels("captioning", 2), [], panels("schedules", 5)])
    assert [[p.family[:2] for p in row] for row in rows] == [["co", "co", "ca", "ca"], ["sc"] * 3, ["sc"] * 2]


@pytest.mark.parametrize("corpora", [1, 3])
def test_a_legend_never_runs_out_of_the_figure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, corpora: int) -> None:
    """Measured in the figure as it is drawn, with every method there is and long names."""
    from matplotlib.figure import Figure

    from mdc.report.figures.styles import METHOD_STYLE

    checked = []

    def savefig(self: Figure, path: Path, **_: Any) -> None:
        self.draw_without_rendering()
        (legend,) = self.legends
        box, page = legend.get_window_extent(), self.bbox
        assert page.x0 <= box.x0 and box.x1 <= page.x1 and page.y0 <= box.y0
        assert len(legend.get_texts()) == len(METHOD_STYLE) + 3
        lowest = min(axes.get_tightbbox().y0 for axes in self.axes if axes.axison)
        assert box.y1 <= lowest
        # a line a method in each panel, whatever the number of seeds, and its validation points
        assert max(len(axes.get_lines()) for axes in self.axes) <= 2 * 8
        Path(path).touch()
        checked.append(path)

    monkeypatch.setattr(Figure, "savefig", savefig)
    logs = curves({f"c{i}": list(METHOD_STYLE) for i in range(corpora)}, 3)
    labels = {"methods": {method: f"Method {method} by its name" for method in METHOD_STYLE}}
    losses.loss_curves(logs, [tmp_path / "loss.png"], "t", labels)
    assert len(checked) == 1


def test_validation_points_stay_few_and_end_with_the_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from matplotlib.figure import Figure

    def savefig(self: Figure, path: Path, **_: Any) -> None:
        (points,) = [line for axes in self.axes for line in axes.get_lines() if line.get_linestyle() == "None"]
        at = np.asarray(points.get_xdata()).tolist()
        assert at[-1] == 200 and 4 <= len(at) <= losses._POINTS and len(set(np.diff(at))) == 1
        Path(path).touch()

    monkeypatch.setattr(Figure, "savefig", savefig)
    losses.loss_curves(curves({"a": ["mdc"]}, 1), [tmp_path / "loss.png"], "t")


def test_a_runs_log_is_read_with_its_manifest(tmp_path: Path) -> None:
    config = {"corpus": "a", "backbone_name": "B", "method_name": "mdc", "seed": 3}
    (tmp_path / "run.json").write_text(json.dumps({"id": "runs/a/B/mdc/s3", "config": config}))
    lines = [
        {"step": 10, "loss": 2.0},
        {"step": 10, "validation_loss": 2.5},
        {"note": "no step"},
        {"step": 20, "loss": 1.0},
    ]
    (tmp_path / "log.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    manifest, kept = loss_curves_job.run_log(tmp_path / "run.json")
    assert manifest["id"] == "runs/a/B/mdc/s3" and kept == [lines[0], lines[1], lines[3]]
    one = loss_curves_job.curve(tmp_path / "run.json")
    assert (one["steps"], one["loss"], one["validation"]) == ([10, 20], [2.0, 1.0], [[10, 2.5]])
