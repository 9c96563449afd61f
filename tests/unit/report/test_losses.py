"""The figure of the losses of many runs."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from shown import LoggedRuns, make, shown_run

from mdc.plan.jobs.shown import ShownRun
from mdc.plan.records import UserError
from mdc.report.figures import losses
from mdc.report.figures.losses import Curve
from mdc.report.figures.styles import METHOD_STYLE


def curves(methods: dict[str, list[str]], seeds: int) -> list[Curve]:
    steps = list(range(10, 210, 10))
    return [
        Curve(
            ShownRun.model_validate_json(json.dumps(shown_run(corpus, method, seed))),
            {step: 3 + 100 / step + 0.1 * seed for step in steps},
            dict.fromkeys(steps, 3.0 + seed),
        )
        for corpus, listed in methods.items()
        for method in listed
        for seed in range(seeds)
    ]


def test_seeds_are_one_line_and_a_band() -> None:
    series = [{10: 1.0, 20: 5.0}, {10: 3.0, 20: 6.0}, {10: 2.0}]
    steps, low, mean, high = losses._over_seeds(series)
    assert [steps.tolist(), low.tolist(), mean.tolist(), high.tolist()] == [[10, 20], [1, 5], [2, 5.5], [3, 6]]


def test_methods_of_one_question_share_a_panel_and_mdc_stands_beside_its_variants() -> None:
    found = curves({"a": ["clip", "arc", "mdc", "mdc_wo_t", "bert_15", "parallel"], "b": ["mdc_0_100", "mdc"]}, 2)
    found += curves({"c": ["mdc"]}, 1)
    panels = {
        (family, panel[0].run.corpus.key): list(dict.fromkeys(curve.method for curve in panel))
        for family in losses._FAMILIES
        for panel in losses._panels(found, family)
    }
    assert panels == {
        ("contrastive", "a"): ["clip"],
        ("captioning", "a"): ["arc", "mdc"],
        ("captioning", "c"): ["mdc"],  # in b it stands beside its variant
        ("schedules", "a"): ["mdc_wo_t", "mdc"],
        ("schedules", "b"): ["mdc_0_100", "mdc"],
        ("ratios", "a"): ["bert_15", "parallel", "mdc"],
    }


@pytest.mark.parametrize("corpora", [1, 3])
def test_a_legend_never_runs_out_of_the_figure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, corpora: int) -> None:
    """Measured in the figure as it is drawn, with as many methods as a scale has and long names."""
    from matplotlib.figure import Figure

    methods = list(METHOD_STYLE)[:17]

    checked: list[Path] = []

    def savefig(self: Figure, path: Path, **_: Any) -> None:
        self.draw_without_rendering()
        (legend,) = self.legends
        box, page = legend.get_window_extent(), self.bbox
        assert page.x0 <= box.x0 and box.x1 <= page.x1 and page.y0 <= box.y0
        assert len(legend.get_texts()) == len(methods)
        lowest = min(axes.get_tightbbox().y0 for axes in self.axes if axes.axison)
        assert box.y1 <= lowest
        # a line a method in each panel, whatever the number of seeds, and its validation points
        assert max(len(axes.get_lines()) for axes in self.axes) <= 2 * 8
        # of the validation points few, and the last
        (points,) = [line for line in self.axes[0].get_lines() if line.get_linestyle() == "None"][:1]
        at = np.asarray(points.get_xdata()).tolist()
        assert at[-1] == 200 and 4 <= len(at) <= losses._POINTS and len(set(np.diff(at))) == 1
        Path(path).touch()
        checked.append(path)

    monkeypatch.setattr(Figure, "savefig", savefig)
    losses.draw(curves({f"c{i}": methods for i in range(corpora)}, 3), [tmp_path / "loss.png"], "t")
    assert len(checked) == 1


@pytest.mark.parametrize("held_out", [{10: 7.0, 100: 2.5, 200: 2.4}, {10: 2.9, 30: 0.4, 100: 2.2, 200: 6.6}])
def test_no_validation_loss_is_cut_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, held_out: dict[int, float]
) -> None:
    """At the beginning, between the points that are drawn, or of a run that overfits, at the end."""
    from matplotlib.figure import Figure

    limits: list[tuple[float, float]] = []
    monkeypatch.setattr(
        Figure, "savefig", lambda self, path, **_: limits.append(self.axes[0].get_ylim()) or path.touch()
    )
    run = ShownRun.model_validate_json(json.dumps(shown_run("a", "mdc", 0)))
    train = {step: 3.0 - step / 2000 for step in range(1, 3000)} | {1: 60.0}
    losses.draw(
        [Curve(run, train, {**dict.fromkeys(range(20, 200, 3), 2.5), **held_out})], [tmp_path / "loss.png"], "t"
    )
    ((low, high),) = limits
    assert low < min(held_out.values()) and max(held_out.values()) < high < 12


LINES: list[dict[str, Any]] = [{"step": 10, "loss": 2.0}, {"step": 10, "validation_loss": 2.5}, {"note": "no step"}]
LINES += [{"step": 20, "loss": 1e-5}]


@pytest.fixture
def project(tmp_path: Path) -> LoggedRuns:
    """Two runs with their logs."""
    found = LoggedRuns(tmp_path)
    for method in ("mdc", "clip"):
        found.add(shown_run("a", method, 3), LINES)
    return found


def test_the_csv_has_every_loss_with_the_scale_and_the_run(project: LoggedRuns) -> None:
    make(project.asked("figure_loss"), project.given, project.out)
    expected = ["scale,artefact,system,dataset,backbone,method,seed,split,step,loss,record"]
    for method in ("mdc", "clip"):
        head = f"mini,figure_loss,a/B/{method},Corpus a,ViT-B,Method {method} by its name,3"
        expected += [
            f"{head},{rest},runs/a/B/{method}/s3" for rest in ("train,10,2", "train,20,1e-05", "validation,10,2.5")
        ]
    assert (project.out / "figure_loss.csv").read_text(encoding="utf-8").splitlines() == expected


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ([], "log.jsonl: it holds no loss"),
        ([{"step": 10, "validation_loss": 1.0}], "it holds no loss"),
        ([{"step": 10, "loss": "low"}], "it holds no loss, or one that is no number"),
    ],
)
def test_a_log_that_does_not_serve_is_refused(project: LoggedRuns, lines: list[dict[str, Any]], words: str) -> None:
    project.log("runs/a/B/clip/s3", lines)
    with pytest.raises(UserError, match=words):
        make(project.asked("figure_loss"), project.given, project.out)
    assert not project.out.exists()
