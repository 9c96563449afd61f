"""The losses of every run of a scale.

Methods of one family share a panel: CLIP's losses, the captioning methods of the main table, other weights and ranges of t, fixed
mask ratios; MDC is in each of the last three. Seeds become a mean and a band.

A log contains times, so no record can name it by hash; ``figure_loss.csv`` has every loss.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mdc.plan.jobs.shown import LossesJob, ShownRun
from mdc.report.figures.drawing import MARKER, Axes, bottom_legend, drawing, headline, line_handle, smooth, write_logs
from mdc.report.figures.styles import method_styles
from mdc.report.manifests import Manifests, run_log, run_place

SHOWN = {
    "artefacts": {"figure_loss": {"title": "Figure: losses"}},
    "files": ".png .svg .csv",
    "caption": "Training and held-out loss of every run at scale {scale}, in nats. Levels of different methods do not compare, "
    "since they are losses of different things.",
    "config": "tables.LossFigure",
    "plan": "artefact_plans.losses",
    "job": "shown.LossesJob",
}

#: family -> heading of its panels; in the order drawn
_FAMILIES = {
    "contrastive": "contrastive",
    "superclass": "sets of tokens",
    "captioning": "captioning",
    "schedules": "other weights and ranges of t",
    "ratios": "fixed mask ratios",
    "mask_and_replace": "mask-and-replace",
}
#: drawn beside its variants, which are two families
_COMMON, _VARIANTS = "mdc", ("schedules", "ratios")
_COLUMNS = 5
_POINTS = 9  # validation losses drawn of one line; the csv has all


@dataclass(frozen=True)
class Curve:
    """A run's losses in nats by step: of ``train`` and of ``validation``, which may have none."""

    run: ShownRun
    train: Mapping[int, float]
    validation: Mapping[int, float]

    @property
    def method(self) -> str:
        """Its method's key."""
        return self.run.method.key

    @property
    def family(self) -> str:
        """A key of ``_FAMILIES``."""
        if self.run.objective in ("contrastive", "superclass", "mask_and_replace"):
            return self.run.objective
        if self.run.t_range is not None and self.run.t_range[0] == self.run.t_range[1]:
            return "ratios"
        masked = self.run.objective in ("masked", "complementary")
        return "schedules" if masked and self.method != _COMMON else "captioning"


def make(job: LossesJob, manifests: Manifests, out: Path) -> None:
    """Write the figure and its csv into ``out``; UserError if a run's manifest or log does not serve."""
    curves = []
    for run in job.runs:
        lines = run_log(manifests, run.job)
        # of a step that was logged twice the last counts
        series = [{line["step"]: line[key] for line in lines if key in line} for key in ("loss", "validation_loss")]
        curves.append(Curve(run, *series))
    logs = (
        (curve.run, {"split": split, "step": list(losses), "loss": list(losses.values())})
        for curve in curves
        for split, losses in (("train", curve.train), ("validation", curve.validation))
        if losses
    )
    write_logs(out / "figure_loss.csv", job, logs)
    figures = [out / "figure_loss.png", out / "figure_loss.svg"]
    draw(curves, figures, title=f"Pretraining loss, scale {job.scale_label}")


def draw(curves: Sequence[Curve], paths: Sequence[Path], title: str) -> None:
    """Training loss (running mean) and validation loss (points) over steps, one line for each method.

    With one seed the raw loss is drawn faintly; with several, the line is the mean and the band reaches from the least to the
    largest running mean. Each family has a panel for each corpus, of its first backbone there.
    """
    panels = [(family, here) for family in _FAMILIES for here in _panels(curves, family)]
    columns = max(2, min(_COLUMNS, len(panels)))
    labels = {curve.method: curve.run.method.label for _, here in panels for curve in here}
    styles = method_styles(labels)
    seeds = len({curve.run.seed for curve in curves})
    rows = -(-len(panels) // columns)
    with drawing(2.6 * columns + 0.5, 2.3 * rows + 1.2 + 0.06 * len(labels), paths) as figure:
        axes = figure.subplots(rows, columns, squeeze=False).flatten()
        for panel in axes[len(panels) :]:
            panel.set_axis_off()
        for place, (panel, (family, here)) in enumerate(zip(axes, panels, strict=False)):
            _draw(panel, here, styles)
            unit = "nats per pair" if family in ("contrastive", "superclass") else "nats per token"
            run = here[0].run
            panel.set_title(f"{_FAMILIES[family]}\n{run.corpus.label}, {run.backbone.label}")
            panel.set_ylabel(unit)
            panel.set_xlabel("step" if place + columns >= len(panels) else "")
            _limit_y(panel, here)
        apart = len({curve.method for curve in curves if curve.family not in ("contrastive", "superclass")}) > 1
        note = "Captioning methods weight tokens differently: their levels do not compare." if apart else ""
        headline(figure, title, note)
        lines = (
            "running mean" if seeds == 1 else f"running mean of {seeds} seeds, in a band from the least to the largest"
        )
        handles = [line_handle(styles[method], labels[method]) for method in styles]
        bottom_legend(
            figure,
            handles,
            f"Lines: {lines}. Points: validation. Of each corpus its first backbone; figure_loss.csv has all.",
        )


def _panels(curves: Sequence[Curve], family: str) -> list[list[Curve]]:
    """The curves of a family's panels: one panel for each corpus, of the first backbone with a method of the family."""
    panels: list[list[Curve]] = []
    for where in dict.fromkeys(run_place(curve.run) for curve in curves):
        here = [curve for curve in curves if run_place(curve.run) == where]
        if here[0].run.corpus in [panel[0].run.corpus for panel in panels]:
            continue
        own = [curve for curve in here if curve.family == family]
        if {curve.method for curve in own} == {_COMMON} and any(curve.family in _VARIANTS for curve in here):
            continue  # it is drawn beside its variants
        common = [curve for curve in here if curve.method == _COMMON and family in _VARIANTS]
        if own:
            panels.append([*own, *common])
    return panels


def _draw(panel: Axes, curves: Sequence[Curve], styles: Mapping[str, tuple[str, str]]) -> None:
    for method in dict.fromkeys(curve.method for curve in curves):
        colour, marker = styles[method]
        group = [curve for curve in curves if curve.method == method]
        smoothed = [
            dict(zip(curve.train, smooth(list(curve.train.values()), len(curve.train) // 15), strict=True))
            for curve in group
        ]
        steps, low, mean, high = _over_seeds(smoothed)
        if len(group) == 1:
            raw = group[0].train
            panel.plot(list(raw), list(raw.values()), color=colour, linewidth=0.8, alpha=0.35)
        else:
            panel.fill_between(steps, low, high, color=colour, alpha=0.2, linewidth=0)
        panel.plot(steps, mean, color=colour, linewidth=1.6)
        if validation := [curve.validation for curve in group if curve.validation]:
            at, _, loss, _ = _over_seeds(validation)
            # the last point is always drawn
            kept = slice((len(at) - 1) % -(-len(at) // _POINTS), None, -(-len(at) // _POINTS))
            panel.plot(at[kept], loss[kept], marker, color=colour, zorder=3, **{**MARKER, "markersize": 4.2})


def _over_seeds(series: Iterable[Mapping[int, float]]) -> tuple[NDArray[np.float64], ...]:
    """Steps (N,), and the least, mean and largest value at each (N,) over the seeds with this step."""
    import pandas as pd

    seeds = pd.DataFrame([pd.Series(losses) for losses in series]).sort_index(axis="columns")
    return (
        np.asarray(seeds.columns, dtype=np.float64),
        *(f.to_numpy() for f in (seeds.min(), seeds.mean(), seeds.max())),
    )


def _limit_y(panel: Axes, curves: Sequence[Curve]) -> None:
    """The vertical range of a panel's losses: every validation loss, and of training losses all but the first steps, which may be
    far above the rest."""
    drawn = np.concatenate([np.asarray(line.get_ydata(), float) for line in panel.get_lines()])
    validation = np.array([loss for curve in curves for loss in curve.validation.values()], dtype=np.float64)
    drawn, validation = (values[np.isfinite(values)] for values in (drawn, validation))
    if not len(drawn):
        return
    low, high = (float(end) for end in (min([drawn.min(), *validation]), max([np.quantile(drawn, 0.995), *validation])))
    margin = 0.06 * (high - low) or 0.5
    panel.set_ylim(low - margin, high + margin)
