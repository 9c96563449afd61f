"""Figure 5: probe accuracy over the number of training pairs, with the trend in points per doubling.

The corpora are nested samples of one source, with their actual numbers of pairs. Epochs stay the same, so samples seen grow with
the pairs; the figure shows both. The paper only draws its values.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mdc.plan.jobs.shown import Labelled, ProbingJob, System
from mdc.plan.records import UserError
from mdc.report import words
from mdc.report.figures.accuracy_panels import NARROW, WIDTH, AccuracyPanels, count_words
from mdc.report.figures.drawing import Axes, drawing
from mdc.report.frame import Contrast, Number, Side, decided, write_contrasts, write_levels
from mdc.report.manifests import Manifests
from mdc.report.results import Results
from mdc.report.statistics.claims import Claim, claim
from mdc.report.statistics.estimate import estimate
from mdc.report.statistics.replicates import Replicates

SHOWN = {
    "artefacts": {"figure5": {"title": "Figure 5: numbers of pairs"}},
    "files": ".png .svg .pdf .csv _contrasts.csv _runs.csv",
    "caption": "Linear-probe accuracy at scale {scale} over the number of pairs of nested corpora, with intervals, and the "
    "points that a doubling adds. Each corpus is trained on for the same number of epochs, so samples seen grow with the pairs, "
    "and the warm-up takes a larger share of a smaller corpus's steps: the trend is of all three together, as in the paper.",
    "config": "probe_tables.PairsFigure",
    "plan": "artefact_plans.probing",
    "job": "shown.ProbingJob",
}

_DODGE = 0.016  # horizontal shift between methods, as a share of the axis, so that their intervals do not overlap


@dataclass(frozen=True)
class Trend:
    """Accuracy = ``intercept`` + slope · log2(pairs), least squares, in per cent. ``line``: its slope, in points per doubling
    of the ``pairs``. The claim is that accuracy rises; its margin is the metric's margin for the whole rise, from the smallest
    corpus to the largest, per doubling. ``system``: the first of the line."""

    system: System
    line: Contrast
    pairs: Sequence[int]
    intercept: float

    def at(self, pairs: float) -> float:
        """The line's value at so many pairs, in per cent."""
        return self.intercept + self.line.estimate.value * math.log2(pairs)


class Sizes(Results):
    """The systems by their corpora's numbers of pairs."""

    job: ProbingJob

    def __init__(self, job: ProbingJob, manifests: Manifests) -> None:
        super().__init__(job, manifests, averages=False)
        if len(self.corpora) < 2:
            raise UserError(f"{self.title}: a trend needs two corpora or more")
        self.sizes = {corpus: self.training_of_corpus(corpus, "pairs", "pairs") for corpus in self.corpora}
        by_size: dict[int, str] = {}
        for corpus, pairs in self.sizes.items():
            if (first := by_size.setdefault(pairs, corpus)) != corpus:
                raise UserError(f"{self.title}: {first} and {corpus} both had {pairs:,} pairs; drop one of them")

    def pairs(self, system: System) -> int:
        """Of its corpus."""
        return self.sizes[system.corpus.key] if system.corpus else 0

    def trends(self) -> list[Trend]:
        """One trend for each method with two corpora or more and each column; those that the job names are decided."""
        groups: dict[tuple[Labelled, Labelled, str], list[System]] = {}
        for system in (system for system in self.job.systems if system.corpus):
            groups.setdefault((system.backbone, system.method, system.estimator), []).append(system)
        lines = [(group, column) for group in groups.values() if len(group) > 1 for column in self.columns]
        trends = [self._trend(*line) for line in lines]
        with_claims = decided(
            [trend.line for trend in trends], [self._claim(*line) for line in lines], self.job.statistics
        )
        return [replace(trend, line=line) for trend, line in zip(trends, with_claims, strict=True)]

    def _claim(self, systems: Sequence[System], column: str) -> Claim | None:
        """Its margin is the metric's margin for the whole rise, per doubling."""
        if column != self.primary_measure or systems[0].method.key not in self.job.trends:
            return None
        margin = self.margin((systems[0].key, systems[-1].key), column)
        pairs = [self.pairs(system) for system in systems]
        if isinstance(margin, float):
            margin /= math.log2(max(pairs) / min(pairs))
        return claim(self._slope(systems, column), margin, self.job.statistics.level)

    def _weights(self, systems: Sequence[System]) -> NDArray[np.float64]:
        """The weights of the K values in the slope and the intercept of their least-squares line, (2, K)."""
        return np.linalg.pinv(np.vander(np.log2([self.pairs(system) for system in systems]), 2))

    def _slope(self, systems: Sequence[System], column: str) -> Replicates:
        if not all(
            self.items[systems[0].key, column][0].same_items(self.items[system.key, column][0]) for system in systems
        ):
            raise UserError(
                f"{self.title}: trend of {systems[0].method.label}: not tested on the same items; probe again"
            )
        first, *others = (self.replicates[system.key, column] for system in systems)
        weights = self._weights(systems)[0]
        return first.of(lambda *values: np.tensordot(weights, np.broadcast_arrays(*values), 1), *others)

    def _trend(self, systems: Sequence[System], column: str) -> Trend:
        first, pairs = systems[0], [self.pairs(system) for system in systems]
        levels = np.array([self.levels[system.key, column].value for system in systems])
        intercept = self._weights(systems)[1] @ levels
        line = Contrast(
            kind="slope",
            first=Side(first.method.key, "", first.backbone.label, first.method.label),
            second=None,
            column=column,
            label=self.name(column),
            metric=self.metric[column],
            unit="points per doubling",
            estimate=estimate(self._slope(systems, column), self.job.statistics.level, contrast=True),
        )
        return Trend(first, line, pairs, float(intercept))


def make(job: ProbingJob, manifests: Manifests, out: Path) -> None:
    """Write the figure, its numbers and its trends into ``out``; errors as of Table 1.

    UserError besides for fewer than two corpora, a record without its number of pairs, runs of a corpus with different numbers,
    or two corpora with the same.
    """
    sizes = Sizes(job, manifests)
    trends = sizes.trends()
    seen = [sizes.training(number.system, "samples_seen") for number in sizes.numbers]
    write_levels(out / "figure5.csv", job, sizes.numbers, samples_seen=seen)
    write_contrasts(
        out / "figure5_contrasts.csv",
        job,
        [trend.line for trend in trends],
        intercept=[trend.intercept for trend in trends],
    )
    draw(sizes, trends, [out / f"figure5.{ending}" for ending in ("png", "svg", "pdf")])


def draw(sizes: Sizes, trends: Sequence[Trend], paths: Sequence[Path]) -> None:
    """A panel for each column: every method over the pairs with its trend; systems without a corpus are a horizontal line."""
    shown, across = AccuracyPanels(sizes), min(2, len(sizes.columns))
    rows = math.ceil(len(sizes.columns) / across)
    with drawing(WIDTH if across > 1 else NARROW, 2.75 * rows + 1.35, paths) as figure:
        axes = figure.subplots(rows, across, squeeze=False).ravel()
        for panel, name in zip(axes, sizes.columns.values(), strict=False):
            here = shown.axis(panel, name)
            lines = [trend for trend in trends if trend.line.label == name]
            _draw_panel(panel, shown, here, lines)
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
    samples_seen = [(sizes.pairs(system), sizes.training(system, "samples_seen")) for system in systems]
    seen = {count: [samples for size, samples in samples_seen if size == count and samples] for count in pairs}
    panel.set_xscale("log", base=2)
    panel.xaxis.set_minor_locator(NullLocator())
    panel.set_xticks(pairs, [f"{count_words(p)}\n{_range_words(seen[p])}" for p in pairs], fontsize=8)
    reach = (pairs[-1] / pairs[0]) ** 0.09
    panel.set_xlim(pairs[0] / reach, pairs[-1] * reach)
    panel.set_xlabel("image–caption pairs\n(below: samples seen in training)")


def _draw_panel(panel: Axes, panels: AccuracyPanels, numbers: Sequence[Number], trends: Sequence[Trend]) -> None:
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
    """The slopes, as a panel's heading."""
    each = [f"{t.system.method.label}: {words.shown(t.line.estimate, 2)}" for t in trends]
    unit = "points per doubling of the pairs"
    return "\n".join([unit, *each] if each else [])  # below one another: a panel may be narrow


def _range_words(counts: Sequence[int]) -> str:
    """``10,000 to 20,000``; one count where all are shown alike."""
    return " to ".join(dict.fromkeys(count_words(count) for count in sorted(counts)[:: max(1, len(counts) - 1)]))
