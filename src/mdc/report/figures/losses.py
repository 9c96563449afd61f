"""The loss curves of every run of a scale, readable however many methods and seeds it has.

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

from mdc.records import UserError
from mdc.report.figures.drawing import drawing, headline, line_handle, smooth
from mdc.report.figures.styles import METHOD_STYLE, method_styles

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_UNITS = {"captioning": "nats per token", "contrastive": "nats per pair"}
#: family -> what its panels are called; in the order drawn
_FAMILIES = {
    "contrastive": "contrastive",
    "captioning": "captioning",
    "schedules": "other weights and ranges of t",
    "ratios": "fixed mask ratios",
}
#: stands in every family of captioning methods, as what they are variants of
_COMMON = "mdc"
_COLUMNS = 4
_PANEL = 2.9  # inches across
_POINTS = 9  # validation losses drawn of one line; the csv has all


@dataclass(frozen=True)
class _Panel:
    family: str
    corpus: str
    backbone: str
    logs: tuple[Mapping[str, Any], ...]

    @property
    def kind(self) -> str:
        return "contrastive" if self.family == "contrastive" else "captioning"


def loss_curves(
    logs: Sequence[Mapping[str, Any]],
    paths: Sequence[str | Path],
    title: str,
    labels: Mapping[str, Mapping[str, str]] | None = None,
    objectives: Mapping[str, str] | None = None,
) -> None:
    """Training loss (running mean) and validation loss (points) over steps, one line a method.

    ``logs``: one a run with ``corpus``, ``backbone``, ``method`` (keys), ``seed``, ``steps`` [int], ``loss`` [float] in
    nats, ``validation`` [[step, loss], …]. A method with one seed shows its raw loss faintly; with several, the line is
    their mean and the band reaches from the least to the largest of their running means. ``labels``: {"corpora" |
    "backbones" | "methods": {key: label}}; a key without one stands for itself. ``objectives``: {method: "masked" |
    "autoregressive" | "contrastive"}; without it, methods whose key starts with ``clip`` are contrastive. A family of
    methods has a panel a corpus and backbone. ``paths`` end in png, svg or pdf.
    UserError if there is no log, or one without steps.
    """
    if not logs:
        raise UserError("loss curves: no run to draw")
    for log in logs:
        if not len(log["steps"]) or len(log["steps"]) != len(log["loss"]):
            run = f"{log['corpus']}/{log['backbone']}/{log['method']}/s{log['seed']}"
            counts = f"{len(log['steps'])} steps and {len(log['loss'])} losses"
            raise UserError(f"loss curves: {run} has {counts}; needed: as many, at least one")
    names = labels or {}
    families = {log["method"]: _family(log["method"], objectives) for log in logs}
    styles = method_styles(list(families))
    rows = _rows([_panels(logs, family, families) for family in _FAMILIES])
    columns = max(2, *(len(row) for row in rows))
    width = _PANEL * columns + 0.5
    order = [m for m in METHOD_STYLE if m in styles] + [m for m in styles if m not in METHOD_STYLE]
    methods = {method: names.get("methods", {}).get(method, method) for method in order}
    seeds = len({log["seed"] for log in logs})
    entries = [*methods.values(), *_notes(seeds)]
    legend_columns = _legend_columns(entries, width)
    # the legend's lines and the title's come on top of the panels
    height = 2.3 * len(rows) + 0.8 + 0.18 * -(-len(entries) // legend_columns)
    with drawing(width, height, paths) as figure:
        axes = figure.subplots(len(rows), columns, squeeze=False)
        drawn: dict[str, list[Axes]] = defaultdict(list)
        for i, row in enumerate(rows):
            for j in range(columns):
                if j >= len(row):
                    axes[i, j].set_axis_off()
                    continue
                _draw(axes[i, j], row[j], styles, names)
                drawn[row[j].family].append(axes[i, j])
                below = j < len(rows[i + 1]) and rows[i + 1][j].family == row[j].family if i + 1 < len(rows) else False
                axes[i, j].set_xlabel("" if below else "step")
                axes[i, j].set_ylabel(_UNITS[row[j].kind] if j == 0 or row[j - 1].family != row[j].family else "")
        for panels in drawn.values():
            _share_y(panels)
        apart = sum(family != "contrastive" for family in families.values()) > 1
        headline(
            figure,
            title,
            "Captioning methods weight tokens differently: their levels do not compare." if apart else "",
        )
        handles = [line_handle(styles[method], label) for method, label in methods.items()]
        handles += [_note_handle(words) for words in _notes(seeds)]
        figure.legend(handles=handles, loc="outside lower left", ncols=legend_columns, fontsize=8)


def _family(method: str, objectives: Mapping[str, str] | None) -> str:
    if (objectives or {}).get(method, "contrastive" if method.startswith("clip") else "") == "contrastive":
        return "contrastive"
    if method.startswith("bert_") or method == "parallel":
        return "ratios"
    return "schedules" if method.startswith("mdc_") else "captioning"


def _panels(logs: Sequence[Mapping[str, Any]], family: str, families: Mapping[str, str]) -> list[_Panel]:
    """The panels of a family: one a corpus and backbone that has a method of it."""
    places = dict.fromkeys((log["corpus"], log["backbone"]) for log in logs)
    panels = []
    for corpus, backbone in places:
        here = [log for log in logs if (log["corpus"], log["backbone"]) == (corpus, backbone)]
        own = [log for log in here if families[log["method"]] == family]
        common = [log for log in here if log["method"] == _COMMON and family not in ("contrastive", families[_COMMON])]
        variants = any(families[log["method"]] not in (family, "contrastive") for log in here)
        if family == families.get(_COMMON) and {log["method"] for log in own} == {_COMMON} and variants:
            continue  # it stands beside its variants
        if own:
            panels.append(_Panel(family, corpus, backbone, (*own, *common)))
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


def _draw(
    panel: Axes, what: _Panel, styles: Mapping[str, tuple[str, str]], names: Mapping[str, Mapping[str, str]]
) -> None:
    runs: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for log in what.logs:
        runs[log["method"]].append(log)
    for method, group in runs.items():
        _one_method(panel, group, styles[method])
    corpus = names.get("corpora", {}).get(what.corpus, what.corpus)
    backbone = names.get("backbones", {}).get(what.backbone, what.backbone)
    panel.set_title(f"{_FAMILIES[what.family]}\n{corpus}, {backbone}", loc="left")


def _one_method(panel: Axes, group: Sequence[Mapping[str, Any]], style: tuple[str, str]) -> None:
    colour, marker = style
    smoothed = [dict(zip(log["steps"], smooth(log["loss"], len(log["steps"]) // 15), strict=True)) for log in group]
    if len(group) == 1:
        panel.plot(group[0]["steps"], group[0]["loss"], color=colour, linewidth=0.8, alpha=0.35)
    steps, low, mean, high = _over_seeds(smoothed)
    if len(group) > 1:
        panel.fill_between(steps, low, high, color=colour, alpha=0.2, linewidth=0)
    panel.plot(steps, mean, color=colour, linewidth=1.6)
    validation: list[dict[float, float]] = [dict(log["validation"]) for log in group if len(log["validation"])]
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


def _over_seeds(series: Iterable[Mapping[float, float]]) -> tuple[NDArray[np.float64], ...]:
    """Steps (N,), and the least, mean and largest value there (N,) over the seeds that have the step."""
    found: dict[float, list[float]] = defaultdict(list)
    for one in series:
        for step, value in one.items():
            found[step].append(value)
    steps = sorted(found)
    columns = [[reduce(found[step]) for step in steps] for reduce in (np.min, np.mean, np.max)]
    return (np.asarray(steps, dtype=np.float64), *(np.asarray(column, dtype=np.float64) for column in columns))


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
