"""What the figures of probe accuracies share: the vertical axis, points with their intervals, the untrained encoder, counts."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from mdc.report.figures.drawing import error_bars, line_handle
from mdc.report.frame import POOLINGS, Number

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: width of a figure in inches: what a page holds, and one of a single panel
WIDTH, NARROW = 7.0, 4.8
#: of the axis, what the trained encoders' numbers fill at least; untrained ones further away are told in words
_FILLED = 0.6
_MARGIN, _WORDS = 0.08, 0.12  # above and below, and what words at the lower edge take, as shares of the axis
_DASHES: tuple[Any, ...] = ((0, (1, 1.6)), (0, (3, 1.6, 1, 1.6)))  # one for each pooling
_GREY = "#6B6B6B"
#: with a white edge, which sets it off from what lies below it
MARKER: dict[str, Any] = {"markersize": 6.3, "markeredgecolor": "white", "markeredgewidth": 0.6}


def accuracy_axis(
    panel: Axes, trained: Sequence[Number], untrained: Sequence[Number], words: bool = True
) -> list[Number]:
    """The vertical range that shows ``trained`` with their intervals, and the ``untrained`` levels as dotted lines.

    Levels so far below that they would leave too little of the axis to the others stand as words at the lower edge,
    if ``words`` (of panels that share an axis, the first is enough). Equal numbers give equal ranges. The untrained
    numbers that have become lines are returned.
    """
    from matplotlib.ticker import MaxNLocator

    low, high = min(n.ends[0] for n in trained), max(n.ends[1] for n in trained)
    least = 1.0  # a point: what lies closer together is not blown up
    far = [n for n in untrained if high - low < _FILLED * (high - min(n.ends[0], low)) and high - n.ends[0] > least]
    near = [n for n in untrained if n not in far]
    low, high = min([low, *(n.ends[0] for n in near)]), max([high, *(n.ends[1] for n in near)])
    reach = max(high - low, least)
    panel.set_ylim(low - (_MARGIN + (_WORDS if far else 0)) * reach, high + _MARGIN * reach)
    panel.yaxis.set_major_locator(MaxNLocator(nbins=6, steps=[1, 2, 5, 10]))
    for number in near:
        panel.axhline(number.value, color=_GREY, linestyle=_DASHES[untrained.index(number) % 2], linewidth=1.2)
    if far and words:
        method = far[0].system.method.label  # said once, since all of them are of it
        names = [_name(n, len(untrained)) for n in far]
        names[1:] = [name.removeprefix(f"{method}, ") for name in names[1:]]
        told = ", ".join(f"{name} {n.value:.1f} %" for name, n in zip(names, far, strict=True))
        ground = {"facecolor": "white", "linewidth": 0, "pad": 0.8}  # no line of the grid through the words
        style: dict[str, Any] = {"fontsize": 7.5, "color": _GREY, "va": "bottom", "bbox": ground}
        panel.text(0.02, 0.015, f"↓ {told}", transform=panel.transAxes, **style)
    return near


def _name(number: Number, count: int) -> str:
    method, pooling = number.system.method.label, number.system.pooling
    return method if count == 1 else f"{method}, {POOLINGS.get(pooling, pooling)}"


def point(panel: Axes, x: float, number: Number, style: tuple[str, str]) -> None:
    """A number as its method's marker, and its 95 % interval as a bar."""
    error_bars(panel, [x], [(number.value, *number.ends)], style, **MARKER)


def untrained_handles(numbers: Sequence[Number], drawn: Sequence[Number]) -> list[Any]:
    """Entries of a legend for the ``numbers`` given to :func:`accuracy_axis` that it has drawn somewhere."""
    systems = list(dict.fromkeys(n.system.key for n in numbers))
    found = {n.system.key: n for n in drawn}
    return [
        line_handle((_GREY, ""), _name(found[key], len(systems)), _DASHES[i % 2], linewidth=1.2)
        for i, key in enumerate(systems)
        if key in found
    ]


def count_words(count: int) -> str:
    """A count as an axis shows it: to the last one below a million, then three digits."""
    for unit, letter in ((10**9, "B"), (10**6, "M")):
        if count >= 0.9995 * unit:
            return f"{count / unit:.3g}{letter}"
    return f"{count:,}"


def bottom_legend(figure: Figure, handles: Sequence[Any], note: str) -> None:
    """One legend below all panels, in as many columns as fit, with a small ``note`` above it.

    ``handles`` have their labels; of a tuple, which stands side by side, the first one's counts.
    """
    from matplotlib.legend_handler import HandlerTuple

    # a letter of 8 points is about 0.063 inches wide, a handle with its gaps 0.55
    labels = [str((one[0] if isinstance(one, tuple) else one).get_label()) for one in handles]
    widest = max(0.063 * len(label) + 0.55 for label in labels)
    inches = figure.get_figwidth()
    columns = max(1, min(len(handles), int(inches / widest)))
    figure.legend(
        handles,
        labels,
        loc="outside lower left",
        ncols=columns,
        title="\n".join(textwrap.wrap(note, int(inches / 0.063))),
        alignment="left",
        columnspacing=1.4,
        handler_map={tuple: HandlerTuple(ndivide=None)},
    )
