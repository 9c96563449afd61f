"""Figure 5: probe accuracy over the number of pairs trained on, with the trend as points per doubling.

The corpora are nested samples of one source, and the number of pairs is the one that each really had. Epochs stay the
same, so samples seen grow with the pairs; both are told. The paper draws its values and prints none.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mdc.plan.jobs.shown import ProbingJob, System
from mdc.report import words
from mdc.report.figures.accuracy_panels import (
    MARKER,
    NARROW,
    WIDTH,
    accuracy_axis,
    bottom_legend,
    count_words,
    point,
    untrained_handles,
)
from mdc.report.figures.drawing import drawing, headline, line_handle
from mdc.report.figures.styles import method_styles
from mdc.report.figures.trends import Sizes, Trend
from mdc.report.frame import Number, write_contrasts, write_levels
from mdc.report.given import Given

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SHOWN = {
    "artefacts": {"figure5": {"title": "Figure 5: numbers of pairs"}},
    "files": ".png .svg .pdf .csv _contrasts.csv",
    "caption": "Linear-probe accuracy at scale {scale} over the number of pairs of nested corpora, with intervals, and the "
    "points that a doubling adds. Each corpus is trained on for the same number of epochs, so samples seen grow with the pairs, "
    "and the warm-up takes a larger share of a smaller corpus's steps: the trend is of all three together, as in the paper.",
    "config": "tables.PairsFigure",
    "plan": "artefact_plans.probing",
    "job": "shown.ProbingJob",
}

_DODGE = 0.016  # of the axis: how far methods stand apart, so that their intervals can be told


def make(job: ProbingJob, given: Given, out: Path) -> None:
    """Write the figure, its numbers and its trends into ``out``; errors as of Table 1.

    UserError besides if there are fewer than two corpora, a record does not tell its pairs, the runs of a corpus
    tell different ones, or two corpora the same.
    """
    sizes = Sizes(job, given)
    numbers, trends = sizes.numbers(), sizes.trends()
    seen = [sizes.training(number.system, "samples_seen") for number in numbers]
    write_levels(out / "figure5.csv", numbers, samples_seen=seen)
    write_contrasts(
        out / "figure5_contrasts.csv",
        [trend.line for trend in trends],
        intercept=[trend.intercept for trend in trends],
        residual_sd=[trend.residual_sd for trend in trends],
    )
    draw(sizes, numbers, trends, [out / f"figure5.{ending}" for ending in ("png", "svg", "pdf")])


def draw(sizes: Sizes, numbers: Sequence[Number], trends: Sequence[Trend], paths: Sequence[Path]) -> None:
    """A panel for each column: every method over the pairs with its line; what was trained on no corpus is a line across."""
    shown = min(2, len(sizes.columns))
    rows = math.ceil(len(sizes.columns) / shown)
    trained = [n for n in numbers if n.system.corpus]
    controls = [n for n in numbers if not n.system.corpus]
    styles = method_styles(n.method_key for n in trained)
    near: list[Number] = []
    with drawing(WIDTH if shown > 1 else NARROW, 2.75 * rows + 1.35, paths) as figure:
        axes = figure.subplots(rows, shown, squeeze=False).ravel()
        for panel, (column, name) in zip(axes, sizes.columns.items(), strict=False):
            here = [n for n in trained if n.label == name]
            lines = [t for t in trends if t.line.label == name]
            near += accuracy_axis(panel, here, [n for n in controls if n.label == name])
            _one(panel, here, lines, styles)
            panel.set_title(slope_words(lines), fontsize=8)
            _pairs_axis(panel, sizes, [n.system for n in here])
            panel.set_ylabel(f"{name}, {sizes.metric[column]} (%)")
        for panel in axes[len(sizes.columns) :]:
            panel.set_visible(False)
        headline(figure, f"Pairs trained on, linear probing of {', '.join(sizes.backbones)}, {sizes.scale_text}")
        methods = {n.method_key: n.system.method.label for n in trained}
        entries = [line_handle(styles[key], label, linewidth=1.4, **MARKER) for key, label in methods.items()]
        note = words.intervals(sizes.levels.values(), sizes.job.seeds, "Bars and brackets:")
        bottom_legend(
            figure, [*entries, *untrained_handles(controls, near)], f"{note} Lines: least squares over log₂(pairs)."
        )


def _pairs_axis(panel: Axes, sizes: Sizes, systems: Sequence[System]) -> None:
    """Pairs on a logarithmic scale, a tick at each corpus's count, below it the samples seen."""
    from matplotlib.ticker import NullLocator

    pairs = sorted(sizes.sizes.values())
    told = [(sizes.pairs(system), sizes.training(system, "samples_seen")) for system in systems]
    seen = {count: [samples for size, samples in told if size == count and samples] for count in pairs}
    panel.set_xscale("log", base=2)
    panel.xaxis.set_minor_locator(NullLocator())
    panel.set_xticks(pairs, [f"{count_words(p)}\n{_range_words(seen[p])}" for p in pairs], fontsize=8)
    reach = (pairs[-1] / pairs[0]) ** 0.09
    panel.set_xlim(pairs[0] / reach, pairs[-1] * reach)
    panel.set_xlabel("image–caption pairs\n(below: samples seen in training)")


def _one(panel: Axes, numbers: Sequence[Number], trends: Sequence[Trend], styles: dict[str, tuple[str, str]]) -> None:
    methods = list(dict.fromkeys(n.method_key for n in numbers))
    shown = [n.pairs for n in numbers if n.pairs]
    span = max(shown) / min(shown)
    for trend in trends:
        ends = min(trend.pairs), max(trend.pairs)
        panel.plot(ends, [trend.at(p) for p in ends], color=styles[trend.system.method.key][0], linewidth=1.4, zorder=2)
    for number in numbers:
        place = methods.index(number.method_key) - (len(methods) - 1) / 2
        point(panel, (number.pairs or 1) * span ** (place * _DODGE), number, styles[number.method_key])


def slope_words(trends: Sequence[Trend]) -> str:
    """The slopes as a panel's heading shows them."""
    each = [f"{t.system.method.label}: {words.shown(t.line.found, 2)}" for t in trends]
    unit = "points per doubling of the pairs"
    return "\n".join([unit, *each] if each else [])  # below one another: a panel may be narrow


def _range_words(counts: Sequence[int]) -> str:
    """One count where all are told alike."""
    return " to ".join(dict.fromkeys(count_words(count) for count in sorted(counts)[:: max(1, len(counts) - 1)]))
