"""The figure of the losses of many runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mdc.artefacts import ARTEFACTS
from mdc.jobs.read import as_job
from mdc.jobs.shown import ShownRun
from mdc.records import UserError
from mdc.report.figures import loss_panels, losses
from mdc.report.figures.loss_panels import Curve
from mdc.report.figures.styles import METHOD_STYLE

OBJECTIVES = {"clip": "contrastive", "clip_lb": "contrastive", "arc": "autoregressive"}


def shown(corpus: str, method: str, seed: int) -> dict[str, Any]:
    ratio = 1.0 if method == "parallel" else int(method[5:]) / 100 if method.startswith("bert_") else None
    return {
        "job": f"runs/{corpus}/B/{method}/s{seed}",
        "corpus": {"key": corpus, "label": f"Corpus {corpus}"},
        "backbone": {"key": "B", "label": "ViT-B"},
        "method": {"key": method, "label": f"Method {method} by its name"},
        "objective": OBJECTIVES.get(method, "masked"),
        "seed": seed,
        "t_range": None if method in OBJECTIVES else [ratio or 0.5, ratio or 1.0],
        "warmup_steps": 5,
        "clip_norm": None,
    }


def curves(methods: dict[str, list[str]], seeds: int) -> list[Curve]:
    steps = list(range(10, 210, 10))
    return [
        Curve(
            ShownRun.model_validate_json(json.dumps(shown(corpus, method, seed))),
            {step: 3 + 100 / step + 0.1 * seed for step in steps},
            dict.fromkeys(steps, 3.0 + seed),
        )
        for corpus, listed in methods.items()
        for method in listed
        for seed in range(seeds)
    ]


def test_seeds_are_one_line_and_a_band() -> None:
    series = [{10: 1.0, 20: 5.0}, {10: 3.0, 20: 6.0}, {10: 2.0}]
    steps, low, mean, high = loss_panels._over_seeds(series)
    assert [steps.tolist(), low.tolist(), mean.tolist(), high.tolist()] == [[10, 20], [1, 5], [2, 5.5], [3, 6]]


def test_methods_of_one_question_share_a_panel_and_mdc_stands_beside_its_variants() -> None:
    found = curves({"a": ["clip", "arc", "mdc", "mdc_wo_t", "bert_15", "parallel"], "b": ["mdc_0_100", "mdc"]}, 2)
    found += curves({"c": ["mdc"]}, 1)
    panels = {
        (family, panel.curves[0].run.corpus.key): list(dict.fromkeys(curve.method for curve in panel.curves))
        for family in loss_panels._FAMILIES
        for panel in loss_panels._panels(found, family)
    }
    assert panels == {
        ("contrastive", "a"): ["clip"],
        ("captioning", "a"): ["arc", "mdc"],
        ("captioning", "c"): ["mdc"],  # in b it stands beside its variant
        ("schedules", "a"): ["mdc_wo_t", "mdc"],
        ("schedules", "b"): ["mdc_0_100", "mdc"],
        ("ratios", "a"): ["bert_15", "parallel", "mdc"],
    }


def test_a_family_goes_on_in_a_row_only_if_all_of_it_fits() -> None:
    def panels(family: str, count: int) -> list[Any]:
        return [loss_panels._Panel(family, ()) for _ in range(count)]

    rows = loss_panels._rows([panels("contrastive", 2), panels("captioning", 2), [], panels("schedules", 5)])
    assert [[p.family[:2] for p in row] for row in rows] == [["co", "co", "ca", "ca"], ["sc"] * 3, ["sc"] * 2]


@pytest.mark.parametrize("corpora", [1, 3])
def test_a_legend_never_runs_out_of_the_figure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, corpora: int) -> None:
    """Measured in the figure as it is drawn, with every method there is and long names."""
    from matplotlib.figure import Figure

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
    loss_panels.draw(curves({f"c{i}": list(METHOD_STYLE) for i in range(corpora)}, 3), [tmp_path / "loss.png"], "t")
    assert len(checked) == 1


def test_validation_points_stay_few_and_end_with_the_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from matplotlib.figure import Figure

    def savefig(self: Figure, path: Path, **_: Any) -> None:
        (points,) = [line for axes in self.axes for line in axes.get_lines() if line.get_linestyle() == "None"]
        at = np.asarray(points.get_xdata()).tolist()
        assert at[-1] == 200 and 4 <= len(at) <= loss_panels._POINTS and len(set(np.diff(at))) == 1
        Path(path).touch()

    monkeypatch.setattr(Figure, "savefig", savefig)
    loss_panels.draw(curves({"a": ["mdc"]}, 1), [tmp_path / "loss.png"], "t")


class Project:
    """Two runs with their logs, and what is asked of them."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.out = folder, folder / "out"
        self.runs = [shown("a", "mdc", 3), shown("a", "clip", 3)]
        self.given = {}
        for run in self.runs:
            path = folder / run["job"] / "run.json"
            path.parent.mkdir(parents=True)
            path.write_text(json.dumps({"id": run["job"], "config": {"scale": "mini"}, "config_sha256": "sha"}))
            self.given[run["job"]] = path
            self.log(run["job"], {"step": 10, "loss": 2.0}, {"step": 10, "validation_loss": 2.5}, {"note": "no step"},
                     {"step": 20, "loss": 1e-5})  # fmt: skip

    def log(self, job: str, *lines: dict[str, Any]) -> None:
        self.given[job].with_name("log.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))

    def make(self) -> str:
        config = {"job": "figure_loss", "verb": "make", "scale": "mini", "fingerprint": "f", "inputs": list(self.given)}
        config |= {"artefact": "figure_loss", "plan": "losses", "scale_label": "mini (a test)", "runs": self.runs}
        config |= {"expected": dict.fromkeys(self.given, "sha")}
        losses.make(as_job(config, "make", "a test"), self.given, self.out)
        return (self.out / "figure_loss.csv").read_text(encoding="utf-8")


def test_the_csv_has_every_loss_with_all_its_digits_and_the_scale(tmp_path: Path) -> None:
    project = Project(tmp_path)
    text = project.make()
    expected = ["corpus,backbone,method,seed,split,step,loss,scale"]
    for method in ("mdc", "clip"):
        head = f"Corpus a,ViT-B,Method {method} by its name,3"
        expected += [f"{head},{rest},mini" for rest in ("train,10,2.0", "train,20,1e-05", "validation,10,2.5")]
    assert text.splitlines() == expected
    assert sorted(path.name for path in project.out.iterdir()) == sorted(ARTEFACTS["figure_loss"].files)
    first = {path.name: path.read_bytes() for path in project.out.iterdir()}
    project.given = dict(reversed(project.given.items()))
    project.make()
    assert {path.name: path.read_bytes() for path in project.out.iterdir()} == first


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ([], "log.jsonl: it holds no loss; train the run again"),
        ([{"step": 10, "validation_loss": 1.0}], "it holds no loss"),
        ([{"step": 10, "loss": "low"}], "a step or a loss is no number"),
    ],
)
def test_a_log_that_does_not_serve_is_refused(tmp_path: Path, lines: list[dict[str, Any]], words: str) -> None:
    project = Project(tmp_path)
    project.log("runs/a/B/clip/s3", *lines)
    with pytest.raises(UserError, match=words):
        project.make()
    assert not project.out.exists()
