"""Figure 4: image-conditioned BERT at fixed mask ratios, against methods that draw the ratio.

A panel for each corpus and probe. The paper only draws its values, so none are shown beside ours.
"""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mdc.plan.jobs.shown import ProbingJob, System
from mdc.report.figures.accuracy_panels import NARROW, WIDTH, AccuracyPanels
from mdc.report.figures.drawing import MARKER, Axes, drawing, line_handle
from mdc.report.frame import Number, write_contrasts, write_levels
from mdc.report.manifests import Manifests
from mdc.report.results import Results

SHOWN = {
    "artefacts": {"figure4": {"title": "Figure 4: mask ratios"}},
    "files": ".png .svg .pdf .csv _contrasts.csv _runs.csv",
    "caption": "Linear-probe accuracy at scale {scale} over the share of a caption that is masked, the same for all captions "
    "(the paper's image-conditioned BERT; at 100 % parallel decoding), against MDC, which draws the share anew; with intervals, "
    "one panel for each corpus.",
    "config": "probe_tables.RatioFigure",
    "plan": "artefact_plans.probing",
    "job": "shown.ProbingJob",
}

_ALL = 100.0  # per cent: every token masked
_EDGE, _APART = 7.0, 5.0  # per cent: from there to the first marker of methods that draw the ratio, and between these


def make(job: ProbingJob, manifests: Manifests, out: Path) -> None:
    """Write the figure, its numbers and its contrasts into ``out``; errors as of Table 1.

    There is no average of several columns: each has panels of its own.
    """
    probing = Results(job, manifests, averages=False)
    ratios = [_ratios(number.system) for number in probing.numbers]
    low, high = [least for least, _ in ratios], [greatest for _, greatest in ratios]
    write_levels(out / "figure4.csv", job, probing.numbers, mask_ratio_low=low, mask_ratio_high=high)
    write_contrasts(out / "figure4_contrasts.csv", job, probing.contrasts())
    draw(probing, [out / f"figure4.{ending}" for ending in ("png", "svg", "pdf")])


def _ratios(system: System) -> tuple[float | None, float | None]:
    """The range of mask ratios in training, in per cent; None if it masks nothing."""
    if system.t_range is None:
        return None, None
    # 0.55 is 55, not 55.00000000000001
    return round(100 * system.t_range[0], 6), round(100 * system.t_range[1], 6)


def _fixed(number: Number) -> float | None:
    """The fixed mask ratio; None if it is drawn, or nothing is masked."""
    low, high = _ratios(number.system)
    return low if low == high else None


def draw(probing: Results, paths: Sequence[Path]) -> None:
    """A panel for each corpus and column; systems without a corpus are a line in each."""
    shown, corpora, columns = AccuracyPanels(probing), probing.corpora, probing.columns
    fixed = sorted({ratio for n in shown.trained if (ratio := _fixed(n)) is not None})
    drawn = list(dict.fromkeys(n.method_key for n in shown.trained if _fixed(n) is None))
    # methods without a fixed ratio, side by side to the right of 100 %
    places = {key: _ALL + _EDGE + i * _APART for i, key in enumerate(drawn)}
    with drawing(WIDTH if len(corpora) > 1 else NARROW, 2.3 * len(columns) + 1.35, paths) as figure:
        axes = figure.subplots(len(columns), len(corpora), squeeze=False, sharex=True, sharey="row")
        for row, name in zip(axes, columns.values(), strict=True):
            for panel, corpus in zip(row, corpora, strict=True):
                here = shown.axis(panel, name, first=panel is row[0])
                _draw_panel(
                    panel, shown, [n for n in here if n.system.corpus and n.system.corpus.key == corpus], places
                )
        for panel, label in zip(axes[0], corpora.values(), strict=True):
            panel.set_title(label)
        ticks = fixed or [0, 25, 50, 75, _ALL]
        for panel in axes[-1]:
            panel.set_xlabel("mask ratio (%)")
            panel.set_xlim(0, _ALL + _EDGE + max(len(drawn) - 0.2, 0.2) * _APART)
            panel.set_xticks(ticks, _tick_labels(ticks, len(corpora)))
        title, note = "Fixed mask ratios against drawn ones,", " Paired differences: figure4_contrasts.csv."
        shown.finish(figure, title, _handles(shown), "Bars and bands:", note)


def _draw_panel(panel: Axes, shown: AccuracyPanels, numbers: Sequence[Number], places: Mapping[str, float]) -> None:
    for number in numbers:
        if _fixed(number) is None:
            _level(panel, number, shown.styles[number.method_key][0])
            shown.point(panel, places[number.method_key], number)
    curve = _curve(numbers)
    if curve:
        # the family has the colour of its middle ratio
        colour, _ = shown.styles[curve[len(curve) // 2].method_key]
        panel.plot([_fixed(n) or 0 for n in curve], [n.value for n in curve], color=colour, linewidth=1.3, zorder=2.5)
    for number in curve:
        shown.point(panel, _fixed(number) or 0, number)


def _level(panel: Axes, number: Number, colour: str) -> None:
    """A method that draws its ratio, or masks nothing: a horizontal line, thick over the ratios that it draws."""
    panel.axhspan(*number.ends, color=colour, alpha=0.13, linewidth=0, zorder=1)
    panel.axhline(number.value, color=colour, linewidth=0.9, zorder=2)
    low, high = _ratios(number.system)
    if low is not None and high is not None:
        panel.plot([low, high], [number.value] * 2, color=colour, linewidth=2.6, zorder=2, solid_capstyle="butt")


def _curve(numbers: Sequence[Number]) -> list[Number]:
    return sorted((n for n in numbers if _fixed(n) is not None), key=lambda n: _fixed(n) or 0)


def _tick_labels(ticks: Sequence[float], panels: int) -> list[str]:
    """Labels that would touch the next one are empty (with three panels or more 90, next to 100)."""
    least, next_, labels = 12 if panels > 2 else 8, math.inf, []
    for tick in reversed(ticks):
        fits = next_ - tick >= least
        labels.append(f"{tick:g}" if fits else "")
        next_ = tick if fits else next_
    return labels[::-1]


def _handles(shown: AccuracyPanels) -> list[Any]:
    """The legend's entries: fixed ratios below 100 % as one, then every other method."""
    styles, by_method = shown.styles, list({n.method_key: n for n in shown.trained}.values())
    part = [n for n in _curve(by_method) if _fixed(n) != _ALL]
    family = part if len(part) > 1 else []
    handles: list[Any] = []
    if family:
        ends = family[0], family[-1]
        label = " to ".join(n.system.method.label for n in ends)
        handles.append(tuple(line_handle(styles[n.method_key], label, "none", **MARKER) for n in ends))
    for number in sorted((n for n in by_method if n not in family), key=lambda n: _fixed(n) is None):
        label, (low, high) = number.system.method.label, _ratios(number.system)
        if low is not None and low != high:
            label += f" (drawn from {low:.0f} to {high:.0f} %)"
        line = {"linewidth": 1.3 if _fixed(number) is None else 0}
        handles.append(line_handle(styles[number.method_key], label, **line, **MARKER))
    return handles
