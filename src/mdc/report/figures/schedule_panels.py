"""The drawing of the noise schedules: their curves, and what each varies by."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mdc.plan.jobs.shown import SchedulesJob, ShownRun
from mdc.report import words
from mdc.report.figures.accuracy_panels import bottom_legend, marked
from mdc.report.figures.drawing import drawing, error_bars, headline, line_handle, plain_logarithm
from mdc.report.figures.schedule_lines import LOSS, NORM, SPIKE, Line, Track, place_name, places
from mdc.report.figures.styles import method_styles
from mdc.report.statistics import steadiness

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MARKERS = 6  # of each line of a curve
_EXPECTED = "#333333"
#: what is drawn: statistic -> label of its axis, factor from the number to that label's unit
_PANELS = {
    LOSS: ("loss: variation from step to step, % of its level", 100),
    NORM: ("gradient norm: variation, % of its level", 100),
    SPIKE: ("largest gradient norm, multiple of its running median", 1),
}
Styles = Mapping[str, tuple[str, str]]


def range_of(run: ShownRun) -> str:
    """[low, high] of t, which no line end breaks; the method's name if it has none."""
    return run.method.label if run.t_range is None else f"[{run.t_range[0]},\u00a0{run.t_range[1]}]"


def name_of(run: ShownRun) -> str:
    """A method as people call it, always with its range of t."""
    told = "" if run.t_range is None else f"[{run.t_range[0]}, {run.t_range[1]}]"
    return run.method.label if told in run.method.label else f"{run.method.label} {told}"


def findings(lines: Sequence[Line], job: SchedulesJob) -> list[str]:
    """What was found, a sentence for each corpus and backbone: the first schedule against the reference.

    It is the first that is told, not the one with the largest ratio, which would be picked by its number.
    """
    told = []
    for place in dict.fromkeys(line.place for line in lines):
        here = [line for line in lines if line.place == place]
        reference = next(line.run for line in here if line.run.method.key == job.reference)
        first = {line.statistic: line for line in here if line.run.method == _first(here, job)}
        if first:
            told.append(
                f"{place_name(reference)}: with t in {range_of(first[LOSS].run)} the loss varies {_times(first[LOSS])} as "
                f"much as with {range_of(reference)}{_verdict(first[LOSS])}, the gradient norm {_times(first[NORM])}"
                f"{_verdict(first[NORM])}."
            )
    return told


def _first(here: Sequence[Line], job: SchedulesJob) -> Any:
    return next((line.run.method for line in here if line.run.method.key != job.reference), None)


def _verdict(line: Line) -> str:
    """A primary comparison's direction; of an inconclusive one with the minimum detectable ratio."""
    if line.decision is None:
        return ""
    assert line.ratio is not None
    said = [words.direction(line.decision, line.ratio)]
    if line.detectable is not None:
        said.append(f"minimum detectable {line.detectable:.2f}×")
    elif line.decision.p_holm is not None:
        said.append(f"p {words.p_value(line.decision.p_holm)}")
    return f": {', '.join(said)}"


def _times(line: Line) -> str:
    """A ratio with its interval; its spaces do not break."""
    if line.ratio is None:
        return "reference"
    value, low, high = steadiness.factors(line.ratio)
    interval = "" if low is None or high is None else f" [{low:.2f}, {high:.2f}]"
    return f"{value:.2f}×{interval}".replace(" ", "\u00a0")


def _notes(lines: Sequence[Line], job: SchedulesJob, seeds: int) -> list[str]:
    """What stands below the title."""
    decided = [line for line in lines if line.decision is not None]
    level = words.percent(lines[0].value.level)
    alone = "this run" if seeds == 1 else "these two runs"
    notes = findings(lines, job)
    if decided:
        notes.append(
            f"Claim: the schedule's loss and gradient norm vary more than the reference's; supported or reversed where p is "
            f"below {1 - job.statistics.level:.2g}. {words.correction(len(decided), job.statistics.order)}"
        )
    notes.append(
        f"{level} intervals over {seeds} seeds, paired by seed."
        if seeds >= 3
        else f"{level} intervals from the logged steps ({job.statistics.bootstrap:,} moving-block resamples): they speak of "
        f"{alone} of each schedule only."
    )
    return notes


def draw(tracks: Sequence[Track], lines: Sequence[Line], job: SchedulesJob, paths: Sequence[str | Path]) -> None:
    """Loss and gradient norm over steps on the left, what they vary by on the right; a band for each corpus and backbone.

    ``paths`` end in png, svg or pdf; ``lines`` are those of :func:`mdc.report.figures.schedule_lines.measure` for these
    ``tracks``.
    """
    by_place = places(tracks)
    runs = {track.method: track.run for track in tracks}
    styles = method_styles(runs)
    seeds = len({track.run.seed for track in tracks})
    width = 10.6
    said = " ".join(_notes(lines, job, seeds))
    # three panels of dots share the height of two of curves
    height = max(4.4, 3 * (0.24 * len(runs) + 0.62))
    with drawing(width, height * len(by_place) + 0.75 + 0.0013 * len(said), paths) as figure:
        halves = figure.subfigures(len(by_place), 2, squeeze=False, width_ratios=[1.45, 1])
        for (left, right), (place, here) in zip(halves, by_place.items(), strict=True):
            _curves(left.subplots(2, 1), here, styles)
            for panel, statistic in zip(right.subplots(len(_PANELS), 1), _PANELS, strict=True):
                own = [line for line in lines if (line.place, line.statistic) == (place, statistic)]
                _dots(panel, own, styles, _PANELS[statistic])
        headline(figure, f"Training stability of the noise schedules, scale {job.scale_label}")
        handles = _handles(runs, styles, seeds, any(line.expected is not None for line in lines))
        bottom_legend(figure, [(handle, str(handle.get_label())) for handle in handles], said)


def _curves(
    panels: Sequence[Axes],
    here: Sequence[Track],
    styles: Styles,
) -> None:
    """Each run faint, the running median of the seeds' mean bold; grey where the warm-up is not counted."""
    methods = list(dict.fromkeys(track.method for track in here))
    seeds = len(here) / len(methods)
    warmup = max(track.run.warmup_steps for track in here)
    for panel, values, label in (
        (panels[0], "loss", "loss, nats per token"),
        (panels[1], "norm", "gradient norm before clipping"),
    ):
        panel.axvspan(0, warmup, color="#8A8A8A", alpha=0.13, linewidth=0, zorder=0)
        for method in methods:
            runs = [track for track in here if track.method == method]
            for track in runs:
                series = np.asarray(getattr(track, values))
                alpha = 0.45 / math.sqrt(seeds)
                panel.plot(track.steps, series, color=styles[method][0], linewidth=0.7, alpha=alpha)
            mean = np.mean([getattr(track, values) for track in runs], axis=0)
            bold = steadiness.level(mean, max(steadiness.LEVEL_WINDOW, len(mean) // 15))
            # a few markers, each method's between the others', tell the lines apart without their colour
            every = max(1, len(bold) // _MARKERS)
            first = every * methods.index(method) // len(methods)
            at = slice(first, None, every)
            panel.plot(runs[0].steps, bold, color=styles[method][0], linewidth=1.8, zorder=3)
            panel.plot(runs[0].steps[at], bold[at], **marked(*styles[method]), linestyle="none", zorder=4)
        panel.set_yscale("log")
        plain_logarithm(panel.yaxis)
        panel.set_ylabel(label)
        panel.set_xlim(0, max(here[0].steps))
    panels[0].set_title(place_name(here[0].run))
    panels[0].tick_params(labelbottom=False)
    panels[1].set_xlabel("step (grey: warm-up, not counted)")
    limits = {track.run.clip_norm for track in here}
    limit = next(iter(limits))
    if len(limits) == 1 and limit is not None:
        panels[1].axhline(limit, color="#333333", linewidth=0.9, linestyle=(0, (4, 2)))
        panels[1].annotate(
            f"clipped to {limit:g}",
            (1, limit),
            xycoords=("axes fraction", "data"),
            xytext=(-3, 2),
            textcoords="offset points",
            ha="right",
            bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.85, "pad": 0.8},
            zorder=5,
            fontsize=7.5,
            color="#333333",
        )


def _dots(panel: Axes, lines: Sequence[Line], styles: Styles, quantity: tuple[str, float]) -> None:
    label, factor = quantity
    reached: list[float] = []
    for place, line in enumerate(lines):
        value = line.value
        low, high = value.ends
        number = value.value * factor, low * factor, high * factor
        error_bars(panel, [place], [number], styles[line.run.method.key], across=True, markersize=5.5)
        reached += number
        panel.annotate(_times(line), (1.02, place), xycoords=("axes fraction", "data"), va="center", fontsize=7.5)
        if line.expected:
            panel.plot([line.expected * factor], [place], color=_EXPECTED, marker="|", markersize=11, linestyle="none")
            reached.append(line.expected * factor)
    panel.set_xscale("log")
    middle = math.sqrt(min(reached) * max(reached))
    # at least a factor of four, so that ticks are seen and small differences look small
    span = max(max(reached) / min(reached) * 1.25, 4)
    panel.set_xlim(middle / math.sqrt(span), middle * math.sqrt(span))
    plain_logarithm(panel.xaxis)
    panel.set_yticks(range(len(lines)), [range_of(line.run) for line in lines])
    panel.tick_params(axis="y", length=0)
    panel.grid(axis="y", visible=False)
    panel.set_ylim(len(lines) - 0.5, -0.5)
    panel.set_title(label, fontsize=8.5)


def _handles(runs: Mapping[str, ShownRun], styles: Styles, seeds: int, expected: bool) -> list[Any]:
    from matplotlib.lines import Line2D

    handles = [line_handle(styles[method], name_of(run)) for method, run in runs.items()]
    told = "running median; faint: as logged" if seeds == 1 else "running median of the seeds' mean; faint: each run"
    handles.append(Line2D([], [], color="#777777", linewidth=1.8, label=told))
    if expected:
        told = "expected from the draw of t and masks alone, if every token cost the same"
        handles.append(line_handle((_EXPECTED, "|"), told, "none"))
    return handles
