"""Figures of probe accuracies: the panels that they share; Figure 4, over the mask ratio; Figure 5, over the number of pairs.

The paper only draws its values, so none are shown beside ours.
"""

import itertools
import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from mdc.plan.jobs.shown import ArtefactJob, System
from mdc.plan.records import UserError
from mdc.report import words
from mdc.report.figures.drawing import MARKER, Axes, bottom_legend, drawing, error_bars, headline, line_handle
from mdc.report.figures.styles import method_styles
from mdc.report.frame import Contrast, Number, Side, decided, write_contrasts, write_levels
from mdc.report.manifests import Manifests
from mdc.report.results import Results
from mdc.report.statistics.claims import Claim, claim
from mdc.report.statistics.estimate import estimate

SHOWN = {
    "artefacts": {
        "figure4": {
            "title": "Figure 4: mask ratios",
            "config": "probe_tables.RatioFigure",
            "what": "the share of a caption that is masked, the same for all captions (the paper's image-conditioned BERT; at "
            "100 % parallel decoding), against MDC, which draws the share anew; with intervals, one panel for each corpus.",
        },
        "figure5": {
            "title": "Figure 5: numbers of pairs",
            "config": "probe_tables.PairsFigure",
            "what": "the number of pairs of nested corpora, with intervals, and the points that a doubling adds. Each corpus is "
            "trained on for the same number of epochs, so samples seen grow with the pairs, and the warm-up takes a larger "
            "share of a smaller corpus's steps: the trend is of all three together, as in the paper.",
        },
    },
    "files": ".png .svg .pdf .csv _contrasts.csv _runs.csv",
    "caption": "Linear-probe accuracy at scale {scale} over {what}",
    "plan": "artefact_plans.probing",
}

_DASHES: tuple[Any, ...] = ((0, (1, 1.6)), (0, (3, 1.6, 1, 1.6)))  # of untrained levels, one for each pooling
_GREY = "#6B6B6B"
#: draws the rest of a panel, given the styles of methods and the panel's numbers
More = Callable[[Axes, Mapping[str, tuple[str, str]], Sequence[Number]], None]


def draw(
    results: Results,
    out: Path,
    title: str,
    label: str,
    at: Callable[[Number], float | None],
    tick: Callable[[float], str] = "{:g}".format,
    lines: Callable[[Number], Sequence[tuple[str, str]]] = lambda n: [(n.method_key, "-")],
    more: More = lambda *_: None,
    log: bool = False,
    by_corpus: bool = False,
) -> None:
    """Write the figure into ``out``: a panel for each measure, and ``by_corpus`` for each corpus, over the axis ``label``.

    ``at``: a number's place, None if it has no point; ``tick``: a place in words, on a ``log`` scale to base 2; ``lines``: names
    and styles of the lines that join a number with others.
    """
    name, trained = results.job.artefact, [n for n in results.numbers if n.system.corpus]
    styles = method_styles(n.method_key for n in trained)
    # a method's label is that of its whole runs, the last on the axis: those of snapshots also say their share
    labels = {n.method_key: n.system.method.label for n in sorted(trained, key=lambda n: at(n) or 0)}
    corpora: list[str | None] = [*results.corpora] if by_corpus else [None]
    panels, several = list(itertools.product(results.measures, corpora)), len(corpora) > 1
    across, untrained = len(corpora) if several else min(2, len(panels)), dict[str, Any]()
    ticks = sorted({place for place in map(at, trained) if place is not None})
    rows, files = math.ceil(len(panels) / across), [out / f"{name}.{ending}" for ending in ("png", "svg", "pdf")]
    with drawing(4.8 if across == 1 else max(7, 2.6 * across), 2.6 * rows + 1.3, files) as figure:
        axes = figure.subplots(rows, across, squeeze=False, sharey="row" if several else "none").ravel()
        for panel, (measure, corpus) in zip(axes, panels, strict=False):
            here = [n for n in results.numbers if n.column == results.key(measure)]
            own = [n for n in here if n.system.corpus and corpus in (None, n.system.corpus.key)]
            panel.set_title(results.corpora[corpus] if corpus and several else "")
            joined: dict[tuple[str, str], list[tuple[float, Number]]] = {}
            for number, place in ((n, place) for n in own if (place := at(n)) is not None):
                error_bars(panel, [place], [(number.value, *number.ends)], styles[number.method_key], **MARKER)
                for line in lines(number):
                    joined.setdefault(line, []).append((place, number))
            for (_, style), points in joined.items():
                places, numbers = zip(*sorted(points, key=lambda point: point[0]), strict=True)
                colour = styles[numbers[len(numbers) // 2].method_key][0]
                panel.plot(places, [n.value for n in numbers], color=colour, linestyle=style, linewidth=1.3, zorder=2)
            more(panel, styles, own)
            untrained |= _untrained(panel, here, first=corpus == corpora[0])
            if log:
                panel.set_xscale("log", base=2)
                panel.minorticks_off()
            panel.set_xticks(ticks, [tick(place) for place in ticks], fontsize=7.5)
            panel.set_xlabel(label)
        for panel in axes[len(panels) :]:
            panel.set_visible(False)
        headline(figure, f"{title} linear probing of {', '.join(results.backbones)}, {results.scale_text}")
        handles = [line_handle(styles[key], labels[key], linewidth=1.3, **MARKER) for key in styles]
        bottom_legend(figure, [*handles, *untrained.values()], words.bars(results.job))


def _untrained(panel: Axes, here: Sequence[Number], first: bool) -> dict[str, Any]:
    """The levels of untrained encoders as dotted lines; returns their entries of the legend. Levels so far below the trained
    encoders' numbers that these would fill little of the axis are text, beside the ``first`` panel's label."""
    ends = [end for n in here if n.system.corpus for end in n.ends]
    far, entries = "", {}
    for place, number in enumerate(n for n in here if not n.system.corpus):
        name, dashes = words.method(number.system), _DASHES[place % 2]
        if number.value < min(ends) - max(max(ends) - min(ends), 1):
            far += f"\n{name}: {number.value:.1f} %"
        else:
            panel.axhline(number.value, color=_GREY, linestyle=dashes, linewidth=1.2)
            entries[number.system.key] = line_handle((_GREY, ""), name, dashes, linewidth=1.2)
    if first:
        panel.set_ylabel(f"{here[0].label}, {here[0].metric} (%){far}")
    return entries


def count_words(count: int) -> str:
    """A count as an axis shows it: exact below a million, then three digits."""
    for unit, letter in ((10**9, "B"), (10**6, "M")):
        if count >= 0.9995 * unit:
            return f"{count / unit:.3g}{letter}"
    return f"{count:,}"


def check_counts_differ(results: Results, counts: Mapping[str, Hashable], what: str) -> None:
    """UserError if two corpora have the same of ``counts``, so that no axis tells them apart."""
    first_of: dict[Hashable, str] = {}
    for corpus, count in counts.items():
        if (first := first_of.setdefault(count, corpus)) != corpus:
            raise UserError(f"{results.title}: runs of {first} and {corpus} saw as many {what}; drop one of them")


def make(job: ArtefactJob, manifests: Manifests, out: Path) -> None:
    """Write the figure, its numbers and its contrasts into ``out``; there is no average of several columns. Errors as of Table 1;
    of Figure 5 also if trainings on a corpus differ in their number of pairs, or those on two do not."""
    results = Results(job, manifests, averages=False)
    _figure4(results, out) if job.artefact == "figure4" else _figure5(results, job, out)


# --- Figure 4 -------------------------------------------------------------------------------------------------------------


def _ratios(number: Number) -> tuple[float | None, float | None]:
    """The range of mask ratios in training, in per cent; None if nothing is masked."""
    low, high = number.system.more.get("t_range") or (None, None)
    # 0.55 is 55, not 55.00000000000001
    return (None, None) if low is None or high is None else (round(100 * low, 6), round(100 * high, 6))


def _fixed(number: Number) -> float | None:
    """The fixed mask ratio; None if it is drawn, or nothing is masked."""
    low, high = _ratios(number)
    return low if low == high else None


def _figure4(results: Results, out: Path) -> None:
    low, high = zip(*map(_ratios, results.numbers), strict=True)
    write_levels(out / "figure4.csv", results.job, results.numbers, mask_ratio_low=low, mask_ratio_high=high)
    write_contrasts(out / "figure4_contrasts.csv", results.job, results.contrasts())

    def levels(panel: Axes, styles: Mapping[str, tuple[str, str]], numbers: Sequence[Number]) -> None:
        """Methods that draw their ratio, or mask nothing: a line, thick over the ratios that they draw, and a band."""
        for number in (n for n in numbers if _fixed(n) is None):
            look: dict[str, Any] = {"color": styles[number.method_key][0], "zorder": 2}
            panel.axhspan(*number.ends, color=look["color"], alpha=0.13, linewidth=0, zorder=1)
            panel.axhline(number.value, linewidth=0.9, **look)
            low, high = _ratios(number)
            if low is not None and high is not None:
                panel.plot([low, high], [number.value] * 2, linewidth=2.6, solid_capstyle="butt", **look)

    title = "Fixed mask ratios against drawn ones (thick: over the ratios that are drawn),"
    draw(results, out, title, "mask ratio (%)", _fixed, lines=lambda _: [("fixed", "-")], more=levels, by_corpus=True)


# --- Figure 5 -------------------------------------------------------------------------------------------------------------


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


def trends(results: Results, job: ArtefactJob) -> list[Trend]:
    """One for each method with two corpora or more and each column; those that the job names are decided."""
    counts = {corpus: results.training_of_corpus(corpus, "pairs", "pairs") for corpus in results.corpora}
    check_counts_differ(results, counts, "pairs")
    groups: dict[Hashable, list[System]] = {}
    for system in (system for system in job.systems if system.corpus):
        groups.setdefault((system.backbone, system.method, system.estimator), []).append(system)
    lines = [(group, column) for group in groups.values() if len(group) > 1 for column in results.columns]
    found, claims = list[Trend](), list[Claim | None]()
    for systems, column in lines:
        first = systems[0]
        pairs = [counts[system.corpus.key] for system in systems if system.corpus]
        # the weights of the values in their least-squares line
        slope_weights, intercept_weights = np.linalg.pinv(np.vander(np.log2(pairs), 2))
        items = [results.items[system.key, column][0] for system in systems]
        if not all(items[0].same_items(other) for other in items):
            raise UserError(
                f"{results.title}: trend of {first.method.label}: not tested on the same items; probe again"
            )
        replicates, *others = (results.replicates[system.key, column] for system in systems)
        slope = replicates.of(lambda *v, w=slope_weights: np.tensordot(w, np.broadcast_arrays(*v), 1), *others)
        line = Contrast(
            kind="slope",
            first=Side(first.method.key, "", first.backbone.label, first.method.label),
            second=None,
            column=column,
            label=results.name(column),
            metric=results.metric[column],
            unit="points per doubling",
            estimate=estimate(slope, job.statistics.level, contrast=True),
        )
        levels = np.array([results.levels[system.key, column].value for system in systems])
        found.append(Trend(first, line, pairs, float(intercept_weights @ levels)))
        rise = results.margin((first.key, systems[-1].key), column)
        if isinstance(rise, float):
            rise /= math.log2(max(pairs) / min(pairs))
        named = column == results.primary_measure and first.method.key in job.more["trends"]
        claims.append(claim(slope, rise, job.statistics.level) if named else None)
    decisions = decided([trend.line for trend in found], claims, job.statistics)
    return [replace(trend, line=line) for trend, line in zip(found, decisions, strict=True)]


def _figure5(results: Results, job: ArtefactJob, out: Path) -> None:
    found, seen = trends(results, job), [results.training(n.system, "samples_seen") for n in results.numbers]
    write_levels(out / "figure5.csv", job, results.numbers, samples_seen=seen)
    intercepts = [trend.intercept for trend in found]
    write_contrasts(out / "figure5_contrasts.csv", job, [trend.line for trend in found], intercept=intercepts)

    def tick(pairs: float) -> str:
        own = sorted({count for n, count in zip(results.numbers, seen, strict=True) if n.pairs == pairs and count})
        return f"{count_words(int(pairs))}\n{' to '.join(map(count_words, dict.fromkeys((own[0], own[-1]))))}"

    def more(panel: Axes, styles: Mapping[str, tuple[str, str]], numbers: Sequence[Number]) -> None:
        text = []
        for trend in (trend for trend in found if trend.line.column == numbers[0].column):
            ends, method = [min(trend.pairs), max(trend.pairs)], trend.system.method
            panel.plot(ends, [trend.at(end) for end in ends], color=styles[method.key][0], linewidth=1.4, zorder=2)
            text.append(f"\n{method.label}: {words.shown(trend.line.estimate, 2)}")
        panel.set_title("".join(["points per doubling of the pairs", *text]) if text else "", fontsize=8)

    label = "image–caption pairs\n(below: samples seen in training)"
    draw(results, out, "Pairs trained on,", label, lambda n: n.pairs, tick, lambda _: (), more, log=True)
