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
from mdc.report.figures.accuracy_panels import NARROW, WIDTH, AccuracyPanels, count_words
from mdc.report.figures.drawing import drawing
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
    shown, across = AccuracyPanels(sizes, numbers), min(2, len(sizes.columns))
    rows = math.ceil(len(sizes.columns) / across)
    with drawing(WIDTH if across > 1 else NARROW, 2.75 * rows + 1.35, paths) as figure:
        axes = figure.subplots(rows, across, squeeze=False).ravel()
        for panel, name in zip(axes, sizes.columns.values(), strict=False):
            here = shown.axis(panel, name)
            lines = [trend for trend in trends if trend.line.label == name]
            _one(panel, shown, here, lines)
            panel.set_title(slope_words(lines), fontsize=8)
            _pairs_axis(panel, sizes, [n.system for n in here])
        for panel in axes[len(sizes.columns) :]:
            panel.set_visible(False)
        note = " Lines: least squares over log₂(pairs)."
        shown.finish(figure, "Pairs trained on,", shown.handles(1.4), "Bars and brackets:", note)


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


def _one(panel: Axes, panels: AccuracyPanels, numbers: Sequence[Number], trends: Sequence[Trend]) -> None:
    methods = list(dict.fromkeys(n.method_key for n in numbers))
    shown = [n.pairs for n in numbers if n.pairs]
    span = max(shown) / min(shown)
    for trend in trends:
        ends = min(trend.pairs), max(trend.pairs)
        panel.plot(
            ends, [trend.at(p) for p in ends], color=panels.styles[trend.system.method.key][0], linewidth=1.4, zorder=2
        )
    for number in numbers:
        place = methods.index(number.method_key) - (len(methods) - 1) / 2
        panels.point(panel, (number.pairs or 1) * span ** (place * _DODGE), number)


def slope_words(trends: Sequence[Trend]) -> str:
    """The slopes as a panel's heading shows them."""
    each = [f"{t.system.method.label}: {words.shown(t.line.found, 2)}" for t in trends]
    unit = "points per doubling of the pairs"
    return "\n".join([unit, *each] if each else [])  # below one another: a panel may be narrow


def _range_words(counts: Sequence[int]) -> str:
    """One count where all are told alike."""
    return " to ".join(dict.fromkeys(count_words(count) for count in sorted(counts)[:: max(1, len(counts) - 1)]))
