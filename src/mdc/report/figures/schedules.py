"""The figure of the noise schedules: how unsteady training is with each range of t, measured and drawn.

The paper leaves out small t because "loss is very unstable when pretrained on CC3M, where many captions are very short"
(its section on the noise schedule, Table 5). Here that is a number with an interval: see :mod:`mdc.statistics.steadiness`.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mdc.records import UserError
from mdc.report.figures.accuracy_panels import marked
from mdc.report.figures.drawing import drawing, headline, line_handle
from mdc.report.figures.styles import method_styles
from mdc.statistics import intervals as statistics
from mdc.statistics import steadiness as stability
from mdc.statistics.steadiness import Estimate

if TYPE_CHECKING:
    from matplotlib.axes import Axes

DRAWS = 2000  # of the bootstrap over logged steps
_MARKERS = 6  # of each line of a curve

LOSS, NORM, SPIKE, VARIANCE, NORM_VARIANCE, OVER = (
    "loss_cv",
    "grad_norm_cv",
    "grad_norm_largest_over_median",
    "loss_variance",
    "grad_norm_variance",
    "grad_norm_share_over_clip",
)
#: what is drawn: statistic -> label of its axis, factor from the number to that label's unit
_PANELS = {
    LOSS: ("loss: variation from step to step, % of its level", 100),
    NORM: ("gradient norm: variation, % of its level", 100),
    SPIKE: ("largest gradient norm, multiple of its running median", 1),
}
_WORDS = {LOSS: "Loss varies", NORM: "Gradient norm varies"}


@dataclass(frozen=True)
class Track:
    """One run's log. ``steps`` (N,), ``loss`` (N,) nats per token, ``norm`` (N,) of the gradient before clipping.

    ``tokens``: supervised in a batch, middle of the log's; with ``least_t`` it says what the draw of t alone lets
    expect, and is None where that has no closed form (another weight or normaliser than the paper's).
    """

    corpus: str
    backbone: str
    method: str
    seed: int
    steps: tuple[int, ...]
    loss: tuple[float, ...]
    norm: tuple[float, ...]
    clip_norm: float | None = None
    tokens: float | None = None
    least_t: float = 1e-3

    @property
    def id(self) -> str:
        return f"{self.corpus}/{self.backbone}/{self.method}/s{self.seed}"

    def after(self, warmup: int) -> Track:
        """Only what was logged at full learning rate."""
        kept = [i for i, step in enumerate(self.steps) if step > warmup]
        loss, norm = (tuple(series[i] for i in kept) for series in (self.loss, self.norm))
        return replace(self, steps=tuple(self.steps[i] for i in kept), loss=loss, norm=norm)


@dataclass(frozen=True)
class Shown:
    """What the figure is told: ``ranges`` {method: (low, high)} in the order drawn, ``warmup`` {method: steps}."""

    scale: str
    scale_label: str
    labels: Mapping[str, Mapping[str, str]]
    ranges: Mapping[str, tuple[float, float]]
    reference: str
    warmup: Mapping[str, int]

    def range_of(self, method: str) -> str:
        """[low, high], which no line end breaks."""
        low, high = self.ranges[method]
        return f"[{low},\u00a0{high}]"

    def place(self, corpus: str, backbone: str) -> str:
        """A corpus and backbone as people call them."""
        return f"{self.labels['corpora'].get(corpus, corpus)}, {self.labels['backbones'].get(backbone, backbone)}"

    def name(self, method: str) -> str:
        """A method as people call it, always with its range of t."""
        label, (low, high) = self.labels["methods"].get(method, method), self.ranges[method]
        return label if f"[{low}, {high}]" in label else f"{label} [{low}, {high}]"


@dataclass(frozen=True)
class Line:
    """One line of ``figure_schedules.csv``: a number of stability, and what it is of the reference's.

    Deviations and shares are shares of 1, ``loss_variance`` is in nats², ``grad_norm_variance`` in the norm's unit squared.
    Over seeds the mean is geometric, but for the share over the clipping norm. ``smallest_detectable``: the true ratio
    that would have been told from 1 (``stability.Estimate``). ``expected``: from the draw of t and masks alone
    (``stability.loss_variance``).
    """

    scale: str
    corpus: str
    backbone: str
    method: str
    t_low: float
    t_high: float
    statistic: str
    value: float
    low: float | None
    high: float | None
    interval: str
    seeds: str
    logged_steps: int
    ratio_to_reference: float | None = None
    ratio_low: float | None = None
    ratio_high: float | None = None
    p: float | None = None
    p_holm: float | None = None
    verdict: str = ""
    smallest_detectable: float | None = None
    expected: float | None = None


# --- numbers --------------------------------------------------------------------------------------------------------


def measure(tracks: Sequence[Track], shown: Shown) -> list[Line]:
    """Every number of stability of every corpus, backbone and schedule; p corrected over all ratios (Holm).

    UserError if runs to compare differ in seeds or logged steps, or have too few steps after the warm-up.
    """
    lines = [line for here in _places(tracks, shown).values() for line in _of_place(here, shown)]
    told = [i for i, line in enumerate(lines) if line.p is not None]
    if told:
        corrected = statistics.holm([lines[i].p or 0.0 for i in told])
        for i, p in zip(told, corrected, strict=True):
            lines[i] = replace(lines[i], p_holm=float(p))
    return lines


def _places(tracks: Sequence[Track], shown: Shown) -> dict[tuple[str, str], list[Track]]:
    """The runs of each corpus and backbone, by schedule and seed, in the order drawn."""
    order = list(shown.ranges)
    found: dict[tuple[str, str], list[Track]] = {}
    for track in tracks:
        found.setdefault((track.corpus, track.backbone), []).append(track)
    return {place: sorted(here, key=lambda t: (order.index(t.method), t.seed)) for place, here in found.items()}


def _counted(here: Sequence[Track], shown: Shown) -> list[Track]:
    """The runs of one place after their longest warm-up, all logged at the same steps."""
    warmup = max(shown.warmup[track.method] for track in here)
    first, whole = here[0], {track.steps for track in here}
    if len(whole) > 1:
        other = next(track for track in here if track.steps != first.steps)
        raise UserError(
            f"schedules: {first.id} has {_steps(first)} and {other.id} has {_steps(other)}; needed: the same in both"
        )
    kept = [track.after(warmup) for track in here]
    if len(kept[0].steps) < stability.NEEDED:
        raise UserError(
            f"schedules: {first.id} has {len(kept[0].steps)} logged steps after its warm-up of {warmup}; needed: "
            f"{stability.NEEDED}, and {stability.NEEDED_FOR_INTERVAL + 2} for an interval of a single run; "
            "log more often (log_every) or train for longer"
        )
    return kept


def _steps(track: Track) -> str:
    return f"{len(track.steps)} logged steps up to {track.steps[-1] if track.steps else 0}"


def _of_place(here: Sequence[Track], shown: Shown) -> list[Line]:
    runs: dict[str, list[Track]] = {}
    for track in _counted(here, shown):
        runs.setdefault(track.method, []).append(track)
    where = shown.place(here[0].corpus, here[0].backbone)
    seeds = {method: [track.seed for track in group] for method, group in runs.items()}
    if shown.reference not in runs:
        raise UserError(f"schedules: {where} has no run of {shown.reference!r}, to which the others are compared")
    for method, found in seeds.items():
        if found != seeds[shown.reference]:
            raise UserError(
                f"schedules: {where} has seeds {found} of {method} and {seeds[shown.reference]} of {shown.reference}; "
                "needed: the same, because schedules are compared seed by seed"
            )
    reference = runs[shown.reference]
    return [
        line
        for method, group in runs.items()
        for line in _of_schedule(group, None if method == shown.reference else reference, shown)
    ]


#: statistic -> contributions of one run's logged steps, and the power of their mean that is the statistic
_OF_STEPS: dict[str, tuple[Callable[[Track], Any], float]] = {
    LOSS: (lambda track: stability.relative_squares(track.steps, track.loss), 0.5),
    VARIANCE: (lambda track: stability.squares(track.steps, track.loss), 1.0),
    NORM: (lambda track: stability.relative_squares(track.steps, track.norm), 0.5),
    NORM_VARIANCE: (lambda track: stability.squares(track.steps, track.norm), 1.0),
}


def _of_schedule(group: Sequence[Track], reference: Sequence[Track] | None, shown: Shown) -> list[Line]:
    first = group[0]
    head = Line(
        scale=shown.scale,
        corpus=first.corpus,
        backbone=first.backbone,
        method=first.method,
        t_low=shown.ranges[first.method][0],
        t_high=shown.ranges[first.method][1],
        statistic="",
        value=math.nan,
        low=None,
        high=None,
        interval="",
        seeds=" ".join(str(track.seed) for track in group),
        logged_steps=len(first.steps),
    )
    lines = []
    for name, (contributions, power) in _OF_STEPS.items():
        squares = [_named(track, contributions) for track in group]
        against = None if reference is None else [_named(track, contributions) for track in reference]
        lines.append(_compared(head, name, *_varies(squares, against, power)))
    spikes = [_named(track, lambda one: stability.spike(one.norm)) for track in group]
    ratio = None
    if reference is not None:
        others = [_named(track, lambda one: stability.spike(one.norm)) for track in reference]
        ratio = stability.ratio_over_seeds(spikes, others)
    largest = stability.over_seeds(spikes)
    if largest.low is not None:
        largest = replace(largest, low=max(1.0, largest.low))  # no largest value lies below its level
    lines.append(_compared(head, SPIKE, largest, ratio))
    shares = _share_over_clip(group)
    if shares is not None:
        lines.append(_compared(head, OVER, shares, None, "exact (Clopper-Pearson) over logged steps"))
    return [replace(line, expected=_expected(group, shown)) if line.statistic == LOSS else line for line in lines]


def _named(track: Track, statistic: Callable[[Track], Any]) -> Any:
    """A refusal names its run."""
    try:
        return statistic(track)
    except UserError as error:
        raise UserError(f"{track.id}: {error}") from None


def _varies(squares: Sequence[Any], against: Sequence[Any] | None, power: float) -> tuple[Estimate, Estimate | None]:
    """A root or mean of squares with its interval, and its ratio to the reference: over seeds if there are three."""
    if not all(0 < one.mean() < math.inf for one in (*squares, *(against or ()))):
        raise UserError(
            "schedules: a loss or gradient norm that never varies, or without bounds; nothing can be compared"
        )
    if len(squares) >= 3:
        values = [float(one.mean() ** power) for one in squares]
        if against is None:
            return stability.over_seeds(values), None
        others = [float(one.mean() ** power) for one in against]
        return stability.over_seeds(values), stability.ratio_over_seeds(values, others)
    # each estimate starts from the same generator, so no number depends on which others were made before it
    value = stability.over_steps(squares, np.random.default_rng(0), DRAWS, power)
    if against is None:
        return value, None
    return value, stability.ratio_over_steps(squares, against, np.random.default_rng(0), DRAWS, power)


def _share_over_clip(group: Sequence[Track]) -> Estimate | None:
    """None unless every run was clipped."""
    clipped = [(track.norm, track.clip_norm) for track in group if track.clip_norm is not None]
    if len(clipped) < len(group):
        return None
    if len(group) >= 3:
        return stability.share_over_seeds([stability.share_over(norm, limit) for norm, limit in clipped])
    return stability.share_over_steps([value > limit for norm, limit in clipped for value in norm])


def _compared(head: Line, name: str, value: Estimate, ratio: Estimate | None, alone: str = "") -> Line:
    seeds = len(head.seeds.split())
    how = alone or "moving-block bootstrap over logged steps"
    interval = f"t over {seeds} seeds" if seeds >= 3 else f"{how}, {'this run' if seeds == 1 else 'these 2 runs'} only"
    line = replace(
        head,
        statistic=name,
        value=value.value,
        low=value.low,
        high=value.high,
        interval="none" if value.low is None else interval,
    )
    if ratio is None:
        return line
    return replace(
        line,
        ratio_to_reference=ratio.value,
        ratio_low=ratio.low,
        ratio_high=ratio.high,
        p=ratio.p,
        verdict=stability.verdict(ratio),
        smallest_detectable=ratio.detectable,
    )


def _expected(group: Sequence[Track], shown: Shown) -> float | None:
    """The coefficient of variation of the loss that the draw of t and masks would give alone.

    With t down to 0 it rests on rare draws of large weight: few logged steps show less than that, and then a spike.
    """
    first = group[0]
    if first.tokens is None:
        return None
    return math.sqrt(stability.loss_variance(*shown.ranges[first.method], tokens=first.tokens, least_t=first.least_t))


# --- words and files ------------------------------------------------------------------------------------------------


def findings(lines: Sequence[Line], shown: Shown) -> list[str]:
    """What was found, a sentence a corpus and backbone: the first schedule against the reference.

    It is the first that is told, not the one with the largest ratio, which would be picked by its number.
    """
    first = next((method for method in shown.ranges if method != shown.reference), None)
    places = list(dict.fromkeys((line.corpus, line.backbone) for line in lines))
    told = []
    for place in places:
        here = {x.statistic: x for x in lines if (x.corpus, x.backbone, x.method) == (*place, first)}
        if first is None or not here:
            continue
        told.append(
            f"{shown.place(*place)}: with t in {shown.range_of(first)} the loss varies {_times(here[LOSS])} as much as "
            f"with {shown.range_of(shown.reference)} ({_verdict_words(here[LOSS])}), the gradient norm {_times(here[NORM])} "
            f"({_verdict_words(here[NORM])})."
        )
    return told


def _verdict_words(line: Line) -> str:
    """A verdict; where it cannot be told, with the ratio that could have been."""
    if line.verdict != "cannot be told" or line.smallest_detectable is None:
        return line.verdict
    return f"{line.verdict} (≥ {line.smallest_detectable:.2f}×)".replace(" ", "\u00a0")


def _times(line: Line) -> str:
    """A ratio with its interval; its spaces do not break."""
    interval = "" if line.ratio_low is None else f" [{line.ratio_low:.2f}, {line.ratio_high:.2f}]"
    return f"{line.ratio_to_reference:.2f}×{interval}".replace(" ", "\u00a0")


def text(lines: Sequence[Line], shown: Shown) -> str:
    """``figure_schedules.csv``: tidy, one line a number."""
    rows = [
        asdict(line)
        | {
            "corpus": shown.labels["corpora"].get(line.corpus, line.corpus),
            "backbone": shown.labels["backbones"].get(line.backbone, line.backbone),
            "method": shown.labels["methods"].get(line.method, line.method),
        }
        for line in lines
    ]
    return _csv([field.name for field in fields(Line)], [list(row.values()) for row in rows])


def curves_text(tracks: Sequence[Track], shown: Shown) -> str:
    """``figure_schedules_curves.csv``: one line a logged step, run after run, the numbers as they were logged."""
    rows: list[list[Any]] = []
    for track in tracks:
        head = [
            shown.labels["corpora"].get(track.corpus, track.corpus),
            shown.labels["backbones"].get(track.backbone, track.backbone),
            shown.labels["methods"].get(track.method, track.method),
            track.seed,
        ]
        logged = zip(track.steps, track.loss, track.norm, strict=True)
        rows += [[*head, step, repr(loss), repr(norm)] for step, loss, norm in logged]
    return _csv(["corpus", "backbone", "method", "seed", "step", "loss", "grad_norm"], rows)


def _csv(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    import csv
    import io

    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(columns)
    # six digits whatever the size: a p-value of 1e-5 is not 0
    writer.writerows([f"{x:.6g}" if isinstance(x, float) else x for x in row] for row in rows)
    return stream.getvalue()


# --- drawing --------------------------------------------------------------------------------------------------------


def draw(tracks: Sequence[Track], lines: Sequence[Line], shown: Shown, paths: Sequence[str | Path]) -> None:
    """Loss and gradient norm over steps on the left, what they vary by on the right; a band a corpus and backbone.

    ``paths`` end in png, svg or pdf; ``lines`` are those of :func:`measure` for these ``tracks``.
    """
    places = _places(tracks, shown)
    methods = [method for method in shown.ranges if any(track.method == method for track in tracks)]
    styles = method_styles(methods)
    seeds = len({track.seed for track in tracks})
    alone = "this run" if seeds == 1 else "these two runs"
    note = [
        *findings(lines, shown),
        f"95 % intervals over {seeds} seeds, paired by seed."
        if seeds >= 3
        else f"95 % intervals from the logged steps: they speak of {alone} of each schedule only.",
    ]
    width = 10.6
    # three panels of dots share the height of two of curves
    height = max(4.4, 3 * (0.24 * len(methods) + 0.62))
    with drawing(width, height * len(places) + 0.75 + 0.19 * len(note), paths) as figure:
        halves = figure.subfigures(len(places), 2, squeeze=False, width_ratios=[1.45, 1])
        for (left, right), ((corpus, backbone), here) in zip(halves, places.items(), strict=True):
            _curves(left.subplots(2, 1), here, shown, styles, shown.place(corpus, backbone))
            for panel, statistic in zip(right.subplots(len(_PANELS), 1), _PANELS, strict=True):
                own = [x for x in lines if (x.corpus, x.backbone, x.statistic) == (corpus, backbone, statistic)]
                _dots(panel, own, shown, styles, _PANELS[statistic])
        wrapped = [part for sentence in note for part in textwrap.wrap(sentence, int(width / 0.078))]
        headline(figure, f"Training stability of the noise schedules, scale {shown.scale_label}", "\n".join(wrapped))
        figure.legend(
            handles=_handles(methods, shown, styles, seeds, any(line.expected is not None for line in lines)),
            loc="outside lower left",
            ncols=3,
            fontsize=8,
        )


def _curves(
    panels: Sequence[Axes],
    here: Sequence[Track],
    shown: Shown,
    styles: Mapping[str, tuple[str, str]],
    where: str,
) -> None:
    """Each run faint, the running median of the seeds' mean bold; grey where the warm-up is not counted."""
    methods = list(dict.fromkeys(track.method for track in here))
    seeds = len(here) / len(methods)
    warmup = max(shown.warmup[track.method] for track in here)
    for panel, values, label in (
        (panels[0], "loss", "loss, nats per token"),
        (panels[1], "norm", "gradient norm before clipping"),
    ):
        panel.axvspan(0, warmup, color="#8A8A8A", alpha=0.13, linewidth=0, zorder=0)
        for method in methods:
            runs = [track for track in here if track.method == method]
            for track in runs:
                series = np.asarray(getattr(track, values))
                alpha = 0.45 / math.sqrt(seeds)
                panel.plot(track.steps, series, color=styles[method][0], linewidth=0.7, alpha=alpha)
            mean = np.mean([getattr(track, values) for track in runs], axis=0)
            bold = stability.level(mean, max(stability.LEVEL_WINDOW, len(mean) // 15))
            # a few markers, each method's between the others', tell the lines apart without their colour
            every = max(1, len(bold) // _MARKERS)
            first = every * methods.index(method) // len(methods)
            at = slice(first, None, every)
            panel.plot(runs[0].steps, bold, color=styles[method][0], linewidth=1.8, zorder=3)
            panel.plot(runs[0].steps[at], bold[at], **marked(*styles[method]), linestyle="none", zorder=4)
        panel.set_yscale("log")
        _plain(panel.yaxis)
        panel.set_ylabel(label)
        panel.set_xlim(0, max(here[0].steps))
    panels[0].set_title(where, loc="left")
    panels[0].tick_params(labelbottom=False)
    panels[1].set_xlabel("step (grey: warm-up, not counted)")
    limits = {track.clip_norm for track in here}
    limit = next(iter(limits))
    if len(limits) == 1 and limit is not None:
        panels[1].axhline(limit, color="#333333", linewidth=0.9, linestyle=(0, (4, 2)))
        panels[1].annotate(
            f"clipped to {limit:g}",
            (1, limit),
            xycoords=("axes fraction", "data"),
            xytext=(-3, 2),
            textcoords="offset points",
            ha="right",
            bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.85, "pad": 0.8},
            zorder=5,
            fontsize=7.5,
            color="#333333",
        )


def _plain(axis: Any) -> None:
    """A logarithmic axis with numbers as people write them, as many as there is room for."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    low, high = axis.get_view_interval()
    subs: tuple[float, ...] = (1.0,)
    for span, finer in ((200, (1.0, 3.0)), (40, (1.0, 2.0, 5.0)), (8, (1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0))):
        subs = finer if high / low < span else subs
    axis.set_major_locator(LogLocator(subs=subs))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_locator(NullLocator())


def _dots(
    panel: Axes,
    lines: Sequence[Line],
    shown: Shown,
    styles: Mapping[str, tuple[str, str]],
    quantity: tuple[str, float],
) -> None:
    label, factor = quantity
    reached = []
    for place, line in enumerate(lines):
        colour, marker = styles[line.method]
        ends = [x * factor for x in (line.low, line.high) if x is not None]
        if ends:
            panel.plot(ends, [place, place], color=colour, linewidth=1.5)
        panel.plot([line.value * factor], [place], color=colour, marker=marker, markersize=5.5, linestyle="none")
        reached += [*ends, line.value * factor]
        told = "reference" if line.ratio_to_reference is None else _times(line)
        panel.annotate(told, (1.02, place), xycoords=("axes fraction", "data"), va="center", fontsize=7.5)
        if line.expected:
            panel.plot([line.expected * factor], [place], color=_EXPECTED, marker="|", markersize=11, linestyle="none")
            reached.append(line.expected * factor)
    panel.set_xscale("log")
    middle = math.sqrt(min(reached) * max(reached))
    # at least a factor of four, so that ticks are seen and small differences look small
    span = max(max(reached) / min(reached) * 1.25, 4)
    panel.set_xlim(middle / math.sqrt(span), middle * math.sqrt(span))
    _plain(panel.xaxis)
    panel.set_yticks(range(len(lines)), [shown.range_of(line.method) for line in lines])
    panel.tick_params(axis="y", length=0)
    panel.grid(axis="y", visible=False)
    panel.set_ylim(len(lines) - 0.5, -0.5)
    panel.set_title(label, loc="left", fontsize=8.5)


_EXPECTED = "#333333"


def _handles(
    methods: Sequence[str], shown: Shown, styles: Mapping[str, tuple[str, str]], seeds: int, expected: bool
) -> list[Any]:
    from matplotlib.lines import Line2D

    handles = [line_handle(styles[method], shown.name(method)) for method in methods]
    words = "running median; faint: as logged" if seeds == 1 else "running median of the seeds' mean; faint: each run"
    handles.append(Line2D([], [], color="#777777", linewidth=1.8, label=words))
    if expected:
        words = "expected from the draw of t and masks alone, if every token cost the same"
        handles.append(line_handle((_EXPECTED, "|"), words, "none"))
    return handles
