"""The figure of the losses of many runs, and how much a loss varies by arithmetic."""

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from shown import LoggedRuns, flat, make, planned, shown_run, systems_of

from mdc.diffusion.schedule import MaskSchedule
from mdc.plan.jobs.shown import System
from mdc.plan.records import UserError
from mdc.report.figures import losses
from mdc.report.figures.losses import Curve


def row(run: dict[str, Any]) -> System:
    return System(**flat(systems_of([run])[0], System))


def curves(methods: dict[str, list[str]], seeds: int) -> list[Curve]:
    steps = list(range(10, 210, 10))
    return [
        Curve(
            row(shown_run(corpus, method, seed)),
            seed,
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
        for family in ("contrastive", "captioning", *losses._VARIANTS)
        for panel in losses._panels(found, family)
    }
    assert panels == {
        ("contrastive", "a"): ["clip"],
        ("captioning", "a"): ["arc", "mdc"],
        ("captioning", "c"): ["mdc"],  # in b it stands beside its variant
        (losses._SCHEDULES, "a"): ["mdc_wo_t", "mdc"],
        (losses._SCHEDULES, "b"): ["mdc_0_100", "mdc"],
        (losses._RATIOS, "a"): ["bert_15", "parallel", "mdc"],
    }


@pytest.mark.parametrize("corpora", [1, 3])
def test_a_legend_never_runs_out_of_the_figure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, corpora: int) -> None:
    """Measured in the figure as it is drawn, with as many methods as a scale has and long names."""
    from matplotlib.figure import Figure

    methods = ["clip", "clip_lb", "arc", "mdc", *(f"mdc_{n}" for n in range(6)), *(f"bert_{n}" for n in range(7))]

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
    losses.draw(curves({f"c{i}": methods for i in range(corpora)}, 3), [tmp_path / "loss.png"], "t", [])
    assert len(checked) == 1


def test_below_minis_losses_stand_two_lines_at_most(tmp_path: Path) -> None:
    """… which conftest.py counts; with what the arithmetic says of every range of t that the scale has."""
    steps = dict.fromkeys(range(1, 4), 3.0)
    made = [
        losses.Curve(run, seed, steps, steps, steps, 0.176 if run.more["t_range"] is not None else None)
        for run in planned("mini")["figure_loss"].systems
        for seed in run.more["seeds"]
    ]
    losses.draw(made, [tmp_path / "loss.png"], "t", [])
    assert (tmp_path / "loss.png").is_file()


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
    run = row(shown_run("a", "mdc", 0))
    train = {step: 3.0 - step / 2000 for step in range(1, 3000)} | {1: 60.0}
    losses.draw(
        [Curve(run, 0, train, {**dict.fromkeys(range(20, 200, 3), 2.5), **held_out})], [tmp_path / "loss.png"], "t", []
    )
    ((low, high),) = limits
    assert low < min(held_out.values()) and max(held_out.values()) < high < 12


LINES: list[dict[str, Any]] = [{"step": 10, "loss": 2.0, "grad_norm": 3.0}, {"step": 10, "validation_loss": 2.5}]
LINES += [{"note": "no step"}, {"step": 20, "loss": 1e-5}]
LEAST = 1e-3


@pytest.fixture
def project(tmp_path: Path) -> LoggedRuns:
    """Two runs with their logs."""
    found = LoggedRuns(tmp_path)
    for method in ("mdc", "clip"):
        found.add(shown_run("a", method, 3), LINES)
    return found


def test_the_csv_has_every_loss_with_the_scale_and_the_run(project: LoggedRuns) -> None:
    make(project.asked("figure_loss"), project.given, project.out)
    expected = ["scale,artefact,system,dataset,backbone,method,seed,split,step,loss,grad_norm,record"]
    for method in ("mdc", "clip"):
        head = f"mini,figure_loss,a/B/{method},Corpus a,ViT-B,Method {method} by its name,3"
        expected += [
            f"{head},{rest},runs/a/B/{method}/s3" for rest in ("train,10,2,3", "train,20,1e-05,", "validation,10,2.5,")
        ]
    assert (project.out / "figure_loss.csv").read_text(encoding="utf-8").splitlines() == expected


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ([], "log.jsonl: it holds no loss"),
        ([{"step": 10, "validation_loss": 1.0}], "it holds no loss"),
        ([{"step": 10, "loss": "low"}], "it holds no loss, or one that is no number"),
        ([{"step": 10, "loss": 1.0, "grad_norm": None}], "it holds no loss, or one that is no number"),
    ],
)
def test_a_log_that_does_not_serve_is_refused(project: LoggedRuns, lines: list[dict[str, Any]], words: str) -> None:
    project.log("runs/a/B/clip/s3", lines)
    with pytest.raises(UserError, match=words):
        make(project.asked("figure_loss"), project.given, project.out)
    assert not project.out.exists()


def test_gradient_norms_and_the_arithmetic_stand_beside_the_losses_of_ranges_of_t(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from matplotlib.figure import Figure

    drawn: list[Figure] = []
    monkeypatch.setattr(Figure, "savefig", lambda self, path, **_: drawn.append(self) or path.touch())
    made = LoggedRuns(tmp_path)
    config = {"protocol": {"pretrain": {"least_t": LEAST}}}
    lines = [{"step": s, "loss": 3.0, "grad_norm": 2.0 + s % 3, "tokens": 200 + s % 2} for s in range(1, 40)]
    for method, low, weight in (("mdc_0_100", 0.0, "inverse_t"), ("mdc_wo_t", 0.5, "none"), ("mdc", 0.5, "inverse_t")):
        run = shown_run("a", method, 0, t_range=[low, 1.0])
        made.add(run, lines, method={"weight": weight, "normaliser": "valid_tokens"}, **config)
    make(made.asked("figure_loss"), made.given, made.out)
    losses_of, norms = drawn[0].axes
    assert [panel.get_ylabel() for panel in (losses_of, norms)] == ["nats per token", "gradient norm before clipping"]
    assert 2 in norms.get_lines()[0].get_ydata() and len(norms.get_lines()) == 2 * 3
    note = " ".join(drawn[0].legends[0].get_title().get_text().split())
    each = [f"{100 * losses.loss_variation(low, 1.0, 201.0, LEAST):.1f} %" for low in (0.0, 0.5)]
    named = [f"Method {method} by its name" for method in ("mdc_0_100", "mdc")]
    text = ", ".join(f"{name} {value}" for name, value in zip(named, each, strict=True))
    assert note.endswith(f"By weights and masks alone a loss varies by: {text}.")


# --- how much a loss varies by arithmetic ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (0.3, 0.8), (0.5, 1.0), (0.15, 0.15), (0.0, 0.0005)])
def test_the_mean_of_one_over_t_is_the_schedules_own(low: float, high: float) -> None:
    schedule = MaskSchedule(low, high, least_t=LEAST)
    count = 400_000
    place = torch.arange(count)
    t = schedule.draw(torch.full((count,), 0.5, dtype=torch.float64), place, count)
    assert losses.mean_inverse_t(low, high, LEAST) == pytest.approx(schedule.weight(t).double().mean().item(), rel=1e-4)


@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (0.5, 1.0), (0.3, 0.3)])
@pytest.mark.parametrize("tokens", [1, 2, 5])
def test_the_loss_varies_as_every_outcome_of_its_masks_says(low: float, high: float, tokens: int) -> None:
    """One caption: all 2^L masks at each of many t, weighted by their probability."""
    strata = 200_000
    t = np.maximum(low + (high - low) * (np.arange(strata) + 0.5) / strata, LEAST)
    first, second = np.zeros(strata), np.zeros(strata)
    for masks in itertools.product((0, 1), repeat=tokens):
        k = sum(masks)
        probability = t**k * (1 - t) ** (tokens - k)
        loss = k / t / tokens
        first += probability * loss
        second += probability * loss**2
    assert first.mean() == pytest.approx(1)  # unbiased whatever the range of t
    exact = second.mean() - first.mean() ** 2
    assert losses.loss_variation(low, high, tokens, LEAST) ** 2 == pytest.approx(exact, rel=1e-4)


def test_a_batch_varies_as_its_tokens_together_say_stratified_or_not() -> None:
    rng = np.random.default_rng(3)
    lengths = np.array([1, 2, 3, 4, 6, 8, 8, 20])
    draws, batch = 40_000, len(lengths)
    for jitter in ((np.arange(batch) + rng.random((draws, batch))) / batch, rng.random((draws, batch))):
        t = 0.3 + 0.5 * rng.permuted(jitter, axis=1)
        loss = (rng.binomial(lengths, t) / t).sum(1) / lengths.sum()
        expected = losses.loss_variation(0.3, 0.8, float(lengths.sum()), LEAST) ** 2
        assert loss.var() == pytest.approx(expected, rel=0.04)


def test_where_all_is_masked_nothing_varies() -> None:
    assert losses.loss_variation(1.0, 1.0, 5, LEAST) == 0
