"""The panels of the loss curves, readable however many methods and seeds there are.

Methods that answer one question share a panel: CLIP's losses, the captioning methods of the main table, other weights
and ranges of t, fixed mask ratios; MDC stands in each of the last three. Seeds become a mean and a band.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mdc.plan.jobs.shown import ShownRun
from mdc.report.figures.drawing import drawing, headline, line_handle, smooth
from mdc.report.figures.styles import method_styles

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_UNITS = {"captioning": "nats per token", "contrastive": "nats per pair"}
#: family -> what its panels are called; in the order drawn
_FAMILIES = {
    "contrastive": "contrastive",
    "captioning": "captioning",
    "schedules": "other weights and ranges of t",
    "ratios": "fixed mask ratios",
    "mask_and_replace": "mask-and-replace",
}
#: stands in every family of captioning methods, as what they are variants of
_COMMON = "mdc"
_COLUMNS = 5
_PANEL = 2.6  # inches across
_POINTS = 9  # validation losses drawn of one line; the csv has all


@dataclass(frozen=True)
class Curve:
    """A run's losses in nats by step: of ``train`` and of ``validation``, which may have none."""

    run: ShownRun
    train: Mapping[int, float]
    validation: Mapping[int, float]

    @classmethod
    def of(cls, run: ShownRun, lines: Iterable[Mapping[str, Any]]) -> Curve:
        """From the lines of a log; of a step that was logged twice the last counts."""
        told = list(lines)
        series = [{line["step"]: line[key] for line in told if key in line} for key in ("loss", "validation_loss")]
        return cls(run, *series)

    @property
    def place(self) -> tuple[str, str]:
        """The keys of its corpus and backbone."""
        return self.run.corpus.key, self.run.backbone.key

    @property
    def method(self) -> str:
        """Its method's key."""
        return self.run.method.key

    @property
    def family(self) -> str:
        """Which question it answers, a key of ``_FAMILIES``."""
        if self.run.objective in ("contrastive", "mask_and_replace"):
            return self.run.objective
        if self.run.t_range is not None and self.run.t_range[0] == self.run.t_range[1]:
            return "ratios"
        return "schedules" if self.run.objective == "masked" and self.method != _COMMON else "captioning"


@dataclass(frozen=True)
class _Panel:
    family: str
    curves: tuple[Curve, ...]

    @property
    def unit(self) -> str:
        return _UNITS["contrastive" if self.family == "contrastive" else "captioning"]


def draw(curves: Sequence[Curve], paths: Sequence[str | Path], title: str) -> None:
    """Training loss (running mean) and validation loss (points) over steps, one line for each method.

    A method with one seed shows its raw loss faintly; with several, the line is their mean and the band reaches from the
    least to the largest of their running means. A family of methods has a panel for each corpus and backbone. ``paths`` end in
    png, svg or pdf.
    """
    labels = {curve.method: curve.run.method.label for curve in curves}
    styles = method_styles(labels)
    rows = _rows([_panels(curves, family) for family in _FAMILIES])
    columns = max(2, *(len(row) for row in rows))
    width = _PANEL * columns + 0.5
    notes = _notes(len({curve.run.seed for curve in curves}))
    legend_columns = _legend_columns([*labels.values(), *notes], width)
    # the legend's lines and the title's come on top of the panels
    height = 2.3 * len(rows) + 0.8 + 0.18 * -(-(len(labels) + len(notes)) // legend_columns)
    with drawing(width, height, paths) as figure:
        axes = figure.subplots(len(rows), columns, squeeze=False)
        drawn: dict[str, list[Axes]] = defaultdict(list)
        for i, row in enumerate(rows):
            for j in range(columns):
                if j >= len(row):
                    axes[i, j].set_axis_off()
                    continue
                _draw(axes[i, j], row[j], styles)
                drawn[row[j].family].append(axes[i, j])
                below = j < len(rows[i + 1]) and rows[i + 1][j].family == row[j].family if i + 1 < len(rows) else False
                axes[i, j].set_xlabel("" if below else "step")
                axes[i, j].set_ylabel(row[j].unit if j == 0 or row[j - 1].family != row[j].family else "")
        for panels in drawn.values():
            _share_y(panels)
        apart = len({curve.method for curve in curves if curve.family != "contrastive"}) > 1
        note = "Captioning methods weight tokens differently: their levels do not compare." if apart else ""
        headline(figure, title, note)
        handles = [line_handle(styles[method], labels[method]) for method in styles]
        handles += [_note_handle(words) for words in notes]
        figure.legend(handles=handles, loc="outside lower left", ncols=legend_columns)


def _panels(curves: Sequence[Curve], family: str) -> list[_Panel]:
    """The panels of a family: one for each corpus and backbone that has a method of it."""
    panels = []
    for place in dict.fromkeys(curve.place for curve in curves):
        here = [curve for curve in curves if curve.place == place]
        own = [curve for curve in here if curve.family == family]
        common = [
            curve
            for curve in here
            if curve.method == _COMMON and family not in ("contrastive", "mask_and_replace", curve.family)
        ]
        variants = any(curve.family not in (family, "contrastive") for curve in here)
        if {curve.method for curve in own} == {_COMMON} and variants:
            continue  # it stands beside its variants
        if own:
            panels.append(_Panel(family, (*own, *common)))
    return panels


def _rows(sections: Sequence[Sequence[_Panel]]) -> list[list[_Panel]]:
    """The families' panels in rows: one goes on in the last one's row if all of it fits, or has rows of equal length."""
    rows: list[list[_Panel]] = []
    for panels in sections:
        if rows and len(rows[-1]) + len(panels) <= _COLUMNS:
            rows[-1].extend(panels)
        else:
            # as many panels a row as make the fewest rows, and no more
            across = max(1, -(-len(panels) // max(1, -(-len(panels) // _COLUMNS))))
            rows += [list(panels[i : i + across]) for i in range(0, len(panels), across)]
    return rows


def _draw(panel: Axes, what: _Panel, styles: Mapping[str, tuple[str, str]]) -> None:
    runs: dict[str, list[Curve]] = defaultdict(list)
    for curve in what.curves:
        runs[curve.method].append(curve)
    for method, group in runs.items():
        _one_method(panel, group, styles[method])
    first = what.curves[0].run
    panel.set_title(f"{_FAMILIES[what.family]}\n{first.corpus.label}, {first.backbone.label}")


def _one_method(panel: Axes, group: Sequence[Curve], style: tuple[str, str]) -> None:
    colour, marker = style
    smoothed = [_smoothed(curve.train) for curve in group]
    if len(group) == 1:
        raw = group[0].train
        panel.plot(list(raw), list(raw.values()), color=colour, linewidth=0.8, alpha=0.35)
    steps, low, mean, high = _over_seeds(smoothed)
    if len(group) > 1:
        panel.fill_between(steps, low, high, color=colour, alpha=0.2, linewidth=0)
    panel.plot(steps, mean, color=colour, linewidth=1.6)
    validation = [curve.validation for curve in group if curve.validation]
    if validation:
        at, _, loss, _ = _over_seeds(validation)
        # the last is always among those kept
        kept = slice((len(at) - 1) % -(-len(at) // _POINTS), None, -(-len(at) // _POINTS))
        panel.plot(
            at[kept],
            loss[kept],
            color=colour,
            marker=marker,
            markersize=4.2,
            linestyle="none",
            markeredgecolor="white",
            markeredgewidth=0.6,
            zorder=3,
        )


def _smoothed(series: Mapping[int, float]) -> dict[int, float]:
    return dict(zip(series, smooth(list(series.values()), len(series) // 15).tolist(), strict=True))


def _over_seeds(series: Iterable[Mapping[int, float]]) -> tuple[NDArray[np.float64], ...]:
    """Steps (N,), and the least, mean and largest value there (N,) over the seeds that have the step."""
    import pandas as pd

    seeds = pd.DataFrame([pd.Series(one) for one in series]).sort_index(axis="columns")
    return (
        np.asarray(seeds.columns, dtype=np.float64),
        *(f.to_numpy() for f in (seeds.min(), seeds.mean(), seeds.max())),
    )


_BAND, _VALIDATION = "least to largest seed", "validation"


def _notes(seeds: int) -> list[str]:
    """What the legend says of lines, bands and points."""
    return ["running mean", _VALIDATION] if seeds == 1 else [f"running mean, {seeds} seeds", _BAND, _VALIDATION]


def _note_handle(words: str) -> Any:
    from matplotlib.patches import Patch

    if words == _BAND:
        return Patch(color="#555555", alpha=0.25, linewidth=0, label=words)
    return line_handle(("#555555", "o"), words, "none") if words == _VALIDATION else line_handle(("#555555", ""), words)


def _legend_columns(labels: Sequence[str], width: float) -> int:
    """As many columns as fit ``width`` inches, each as wide as the longest label."""
    # a letter of 8 points is about 0.062 inches wide; the sample of the line and the gaps take 0.6
    return max(1, min(len(labels), int((width - 0.2) / (0.062 * max(map(len, labels)) + 0.6))))


def _share_y(panels: Sequence[Axes]) -> None:
    """One vertical range for all panels of a family. The first steps lie far above the rest and may run out of view."""
    curves = [np.asarray(line.get_ydata(), dtype=np.float64) for panel in panels for line in panel.get_lines()]
    values = np.concatenate(curves) if curves else np.zeros(0)
    values = values[np.isfinite(values)]
    if not len(values):
        return
    low, high = float(values.min()), float(np.quantile(values, 0.995))
    margin = 0.06 * (high - low) or 0.5
    for panel in panels:
        panel.set_ylim(low - margin, high + margin)
