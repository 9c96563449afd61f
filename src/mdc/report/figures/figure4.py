"""Figure 4: image-conditioned BERT at one fixed mask ratio each, against methods that draw the ratio.

A panel a corpus and probe. The paper draws its values and prints none, so none stand beside ours.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mdc.records import write_text
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
from mdc.report.lines import Contrast, Encoder, Number, tidy
from mdc.report.probing import Probing
from mdc.report.selection import ItemsOf, Record

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FIGURES = ("figure4.png", "figure4.svg", "figure4.pdf")
#: the files that :func:`build` writes
FILES = (*FIGURES, "figure4.csv", "figure4_contrasts.csv")

_ALL = 100.0  # per cent: every piece masked
_EDGE, _APART = 7.0, 5.0  # per cent: from there to the marker of a method that draws its ratio, and to the next one's


@dataclass(frozen=True)
class RatioNumber(Number):
    """A number with the mask ratios, in per cent, that its method was trained at; None: it masks nothing."""

    mask_ratio_low: float | None
    mask_ratio_high: float | None

    @property
    def fixed(self) -> bool:
        """One ratio for all captions."""
        return self.mask_ratio_low is not None and self.mask_ratio_low == self.mask_ratio_high


def build(
    records: Iterable[Record],
    items: ItemsOf,
    spec: Mapping[str, Any],
    out: str | Path,
    mean_average_precision: MeanAveragePrecision | None = None,
) -> tuple[list[RatioNumber], list[Contrast]]:
    """Write ``FILES`` into ``out``; arguments and errors as :func:`mdc.report.tables.table1.build`.

    In ``spec`` each method has besides ``t_range``: [least, greatest] share of masked pieces, or None. There is no
    average of several probes: each has panels of its own, and none enlarges the family that Holm corrects over.
    """
    maker = _Ratios(records, items, spec, mean_average_precision)
    numbers, contrasts = maker.ratio_numbers(), maker.contrasts()
    out = Path(out)
    write_text(out / "figure4.csv", tidy(numbers, RatioNumber, leave_out=("method_key",)))
    write_text(out / "figure4_contrasts.csv", tidy(contrasts, Contrast))
    maker.draw(numbers, [out / name for name in FIGURES])
    return numbers, contrasts


class _Ratios(Probing):
    averages = False
    printed = False

    def ratio_numbers(self) -> list[RatioNumber]:
        return [
            RatioNumber(**asdict(number), mask_ratio_low=low, mask_ratio_high=high)
            for encoder, number in zip(self._each(), self.numbers(), strict=True)
            for low, high in [self._ratios(encoder)]
        ]

    def _each(self) -> list[Encoder]:
        """The encoder of every number."""
        return [encoder for encoder in self.rows() for _ in self.measures]

    def _ratios(self, encoder: Encoder) -> tuple[float | None, float | None]:
        told = self.methods[encoder.method]["t_range"] if encoder.corpus else None
        return (None, None) if told is None else (_percent(told[0]), _percent(told[1]))

    def draw(self, numbers: Sequence[RatioNumber], paths: Sequence[str | Path]) -> None:
        labels = list(self.corpora.values())
        (backbone,) = self.backbones.values()
        fixed = sorted({n.mask_ratio_low for n in numbers if n.fixed and n.mask_ratio_low is not None})
        drawn = list(dict.fromkeys(n.method_key for n in numbers if n.dataset in labels and not n.fixed))
        # methods without a ratio of their own stand side by side behind 100 %
        places = {key: _ALL + _EDGE + i * _APART for i, key in enumerate(drawn)}
        with drawing(WIDTH if len(labels) > 1 else NARROW, 2.3 * len(self.probes) + 1.35, paths) as figure:
            axes = figure.subplots(len(self.probes), len(labels), squeeze=False, sharex=True, sharey="row")
            near: list[Number] = []
            controls = [n for n in numbers if n.dataset not in labels]
            for i, (probe, name) in enumerate(self.probes.items()):
                here = [n for n in numbers if n.benchmark == name]
                trained = [n for n in here if n not in controls]
                for j, label in enumerate(labels):
                    near += accuracy_axis(axes[i, j], trained, [n for n in here if n in controls], words=j == 0)
                    _one(axes[i, j], [n for n in here if n.dataset == label], places)
                    if i == 0:
                        axes[i, j].set_title(label, loc="left")
                axes[i, 0].set_ylabel(f"{name}, {self.metric[probe]} (%)")
            ticks = _ticks(fixed)
            for panel in axes[-1]:
                panel.set_xlabel("mask ratio (%)")
                panel.set_xlim(0, _ALL + _EDGE + max(len(drawn) - 0.2, 0.2) * _APART)
                panel.set_xticks(ticks, _tick_labels(ticks, len(labels)))
            headline(figure, f"Fixed mask ratios against drawn ones, linear probing of {backbone}, {self.scale_text}")
            entries = _entries([n for n in numbers if n.dataset in labels])
            entries += [(h, str(h.get_label())) for h in untrained_handles(controls, near)]
            note = f"Bars and bands: 95 % interval, {self.interval} ({self.seed_words()})."
            bottom_legend(figure, entries, f"{note} Paired differences: figure4_contrasts.csv.")


def _one(panel: Axes, numbers: Sequence[RatioNumber], places: Mapping[str, float]) -> None:
    styles = method_styles([n.method_key for n in numbers])
    for number in numbers:
        if not number.fixed:
            _level(panel, number, styles[number.method_key], places[number.method_key])
    curve = _curve(numbers)
    if curve:
        ratios, values = zip(*((n.mask_ratio_low, n.value) for n in curve), strict=True)
        panel.plot(ratios, values, color=_family(curve), linewidth=1.3, zorder=2.5)
    for number in curve:
        point(panel, float(number.mask_ratio_low or 0), number, styles[number.method_key])


def _level(panel: Axes, number: RatioNumber, style: tuple[str, str], place: float) -> None:
    """A method that draws its ratio, or masks nothing: one level, thick over the ratios that it draws."""
    colour, _ = style
    panel.axhspan(number.low, number.high, color=colour, alpha=0.13, linewidth=0, zorder=1)
    panel.axhline(number.value, color=colour, linewidth=0.9, zorder=2)
    if number.mask_ratio_low is not None:
        ends = [number.mask_ratio_low, number.mask_ratio_high or _ALL]
        panel.plot(ends, [number.value] * 2, color=colour, linewidth=2.6, zorder=2, solid_capstyle="butt")
    point(panel, place, number, style)


def _curve(numbers: Sequence[RatioNumber]) -> list[RatioNumber]:
    return sorted((n for n in numbers if n.fixed), key=lambda n: n.mask_ratio_low or 0)


def _family(curve: Sequence[RatioNumber]) -> str:
    """The colour of the line through fixed ratios: that of the one in the middle."""
    keys = [n.method_key for n in curve]
    return method_styles(keys)[keys[len(keys) // 2]][0]


def _ticks(ratios: Sequence[float]) -> list[float]:
    """The ratios themselves, unless some stand too close to be read."""
    close = any(b - a < 8 for a, b in itertools.pairwise(ratios))
    return [0, 25, 50, 75, _ALL] if close or not ratios else list(ratios)


def _tick_labels(ticks: Sequence[float], panels: int) -> list[str]:
    """No label that would touch the next one shown: of three panels and more, 90 beside 100."""
    least, next_, found = 12 if panels > 2 else 8, math.inf, []
    for tick in reversed(ticks):
        fits = next_ - tick >= least
        found.append(f"{tick:g}" if fits else "")
        next_ = tick if fits else next_
    return found[::-1]


def _entries(trained: Sequence[RatioNumber]) -> list[tuple[Any, str]]:
    """Of the legend: fixed ratios below 100 % as one entry, then every other method."""
    from matplotlib.lines import Line2D

    shown = list({n.method_key: n for n in trained}.values())
    styles = method_styles([n.method_key for n in shown])
    part = [n for n in _curve(shown) if n.mask_ratio_low != _ALL]
    family = part if len(part) > 1 else []
    entries: list[tuple[Any, str]] = []
    if family:
        ends = family[0], family[-1]
        markers = tuple(Line2D([], [], **marked(*styles[n.method_key]), linestyle="none") for n in ends)
        entries.append((markers, f"{ends[0].method} to {ends[1].method}"))
    for number in sorted((n for n in shown if n not in family), key=lambda n: not n.fixed):
        handle = Line2D([], [], **marked(*styles[number.method_key]), linewidth=0 if number.fixed else 1.3)
        entries.append((handle, number.method + _drawn_words(number)))
    return entries


def _percent(share: float) -> float:
    return round(100 * float(share), 6)  # 0.55 is 55, not 55.00000000000001


def _drawn_words(number: RatioNumber) -> str:
    if number.fixed or number.mask_ratio_low is None:
        return ""
    return f" (drawn from {number.mask_ratio_low:.0f} to {number.mask_ratio_high:.0f} %)"
