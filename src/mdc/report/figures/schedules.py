"""The figure of the noise schedules: training stability with each range of t.

The paper leaves out small t because "loss is very unstable when pretrained on CC3M, where many captions are very short"
(its section on the noise schedule, Table 5). Here that is a number with an interval: see :mod:`mdc.report.statistics.steadiness`.

A log contains times, so no record can name it by hash; ``figure_schedules_curves.csv`` has every number read from the logs.
"""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mdc.plan.jobs.shown import SchedulesJob, ShownRun
from mdc.report import words
from mdc.report.claimed import claimed
from mdc.report.csv_file import names, write_csv
from mdc.report.figures.drawing import (
    MARKER,
    Axes,
    bottom_legend,
    drawing,
    error_bars,
    headline,
    line_handle,
    plain_logarithm,
    rows_axis,
    write_logs,
)
from mdc.report.figures.schedule_lines import LOSS, NORM, SPIKE, STATISTICS, Line, Track, measure, place_name, places
from mdc.report.figures.styles import method_styles
from mdc.report.frame import ESTIMATE, estimate_cells, write_contrasts
from mdc.report.manifests import Manifests, run_key, run_place
from mdc.report.statistics import steadiness

SHOWN = {
    "artefacts": {"figure_schedules": {"title": "Figure: steadiness of the noise schedules"}},
    "files": ".png .svg .csv _contrasts.csv _curves.csv",
    "caption": "How steadily the runs of Table 5 train at scale {scale}: loss and gradient norm (before clipping) over steps, "
    "and how much each varies around its trend after warm-up, one noise schedule beside the other.",
    "config": "tables.ScheduleFigure",
    "plan": "artefact_plans.schedules",
    "job": "shown.SchedulesJob",
}


_LEVELS = (
    *names("scale artefact system dataset backbone method t_low t_high column label unit logged_steps expected"),
    *ESTIMATE,
)
_MARKERS = 6  # of each line of a curve
_DARK, _GREY = "#333333", "#777777"
#: what is drawn: statistic -> label of its axis, factor from the number to that label's unit
_PANELS = {
    LOSS: ("loss: variation from step to step, % of its level", 100),
    NORM: ("gradient norm: variation, % of its level", 100),
    SPIKE: ("largest gradient norm, multiple of its running median", 1),
}
Styles = Mapping[str, tuple[str, str]]


def make(job: SchedulesJob, manifests: Manifests, out: Path) -> None:
    """Write the figure, its numbers and the logged curves into ``out``.

    UserError if a run's manifest or log does not serve, or its runs cannot be compared (see :func:`measure`).
    """
    tracks = [Track.of(run, job, manifests) for run in job.runs]
    lines = measure(tracks, job)
    write_csv(out / "figure_schedules.csv", levels(lines, job), _LEVELS)
    write_contrasts(out / "figure_schedules_contrasts.csv", job, [line.ratio for line in lines if line.ratio])
    logs = ((track.run, {"step": track.steps, "loss": track.loss, "grad_norm": track.norm}) for track in tracks)
    write_logs(out / "figure_schedules_curves.csv", job, logs)
    _draw(tracks, lines, job, [out / "figure_schedules.png", out / "figure_schedules.svg"])


def levels(lines: Sequence[Line], job: SchedulesJob) -> list[dict[str, Any]]:
    """The rows of ``figure_schedules.csv``: one for each number. ``expected``: from the draw of t and masks alone."""
    rows = []
    for line in lines:
        run, (low, high) = line.run, line.run.t_range or (None, None)
        labels = job.scale, job.artefact, run_key(run), run.corpus.label, run.backbone.label, run.method.label
        numbers = low, high, line.statistic, *STATISTICS[line.statistic], line.logged_steps, line.expected
        cells = dict(zip(_LEVELS, (*labels, *numbers), strict=False))
        rows.append({**cells, **estimate_cells(line.value)})
    return rows


# --- words --------------------------------------------------------------------------------------------------------------


def _range_of(run: ShownRun) -> str:
    """[low, high] of t, which no line end breaks; the method's name if it has none."""
    return run.method.label if run.t_range is None else f"[{run.t_range[0]},\u00a0{run.t_range[1]}]"


def _name_of(run: ShownRun) -> str:
    """A method's label, always with its range of t."""
    t_range = "" if run.t_range is None else f"[{run.t_range[0]}, {run.t_range[1]}]"
    return run.method.label if t_range in run.method.label else f"{run.method.label} {t_range}"


def _times(line: Line) -> str:
    """A ratio with its interval; its spaces do not break."""
    if line.ratio is None:
        return "reference"
    times = steadiness.factors(line.ratio.estimate)
    interval = "" if times.low is None or times.high is None else f" [{times.low:.2f}, {times.high:.2f}]"
    return f"{times.value:.2f}×{interval}".replace(" ", "\u00a0")


def _note(lines: Sequence[Line], job: SchedulesJob, seeds: int) -> str:
    statistics, level = job.statistics, words.percent(lines[0].value.level)
    ratios = [line.ratio for line in lines if line.ratio is not None and line.ratio.decision is not None]
    claims = [claimed(ratio.cells()) for ratio in ratios]
    notes = [f"{claim.comparison}: {claim.difference}, {claim.verdict}." for claim in claims]
    if claims:
        notes.append(
            "Claim: the schedule's loss and gradient norm vary more than the reference's; supported or reversed where p is "
            f"below {1 - statistics.level:.2g}. " + words.correction(statistics, ratios)
        )
    if seeds >= steadiness.SEEDS:
        notes.append(f"{level} intervals over {seeds} seeds, paired by seed.")
    else:
        alone = "this run" if seeds == 1 else "these two runs"
        resampled = f"{level} intervals from the logged steps ({statistics.bootstrap:,} moving-block resamples)"
        notes.append(f"{resampled}: they apply to {alone} of each schedule only.")
    return " ".join(notes)


# --- the picture --------------------------------------------------------------------------------------------------------


def _draw(tracks: Sequence[Track], lines: Sequence[Line], job: SchedulesJob, paths: Sequence[Path]) -> None:
    """Loss and gradient norm over steps on the left, their variation on the right; a row for each corpus and backbone."""
    by_place = places(tracks)
    runs = {track.method: track.run for track in tracks}
    styles = method_styles(runs)
    seeds = len({track.run.seed for track in tracks})
    note = _note(lines, job, seeds)
    # three panels of dots share the height of two of curves
    height = max(4.4, 3 * (0.24 * len(runs) + 0.62))
    with drawing(10.6, height * len(by_place) + 0.75 + 0.0013 * len(note), paths) as figure:
        halves = figure.subfigures(len(by_place), 2, squeeze=False, width_ratios=[1.45, 1])
        for (left, right), (place, here) in zip(halves, by_place.items(), strict=True):
            _curves(left.subplots(2, 1), here, styles)
            for panel, statistic in zip(right.subplots(len(_PANELS), 1), _PANELS, strict=True):
                own = [line for line in lines if (run_place(line.run), line.statistic) == (place, statistic)]
                _dots(panel, own, styles, *_PANELS[statistic])
        headline(figure, f"Training stability of the noise schedules, scale {job.scale_label}")
        label = (
            "running median; faint: as logged" if seeds == 1 else "running median of the seeds' mean; faint: each run"
        )
        handles = [line_handle(styles[method], _name_of(run)) for method, run in runs.items()]
        handles.append(line_handle((_GREY, ""), label, linewidth=1.8))
        if any(line.expected is not None for line in lines):
            label = "expected from the draw of t and masks alone, if every token cost the same"
            handles.append(line_handle((_DARK, "|"), label, "none"))
        bottom_legend(figure, handles, note)


def _curves(panels: Sequence[Axes], here: Sequence[Track], styles: Styles) -> None:
    """Each run faint, the running median of the seeds' mean bold; the warm-up, which is not counted, grey."""
    methods = list(dict.fromkeys(track.method for track in here))
    alpha = 0.45 / math.sqrt(len(here) / len(methods))
    warmup, steps = max(track.run.warmup_steps for track in here), here[0].steps
    for panel, key in zip(panels, ("loss", "norm"), strict=True):
        panel.axvspan(0, warmup, color="#8A8A8A", alpha=0.13, linewidth=0, zorder=0)
        for number, method in enumerate(methods):
            runs = [getattr(track, key) for track in here if track.method == method]
            for series in runs:
                panel.plot(steps, series, color=styles[method][0], linewidth=0.7, alpha=alpha)
            mean = np.mean(runs, axis=0)
            bold = steadiness.level(mean, max(steadiness.LEVEL_WINDOW, len(mean) // 15))
            # a few markers, shifted between methods, distinguish the lines without colour
            every = max(1, len(bold) // _MARKERS)
            at = slice(every * number // len(methods), None, every)
            colour, marker = styles[method]
            panel.plot(steps, bold, color=colour, linewidth=1.8, zorder=3)
            panel.plot(steps[at], bold[at], color=colour, marker=marker, linestyle="none", zorder=4, **MARKER)
        panel.set_yscale("log")
        plain_logarithm(panel.yaxis)
        panel.set_xlim(0, max(steps))
    loss, norm = panels
    loss.set_title(place_name(here[0].run))
    loss.set_ylabel("loss, nats per token")
    loss.tick_params(labelbottom=False)
    norm.set_ylabel("gradient norm before clipping")
    norm.set_xlabel("step (grey: warm-up, not counted)")
    limits = {track.run.clip_norm for track in here}
    if len(limits) == 1 and (limit := limits.pop()) is not None:
        norm.axhline(limit, color=_DARK, linewidth=0.9, linestyle=(0, (4, 2)))
        ground = {"facecolor": "white", "edgecolor": "none", "alpha": 0.85, "pad": 0.8}
        style: dict[str, Any] = {"ha": "right", "bbox": ground, "zorder": 5, "fontsize": 7.5, "color": _DARK}
        place: dict[str, Any] = {
            "xycoords": ("axes fraction", "data"),
            "xytext": (-3, 2),
            "textcoords": "offset points",
        }
        norm.annotate(f"clipped to {limit:g}", (1, limit), **place, **style)


def _dots(panel: Axes, lines: Sequence[Line], styles: Styles, label: str, factor: float) -> None:
    reached: list[float] = []
    for place, line in enumerate(lines):
        low, high = line.value.ends
        number = line.value.value * factor, low * factor, high * factor
        error_bars(panel, [place], [number], styles[line.run.method.key], across=True, markersize=5.5)
        reached += number
        panel.annotate(_times(line), (1.02, place), xycoords=("axes fraction", "data"), va="center", fontsize=7.5)
        if line.expected:
            panel.plot([line.expected * factor], [place], color=_DARK, marker="|", markersize=11, linestyle="none")
            reached.append(line.expected * factor)
    panel.set_xscale("log")
    middle = math.sqrt(min(reached) * max(reached))
    # at least a factor of four, so that ticks are seen and small differences look small
    span = max(max(reached) / min(reached) * 1.25, 4)
    panel.set_xlim(middle / math.sqrt(span), middle * math.sqrt(span))
    plain_logarithm(panel.xaxis)
    rows_axis(panel, [_range_of(line.run) for line in lines])
    panel.set_title(label, fontsize=8.5)
