"""The position figure: what the image tells about a token, and how strongly a token teaches the encoder, by position."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mdc.plan.jobs.shown import PositionsFigureJob, PositionSystem
from mdc.report import words
from mdc.report.csv_file import names, write_csv
from mdc.report.figures.accuracy_panels import bottom_legend
from mdc.report.figures.drawing import drawing, headline, line_handle, plain_logarithm
from mdc.report.figures.styles import method_styles
from mdc.report.frame import ESTIMATE, Contrast, Side, estimate_cells, records_of, write_contrasts
from mdc.report.given import Given
from mdc.report.positions import CONTEXTS, SUFFIX, Positions
from mdc.report.statistics.claims import Decision
from mdc.report.statistics.estimate import Estimate, estimate
from mdc.report.statistics.replicates import Replicates

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SHOWN = {
    "artefacts": {"figure_position": {"title": "Figure: what the image tells, by position"}},
    "files": ".png .svg .csv _contrasts.csv _gradients.csv",
    "caption": "What the image adds to the log probability of a caption's token at scale {scale}, by the token's relative "
    "position: in the model's own contexts, and with the tokens before it shown and all others masked; and the norm of the "
    "loss's gradient at the visual tokens.",
    "config": "tables.PositionFigure",
    "plan": "score_plans.positions",
    "job": "shown.PositionsFigureJob",
}

Style = dict[str, tuple[str, str]]
_CURVES = (
    *names("scale artefact system dataset method context kind position unit"),
    *(*ESTIMATE, "outside_trained_range", "records"),
)
_GRADIENTS = (*names("scale artefact system dataset method step position"), *ESTIMATE, "records")


def make(job: PositionsFigureJob, given: Given, out: Path) -> None:
    """Write the figure and its csv files into ``out``; UserError names the record that is missing, stale or of another scale."""
    found = Positions(job, given)
    write_csv(out / "figure_position.csv", _curve_lines(found), _CURVES)
    write_contrasts(out / "figure_position_contrasts.csv", _contrasts(found))
    write_csv(out / "figure_position_gradients.csv", _gradient_lines(found), _GRADIENTS)
    _draw(found, [out / "figure_position.png", out / "figure_position.svg"])


_HALF = 0.5
_BLIND = (
    "What the image adds: log p with the image less log p with other images, which is their mean in own contexts and the log "
    "of the mean probability in matched ones. Hollow: more than half of the tokens have contexts with fewer or more masks than "
    "the method was trained with."
)


# --- lines --------------------------------------------------------------------------------------------------------------


def _named(found: Positions, system: PositionSystem) -> dict[str, Any]:
    labels = {"scale": found.job.scale, "artefact": found.job.artefact, "system": system.key}
    labels |= {"dataset": system.corpus.label, "method": system.method.label}
    return {**labels, "records": records_of(system)}


def _context(system: PositionSystem, context: str) -> str:
    """A context as the csv files name it."""
    return SUFFIX if system.reverse and context == "prefix" else context


def _curve_lines(found: Positions) -> list[dict[str, Any]]:
    lines = []
    for key, system in found.systems.items():
        for context in CONTEXTS:
            for kind in (None, *found.kinds[key]):
                untrained = found.untrained(key, kind) if context == "prefix" else [None] * found.job.bins
                for number, gain in found.curve(key, context, kind):
                    lines.append(
                        {
                            **_named(found, system),
                            "context": _context(system, context),
                            "kind": kind or "all",
                            "position": (number + 0.5) / found.job.bins,
                            "unit": "nats",
                            **estimate_cells(gain),
                            "outside_trained_range": untrained[number],
                        }
                    )
    return lines


def _contrasts(found: Positions) -> list[Contrast]:
    """The claims; then every method's fall in each context, and how it differs from the reference's, undecided."""
    lines = [
        _contrast(found, key, reference, "prefix", None, fall, decision)
        for key, reference, fall, decision in found.claims()
    ]
    for key in found.systems:
        for context in CONTEXTS:
            for kind in (None, *found.kinds[key]):
                for against in dict.fromkeys((None, found.reference(key))):
                    fall = found.fall(key, context, kind, against)
                    if fall is not None:
                        lines.append(_contrast(found, key, against, context, kind, fall))
    return lines


def _contrast(
    found: Positions,
    key: str,
    against: str | None,
    context: str,
    kind: str | None,
    fall: Replicates,
    decision: Decision | None = None,
) -> Contrast:
    """A fall, of the tokens of one kind or of all; the ``condition`` is the context."""
    system, other = found.systems[key], found.systems[against] if against else None
    sides = [
        Side(one.key, one.corpus.label, found.job.backbone, one.method.label)
        for one in (system, other)
        if one is not None
    ]
    return Contrast(
        scale=found.job.scale,
        artefact=found.job.artefact,
        kind="fall",
        first=sides[0],
        second=sides[1] if other else None,
        column=kind or "all",
        label=kind or "all tokens",
        metric="last third minus first third",
        unit="nats",
        found=estimate(fall, found.job.statistics.level, contrast=True),
        records=records_of(system, *([other] if other else [])),
        decision=decision,
        condition=_context(system, context),
    )


def _gradient_lines(found: Positions) -> list[dict[str, Any]]:
    return [
        {
            **_named(found, system),
            "step": step,
            "position": (number + 0.5) / found.job.bins,
            **estimate_cells(norm),
        }
        for key, system in found.systems.items()
        for step, number, norm in found.signal(key)
    ]


# --- the picture --------------------------------------------------------------------------------------------------------


def _draw(found: Positions, paths: Sequence[Path]) -> None:
    corpora = list(dict.fromkeys(system.corpus.label for system in found.job.systems))
    styles = method_styles(system.method.key for system in found.job.systems)
    labels = {
        system.method.key: f"{system.method.label} (control: suffix shown)" if system.reverse else system.method.label
        for system in found.job.systems
    }
    heads = [
        "own contexts: a description",
        "matched contexts: prefix shown, first mentions",
        "loss's gradient at visual tokens, trained",
        "gradient: last third / first third",
    ]
    with drawing(14.2, 2.75 * len(corpora) + 1.3, paths) as figure:
        axes = figure.subplots(len(corpora), 4, squeeze=False)
        for row, corpus in enumerate(corpora):
            here = {key: s for key, s in found.systems.items() if s.corpus.label == corpus}
            for column, context in enumerate(CONTEXTS):
                panel = axes[row, column]
                for key, system in here.items():
                    untrained = found.untrained(key) if context == "prefix" else []
                    beyond = {number for number, share in enumerate(untrained) if share is not None and share > _HALF}
                    _line(panel, found, found.curve(key, context), styles[system.method.key], beyond)
                panel.axhline(0, color="#333333", linewidth=0.8)
                panel.set_ylabel("nats that the image adds")
            _gradients(axes[row, 2], found, here, styles)
            _ratios(axes[row, 3], found, here, styles)
            for column, panel in enumerate(axes[row]):
                panel.set_title(f"{corpus}, {heads[column]}" if column == 0 else heads[column])
                if column < 3:
                    panel.set_xlim(0, 1)
                if row == len(corpora) - 1:
                    panel.set_xlabel("relative position in the caption" if column < 3 else "share of the training done")
        headline(
            figure,
            f"What the image tells about a token, by its position: {found.job.backbone}, scale {found.job.scale_label}",
        )
        entries = [line_handle(styles[key], labels[key]) for key in styles]
        bottom_legend(figure, entries, " ".join(said for said in (_BLIND, _verdicts(found)) if said))


def _line(
    panel: Axes,
    found: Positions,
    points: Sequence[tuple[int, Estimate]],
    style: tuple[str, str],
    beyond: Collection[int] = (),
) -> None:
    """Means by bin with their band; hollow in the bins that lie ``beyond`` what was trained."""
    colour, marker = style
    places = [(number + 0.5) / found.job.bins for number, _ in points]
    low, high = ([i.ends[end] for _, i in points] for end in (0, 1))
    panel.fill_between(places, low, high, color=colour, alpha=0.16, lw=0)
    panel.plot(places, [i.value for _, i in points], color=colour, marker=marker, markersize=4.2, linewidth=1.4)
    hollow = [(place, i.value) for place, (number, i) in zip(places, points, strict=True) if number in beyond]
    if hollow:
        style_of: dict[str, Any] = {
            "marker": marker,
            "markersize": 4.2,
            "markerfacecolor": "white",
            "markeredgecolor": colour,
        }
        panel.plot(*zip(*hollow, strict=True), linestyle="none", zorder=3, **style_of)


def _gradients(panel: Axes, found: Positions, here: dict[str, PositionSystem], styles: Style) -> None:
    for key, system in here.items():
        signal = found.signal(key)
        last = max(step for step, _, _ in signal)
        _line(panel, found, [(n, i) for step, n, i in signal if step == last], styles[system.method.key])
    panel.set_yscale("log")
    plain_logarithm(panel.yaxis)
    panel.set_ylabel("norm, log scale")


def _ratios(panel: Axes, found: Positions, here: dict[str, PositionSystem], styles: Style) -> None:
    for key, system in here.items():
        ratios = found.signal_ratio(key)
        colour, marker = styles[system.method.key]
        done = [share for share, _ in ratios]
        low, high = ([float(np.exp(i.ends[end])) for _, i in ratios] for end in (0, 1))
        panel.fill_between(done, low, high, color=colour, alpha=0.16, lw=0)
        value = [float(np.exp(i.value)) for _, i in ratios]
        panel.plot(done, value, color=colour, marker=marker, markersize=4.2, linewidth=1.4)
    panel.axhline(1, color="#333333", linewidth=0.8)
    panel.set_yscale("log")
    plain_logarithm(panel.yaxis)
    panel.set_ylabel("ratio of norms")


def _verdicts(found: Positions) -> str:
    """The claims: how much less a method falls than the reference in matched contexts."""
    said = []
    for key, reference, fall, decision in found.claims():
        one = _contrast(found, key, reference, "prefix", None, fall, decision)
        said.append(f"{one.what} {words.shown(one.found, 2)}, {words.verdict(decision, one.found, 2)}")
    if not said:
        return ""
    return f"Fall from the first third to the last in matched contexts, less than the reference's, in nats: {'; '.join(said)}."
