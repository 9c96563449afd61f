"""Figure 5: probe accuracy over the number of pairs trained on, with the trend as points a doubling.

The corpora are nested samples of one source, and the number of pairs is the one that each really had. Epochs stay the
same, so samples seen grow with the pairs; both are told. The paper draws its values and prints none.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mdc.records import UserError, write_text
from mdc.report.estimates import MeanAveragePrecision
from mdc.report.figures.accuracy_panels import (
    NARROW,
    WIDTH,
    accuracy_axis,
    bottom_legend,
    marked,
    point,
    untrained_handles,
)
from mdc.report.figures.drawing import drawing, headline
from mdc.report.figures.styles import method_styles
from mdc.report.lines import Encoder, Number, tidy
from mdc.report.probing import Probing
from mdc.report.selection import ItemsOf, Record
from mdc.statistics import intervals as statistics
from mdc.statistics.trend import slope_weights

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FIGURES = ("figure5.png", "figure5.svg", "figure5.pdf")
#: the files that :func:`build` writes
FILES = (*FIGURES, "figure5.csv", "figure5_trend.csv")

_DODGE = 0.016  # of the axis: how far methods stand apart, so that their intervals can be told


@dataclass(frozen=True)
class PairsNumber(Number):
    """A number with the samples (pairs, counted each time) that its encoder saw in training."""

    samples_seen: int | None


@dataclass(frozen=True)
class Trend:
    """One line of ``figure5_trend.csv``: accuracy = ``intercept`` + ``slope`` · log2(pairs), least squares.

    In per cent; ``slope`` in points a doubling of the pairs, with its 95 % interval. ``p_holm``: corrected over the
    figure's trends; ``smallest_detectable``: the slope that would have been told from 0. ``residual_sd``: what one point
    lies off the line, None where two points make it.
    """

    scale: str
    table: str
    backbone: str
    method: str
    method_key: str
    benchmark: str
    metric: str
    datasets: str
    pairs: str
    slope: float
    low: float
    high: float
    interval: str
    p: float
    p_holm: float
    smallest_detectable: float
    intercept: float
    residual_sd: float | None
    seeds: str
    n: int

    def at(self, pairs: float) -> float:
        """The line's per cent at so many pairs."""
        return self.intercept + self.slope * math.log2(pairs)


def build(
    records: Iterable[Record],
    items: ItemsOf,
    spec: Mapping[str, Any],
    out: str | Path,
    mean_average_precision: MeanAveragePrecision | None = None,
) -> tuple[list[PairsNumber], list[Trend]]:
    """Write ``FILES`` into ``out``; arguments and errors as :func:`mdc.report.tables.table1.build`.

    UserError besides if there are fewer than two corpora, a record does not tell its pairs, the runs of a corpus
    tell different ones, or two corpora the same.
    """
    maker = _Sizes(records, items, spec, mean_average_precision)
    numbers, trends = maker.pairs_numbers(), maker.trends()
    out = Path(out)
    write_text(out / "figure5.csv", tidy(numbers, PairsNumber, leave_out=("method_key",)))
    write_text(out / "figure5_trend.csv", tidy(trends, Trend, leave_out=("method_key",)))
    maker.draw(numbers, trends, [out / name for name in FIGURES])
    return numbers, trends


class _Sizes(Probing):
    averages = False
    printed = False

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        if len(self.corpora) < 2:
            raise UserError(f"{self.title}: a trend needs two corpora or more")
        self.sizes = {corpus: self._size(corpus) for corpus in self.corpora}
        by_size: dict[int, str] = {}
        for corpus, pairs in self.sizes.items():
            if pairs in by_size:
                raise UserError(
                    f"{self.title}: {by_size[pairs]} and {corpus} both had {pairs:,} pairs; drop one of them"
                )
            by_size[pairs] = corpus

    def _size(self, corpus: str) -> int:
        """The pairs that all runs of a corpus were trained on."""
        found: dict[int, str] = {}
        for id_ in (id_ for e in self.trained if e.corpus == corpus for id_ in e.ids()):
            told = self.records[id_].get("training")
            if not told:
                raise UserError(f"{self.title}: the probe record of {id_} does not tell its pairs; probe it again")
            found.setdefault(int(told["pairs"]), id_)
        if len(found) > 1:
            told = ", ".join(f"{id_} on {pairs:,}" for pairs, id_ in found.items())
            raise UserError(f"{self.title}: runs of {corpus} saw different numbers of pairs: {told}; train them again")
        (pairs,) = found
        return pairs

    def pairs_numbers(self) -> list[PairsNumber]:
        encoders = [encoder for encoder in self.rows() for _ in self.measures]
        return [
            PairsNumber(**asdict(number), samples_seen=self.training(encoder, "samples_seen"))
            for encoder, number in zip(encoders, self.numbers(), strict=True)
        ]

    def trends(self) -> list[Trend]:
        """One a method and probe, of methods that stand in two corpora or more."""
        methods = dict.fromkeys(e.method for e in self.trained)
        groups = [[e for e in self.trained if e.method == method] for method in methods]
        found = [(group, probe) for group in groups if len(group) > 1 for probe in self.probes]
        slopes = [self._slope(group, probe) for group, probe in found]
        adjusted = statistics.holm([_p(slope) for slope in slopes]).tolist() if slopes else []
        return [
            self._trend(group, probe, slope, holm)
            for (group, probe), slope, holm in zip(found, slopes, adjusted, strict=True)
        ]

    def _logs(self, encoders: Sequence[Encoder]) -> list[float]:
        return [math.log2(self.sizes[e.corpus]) for e in encoders if e.corpus is not None]

    def _slope(self, encoders: Sequence[Encoder], probe: str) -> statistics.Interval:
        weights = slope_weights(self._logs(encoders)).tolist()
        groups = [[self.items[id_] for id_ in encoder.ids()] for encoder in encoders]
        try:
            return self.estimator.combination(list(zip(weights, groups, strict=True)), [probe])
        except UserError as error:
            raise UserError(f"{self.title}: trend of {encoders[0].method}: {error}") from None

    def _trend(self, encoders: Sequence[Encoder], probe: str, slope: statistics.Interval, holm: float) -> Trend:
        levels = [self.estimator.level([self.items[id_] for id_ in e.ids()], [probe]).value for e in encoders]
        logs = np.array(self._logs(encoders))
        intercept = float(np.mean(levels) - slope.value * logs.mean())
        off = np.array(levels) - intercept - slope.value * logs
        free = len(levels) - 2  # two parameters are fitted
        return Trend(
            scale=self.scale,
            table=self.table,
            backbone=self.backbones[encoders[0].backbone],
            method=self.method(encoders[0]),
            method_key=encoders[0].method,
            benchmark=self.benchmark(probe),
            metric=self.metric[probe],
            datasets="; ".join(self.corpora[e.corpus] for e in encoders if e.corpus is not None),
            pairs=" ".join(str(self.sizes[e.corpus]) for e in encoders if e.corpus is not None),
            slope=slope.value,
            low=slope.low,
            high=slope.high,
            interval=self.interval,
            p=_p(slope),
            p_holm=holm,
            smallest_detectable=statistics.smallest_detectable_difference(slope),
            intercept=intercept,
            residual_sd=math.sqrt(float(off @ off) / free) if free else None,
            seeds=" ".join(map(str, self.seeds)),
            n=self.items[encoders[0].ids()[0]][probe].n,
        )

    # drawing

    def draw(self, numbers: Sequence[PairsNumber], trends: Sequence[Trend], paths: Sequence[str | Path]) -> None:
        (backbone,) = self.backbones.values()
        columns = min(2, len(self.probes))
        rows = math.ceil(len(self.probes) / columns)
        labels = set(self.corpora.values())
        trained = [n for n in numbers if n.dataset in labels]
        controls = [n for n in numbers if n.dataset not in labels]
        near: list[Number] = []
        with drawing(WIDTH if columns > 1 else NARROW, 2.75 * rows + 1.35, paths) as figure:
            axes = figure.subplots(rows, columns, squeeze=False).ravel()
            for panel, (probe, name) in zip(axes, self.probes.items(), strict=False):
                here = [n for n in trained if n.benchmark == name]
                lines = [t for t in trends if t.benchmark == name]
                mine = [n for n in controls if n.benchmark == name]
                near += accuracy_axis(panel, here, mine)
                _one(panel, here, lines)
                panel.set_title(slope_words(lines), loc="left", fontsize=8)
                self._pairs_axis(panel, here)
                panel.set_ylabel(f"{name}, {self.metric[probe]} (%)")
            for panel in axes[len(self.probes) :]:
                panel.set_visible(False)
            headline(figure, f"Pairs trained on, linear probing of {backbone}, {self.scale_text}")
            entries = _entries(trained) + [(h, str(h.get_label())) for h in untrained_handles(controls, near)]
            note = f"Bars and brackets: 95 % interval, {self.interval} ({self.seed_words()})."
            bottom_legend(figure, entries, f"{note} Lines: least squares over log₂(pairs).")

    def _pairs_axis(self, panel: Axes, numbers: Sequence[PairsNumber]) -> None:
        """Pairs on a logarithmic scale, a tick at each corpus's count, below it the samples seen."""
        from matplotlib.ticker import NullLocator

        pairs = sorted(self.sizes.values())
        seen = {p: [n.samples_seen for n in numbers if n.pairs == p and n.samples_seen] for p in pairs}
        panel.set_xscale("log", base=2)
        panel.xaxis.set_minor_locator(NullLocator())
        panel.set_xticks(pairs, [f"{count_words(p)}\n{_range_words(seen[p])}" for p in pairs], fontsize=8)
        reach = (pairs[-1] / pairs[0]) ** 0.09
        panel.set_xlim(pairs[0] / reach, pairs[-1] * reach)
        panel.set_xlabel("image–caption pairs\n(below: samples seen in training)")


def _one(panel: Axes, numbers: Sequence[PairsNumber], trends: Sequence[Trend]) -> None:
    methods = list(dict.fromkeys(n.method_key for n in numbers))
    styles = method_styles(methods)
    shown = [n.pairs for n in numbers if n.pairs]
    span = max(shown) / min(shown)
    for trend in trends:
        ends = [f(map(int, trend.pairs.split())) for f in (min, max)]
        panel.plot(ends, [trend.at(p) for p in ends], color=styles[trend.method_key][0], linewidth=1.4, zorder=2)
    for number in numbers:
        place = methods.index(number.method_key) - (len(methods) - 1) / 2
        point(panel, (number.pairs or 1) * span ** (place * _DODGE), number, styles[number.method_key])


def slope_words(trends: Sequence[Trend]) -> str:
    """The slopes as a panel's heading shows them."""
    numbers = [f"{t.slope:+.2f} [{t.low:+.2f}, {t.high:+.2f}]".replace("-", "−") for t in trends]
    each = [f"{t.method}: {number}" for t, number in zip(trends, numbers, strict=True)]
    unit = "points a doubling of the pairs"
    return "\n".join([unit, *each] if each else [])  # below one another: a panel may be narrow


def _entries(numbers: Sequence[PairsNumber]) -> list[tuple[Any, str]]:
    from matplotlib.lines import Line2D

    methods = {n.method_key: n.method for n in numbers}
    styles = method_styles(list(methods))
    return [(Line2D([], [], **marked(*styles[key]), linewidth=1.4), label) for key, label in methods.items()]


def count_words(count: int) -> str:
    """A count as an axis shows it: to the last one below a million, then three digits."""
    for unit, letter in ((10**9, "B"), (10**6, "M")):
        if count >= 0.9995 * unit:
            return f"{count / unit:.3g}{letter}"
    return f"{count:,}"


def _range_words(counts: Sequence[int]) -> str:
    """One count where all are told alike."""
    return " to ".join(dict.fromkeys(count_words(count) for count in sorted(counts)[:: max(1, len(counts) - 1)]))


def _p(interval: statistics.Interval) -> float:
    return 1.0 if interval.p is None else interval.p
