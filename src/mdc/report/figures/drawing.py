"""Figures, drawn without a screen; equal input gives equal bytes.

Their style is in mdc.report.figures.styles. matplotlib is imported only when something is drawn.
"""

from __future__ import annotations

import itertools
import textwrap
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mdc.plan.jobs.shown import System
from mdc.plan.records import UserError, atomic_path
from mdc.report.figures.styles import STYLE, method_styles

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from mdc.report.frame import Number
else:  # for annotations alone: nothing but a drawing loads matplotlib
    Axes = Figure = Any

#: with a white edge, visible above other markers and lines
MARKER: dict[str, Any] = {"markersize": 6.3, "markeredgecolor": "white", "markeredgewidth": 0.6}


def smooth(values: ArrayLike, window: int) -> NDArray[np.float64]:
    """Centred running mean (N,) over ``window`` points; at the ends over fewer, symmetric about the point, so a falling curve is
    not shifted."""
    array = np.asarray(values, dtype=np.float64)
    sums = np.concatenate([[0.0], np.cumsum(array)])
    place = np.arange(len(array))
    reach = np.minimum(max(window, 1) // 2, np.minimum(place, len(array) - 1 - place))
    return np.asarray((sums[place + reach + 1] - sums[place - reach]) / (2 * reach + 1))


def table1_dots(
    numbers: Sequence[Number],
    paths: Sequence[Path],
    title: str,
    label: str,
    named: Callable[[System], str],
    declared: Sequence[tuple[str, str, str]],
) -> None:
    """Accuracies with their intervals: a dot for each method and benchmark and a hollow one for each control, in a panel for each
    corpus and backbone.

    ``numbers``: of :class:`mdc.report.results.Results`; a system that neither has nor is a control is left out. ``label``: of the
    axis; ``named``: the name of a control; ``declared``: the styles of methods. UserError if no number has a control.
    """
    trained = [(n, n.control) for n in numbers if n.control is not None]
    if not trained:
        raise UserError("figure of table 1: no trained encoder to draw")
    backbones = list(dict.fromkeys(n.system.backbone.label for n, _ in trained))
    datasets = list(dict.fromkeys(n.dataset for n, _ in trained))
    benchmarks = list(dict.fromkeys(n.label for n, _ in trained))
    labels = {n.method_key: n.system.method.label for n, _ in trained}
    styles = method_styles(labels, declared)
    looks: dict[str, dict[str, Any]] = {key: {} for key in styles}
    # a control has one name on all backbones
    for name, shape in zip(dict.fromkeys(named(control) for _, control in trained), itertools.cycle("osD^")):
        of = [labels[key] for key in styles if any(n.method_key == key and named(c) == name for n, c in trained)]
        labels[name], styles[name] = f"{name}: control of {', '.join(of)}", ("#6B6B6B", shape)
        looks[name] = {"markerfacecolor": "white", "markeredgecolor": "#6B6B6B"}
    height = 0.3 * len(benchmarks) * max(1.0, len(styles) / 3) + 0.75
    with drawing(3.6 * len(datasets) + 1.1, height * len(backbones) + 1.2, paths) as figure:
        axes = figure.subplots(len(backbones), len(datasets), squeeze=False, sharex=True, sharey=True)
        for i, backbone in enumerate(backbones):
            for j, dataset in enumerate(datasets):
                panel = axes[i, j]
                here = [(n, c) for n, c in trained if (n.system.backbone.label, n.dataset) == (backbone, dataset)]
                controls = {control.key for _, control in here}
                shown = [(n.method_key, n) for n, _ in here]
                shown += [(named(n.system), n) for n in numbers if n.system.key in controls]
                present = [key for key in styles if any(name == key for name, _ in shown)]
                for place, key in enumerate(present):
                    # the dots of a benchmark below one another, in the legend's order
                    shift = (place - (len(present) - 1) / 2) * 0.78 / max(len(present), 2)
                    mine = [n for name, n in shown if name == key]
                    heights = [benchmarks.index(n.label) + shift for n in mine]
                    values = [(n.value, *n.ends) for n in mine]
                    error_bars(panel, heights, values, styles[key], across=True, markersize=4.8, **looks[key])
                if not here:
                    panel.text(0.5, 0.5, "no run", transform=panel.transAxes, ha="center", color="#7A828C")
                panel.set_title(f"{dataset}, {backbone}")
                rows_axis(panel, benchmarks)
                for place in range(len(benchmarks) - 1):
                    # darker rules around the Average
                    beside = "Average" in benchmarks[place : place + 2]
                    colour, width = ("#7A828C", 0.9) if beside else ("#E3E6EA", 0.7)
                    panel.axhline(place + 0.5, color=colour, linewidth=width)
                if i == len(backbones) - 1:
                    panel.set_xlabel(label)
        headline(figure, title)
        bottom_legend(figure, [line_handle(styles[key], labels[key], "none", **looks[key]) for key in styles], "")


def rows_axis(panel: Axes, labels: Sequence[str]) -> None:
    """A row for each of ``labels``, the first at the top."""
    panel.set_yticks(range(len(labels)), labels)
    panel.tick_params(axis="y", length=0)
    panel.grid(axis="y", visible=False)
    panel.set_ylim(len(labels) - 0.5, -0.5)


def headline(figure: Figure, title: str, note: str = "") -> None:
    """``title`` at the upper left, wrapped to the figure's width, and a ``note`` below it."""
    # a letter of 10.5 points is about 0.078 inches wide
    lines = textwrap.wrap(title, max(30, int(figure.get_figwidth() / 0.078)))
    figure.suptitle("\n".join([*lines, *([note] if note else [])]), x=0.01, ha="left")


def error_bars(
    panel: Axes,
    places: Sequence[float],
    numbers: Sequence[tuple[float, float, float]],
    style: tuple[str, str],
    across: bool = False,
    bars: float = 1.0,
    **marker: Any,
) -> None:
    """Numbers (N of value, low and high end) as markers with their intervals as bars, upright or ``across`` the panel.

    ``bars``: how opaque they are; ``marker``: of matplotlib, such as a ``linestyle`` that joins the markers.
    """
    value, low, high = np.asarray(numbers, dtype=np.float64).T
    # drawn around the interval's middle: a bootstrap interval need not contain the value
    middle, half = (low + high) / 2, (high - low) / 2
    colour, shape = style
    bar: dict[str, Any] = {"fmt": "none", "ecolor": (colour, bars), "elinewidth": 1.3, "zorder": 3}
    if across:
        panel.errorbar(middle, places, xerr=half, **bar)
    else:
        panel.errorbar(places, middle, yerr=half, **bar)
    at = (value, places) if across else (places, value)
    panel.plot(*at, **{"color": colour, "marker": shape, "linestyle": "none", "zorder": 4, **marker})


def line_handle(style: tuple[str, str], label: str, line: Any = "-", **more: Any) -> Any:
    """An entry of a legend: a colour, a marker ('' for none), with or without a line; ``more`` as of matplotlib."""
    from matplotlib.lines import Line2D

    look = {"color": style[0], "marker": style[1] or None, "linestyle": line, "markersize": 5, **more}
    return Line2D([], [], label=label, **look)


def bottom_legend(figure: Figure, handles: Sequence[Any], note: str) -> None:
    """One legend below all panels, in as many columns as fit, with a small ``note`` above it.

    ``handles`` have labels; a tuple of handles is drawn side by side with the first one's label.
    """
    from matplotlib.legend_handler import HandlerTuple

    # a letter of 8 points is about 0.063 inches wide, a handle with its gaps 0.55
    labels = [str((handle[0] if isinstance(handle, tuple) else handle).get_label()) for handle in handles]
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


def plain_logarithm(axis: Any) -> None:
    """A logarithmic axis with plain numbers, as many as there is room for."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    low, high = axis.get_view_interval()
    subs: tuple[float, ...] = (1.0,)
    for span, finer in ((200, (1.0, 3.0)), (40, (1.0, 2.0, 5.0)), (8, (1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0))):
        subs = finer if high / low < span else subs
    axis.set_major_locator(LogLocator(subs=subs))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_locator(NullLocator())


@contextmanager
def drawing(width: float, height: float, paths: Sequence[Path]) -> Iterator[Figure]:
    """A figure of so many inches, written to ``paths`` (png, svg or pdf) when the block ends without error; without pyplot's
    global state."""
    import matplotlib.style
    from matplotlib.figure import Figure

    # no dates in the files, so that equal input gives equal bytes
    stamps: dict[str, dict[str, None]] = {".png": {}, ".svg": {"Date": None}, ".pdf": {"CreationDate": None}}
    # matplotlib's own defaults first: a matplotlibrc of the user's must not change the figure
    with matplotlib.style.context(["default", STYLE]):
        figure = Figure(figsize=(width, height), layout="constrained")
        yield figure
        for path in paths:
            with atomic_path(path) as temporary:
                figure.savefig(temporary, metadata=stamps[path.suffix])
