"""What figures of probe accuracies share: the vertical axis, points with intervals, the untrained encoder's level, counts."""

from collections.abc import Sequence
from typing import Any

from mdc.report import words
from mdc.report.figures.drawing import MARKER, Axes, Figure, bottom_legend, error_bars, headline, line_handle
from mdc.report.figures.styles import method_styles
from mdc.report.frame import AVERAGE, POOLINGS, Number
from mdc.report.results import Results

#: width of a figure in inches: what a page holds, and one of a single panel
WIDTH, NARROW = 7.0, 4.8
#: the least share of the axis that the trained encoders' numbers fill; untrained levels further away are given as text
_FILLED = 0.6
_MARGIN, _WORDS = 0.08, 0.12  # margin above and below, and room for text at the lower edge, as shares of the axis
_DASHES: tuple[Any, ...] = ((0, (1, 1.6)), (0, (3, 1.6, 1, 1.6)))  # one for each pooling
_GREY = "#6B6B6B"


class AccuracyPanels:
    """The panels of a figure. ``trained``, ``untrained``: the numbers of systems with and without a corpus; ``styles``: of the
    methods, the same in all panels; ``methods``: their labels."""

    def __init__(self, results: Results) -> None:
        self.results = results
        self.trained = [n for n in results.numbers if n.system.corpus]
        self.untrained = [n for n in results.numbers if not n.system.corpus]
        self.styles = method_styles(n.method_key for n in self.trained)
        self.methods = {n.method_key: n.system.method.label for n in self.trained}
        self._drawn: dict[str, Number] = {}
        self._poolings = len({n.system.key for n in self.untrained})

    def axis(self, panel: Axes, label: str, first: bool = True) -> list[Number]:
        """Set the vertical range to the numbers of trained systems on the column ``label`` with their intervals, and draw the
        untrained levels as dotted lines; returns these numbers.

        Levels too far below are text at the lower edge of the ``first`` of the panels that share an axis, which has the axis's
        label too. Equal numbers give equal ranges.
        """
        from matplotlib.ticker import MaxNLocator

        here, untrained = ([n for n in some if n.label == label] for some in (self.trained, self.untrained))
        low, high = min(n.ends[0] for n in here), max(n.ends[1] for n in here)
        least = 1.0  # the axis spans at least one point
        far = [n for n in untrained if high - low < _FILLED * (high - min(n.ends[0], low)) and high - n.ends[0] > least]
        near = [n for n in untrained if n not in far]
        low, high = min([low, *(n.ends[0] for n in near)]), max([high, *(n.ends[1] for n in near)])
        reach = max(high - low, least)
        panel.set_ylim(low - (_MARGIN + (_WORDS if far else 0)) * reach, high + _MARGIN * reach)
        panel.yaxis.set_major_locator(MaxNLocator(nbins=6, steps=[1, 2, 5, 10]))
        for number in near:
            panel.axhline(number.value, color=_GREY, linestyle=_DASHES[untrained.index(number) % 2], linewidth=1.2)
        self._drawn |= {number.system.key: number for number in near}
        if first:
            panel.set_ylabel(f"{label} (%)" if label == AVERAGE else f"{label}, {here[0].metric} (%)")
        if far and first:
            method = far[0].system.method.label  # all have the same method, which is named once
            names = [self._name(n) for n in far]
            names[1:] = [name.removeprefix(f"{method}, ") for name in names[1:]]
            levels = ", ".join(f"{name} {n.value:.1f} %" for name, n in zip(names, far, strict=True))
            ground = {"facecolor": "white", "linewidth": 0, "pad": 0.8}  # no grid line through the text
            style: dict[str, Any] = {"fontsize": 7.5, "color": _GREY, "va": "bottom", "bbox": ground}
            panel.text(0.02, 0.015, f"↓ {levels}", transform=panel.transAxes, **style)
        return here

    def point(self, panel: Axes, x: float, number: Number) -> None:
        """A number as its method's marker, and its interval as a bar."""
        error_bars(panel, [x], [(number.value, *number.ends)], self.styles[number.method_key], **MARKER)

    def handles(self, linewidth: float) -> list[Any]:
        """Entries of a legend, one for each method."""
        return [
            line_handle(self.styles[key], label, linewidth=linewidth, **MARKER) for key, label in self.methods.items()
        ]

    def finish(self, figure: Figure, title: str, handles: Sequence[Any], bars: str, note: str) -> None:
        """The title, and below all panels the legend with the meaning of ``bars``, a ``note``, and the claims."""
        results, claims = self.results, self.results.claims()
        if sentences := "; ".join(words.claim_sentences(claims)):
            note += f" Of {results.name(results.primary_measure)}, in points: {sentences}."
            note += f" {words.correction(results.job.statistics, claims)}"
        headline(figure, f"{title} linear probing of {', '.join(results.backbones)}, {results.scale_text}")
        keys = dict.fromkeys(n.system.key for n in self.untrained)
        lines = [
            line_handle((_GREY, ""), self._name(self._drawn[key]), _DASHES[i % 2], linewidth=1.2)
            for i, key in enumerate(keys)
            if key in self._drawn
        ]
        bottom_legend(
            figure, [*handles, *lines], f"{words.intervals(results.levels.values(), results.job.seeds, bars)}{note}"
        )

    def _name(self, number: Number) -> str:
        method, pooling = number.system.method.label, number.system.pooling
        return method if self._poolings == 1 else f"{method}, {POOLINGS.get(pooling, pooling)}"


def count_words(count: int) -> str:
    """A count as an axis shows it: exact below a million, then three digits."""
    for unit, letter in ((10**9, "B"), (10**6, "M")):
        if count >= 0.9995 * unit:
            return f"{count / unit:.3g}{letter}"
    return f"{count:,}"
