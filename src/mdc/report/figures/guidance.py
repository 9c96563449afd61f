"""MC-Diffusion, figure 3: CLIPScore of captions over each of their metrics against references, as guidance grows.

Guidance trades one for the other, so kinds of guidance are compared at equal CIDEr (:mod:`mdc.report.statistics.curves`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mdc.plan.jobs.shown_captions import Curve, GuidanceFigureJob
from mdc.report import words
from mdc.report.caption_numbers import Captioned
from mdc.report.figures.drawing import bottom_legend, drawing, error_bars, headline
from mdc.report.figures.styles import method_styles
from mdc.report.frame import Contrast, Number, Side, records_of, write_contrasts, write_levels
from mdc.report.given import Given
from mdc.report.statistics.claims import Claim, Decision, decide
from mdc.report.statistics.curves import Floats, difference
from mdc.report.statistics.estimate import Estimate, estimate
from mdc.report.statistics.replicates import Replicates

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SHOWN = {
    "kind": "guidance",
    "artefacts": {"mcd_figure3": {"title": "MC-Diffusion, figure 3: guidance"}},
    "files": ".png .svg .pdf .csv _contrasts.csv",
    "caption": "CLIPScore of captions over each of their metrics against references at scale {scale}, by the scale of guidance "
    "(MC-Diffusion, figure 3), and the differences between kinds of guidance at equal CIDEr.",
    "config": "caption_table.GuidanceFigure",
    "plan": "caption_plans.guidance",
    "job": "shown_captions.GuidanceFigureJob",
}

_Y = "CLIPScore"
_EQUAL = "CIDEr"


def make(job: GuidanceFigureJob, given: Given, out: Path) -> None:
    """Write the figure, its numbers and its claims into ``out``; errors as of Table 3."""
    found = Captioned(job, given)
    numbers = found.numbers()
    scales = {key: scale for curve in job.curves for key, scale in zip(curve.systems, curve.scales, strict=True)}
    named = {key: curve.key for curve in job.curves for key in curve.systems}
    # floors are no points of a curve
    lines = [number for number in numbers if number.system.key in scales]
    keys = [number.system.key for number in lines]
    curves, guidance = [named[key] for key in keys], [scales[key] for key in keys]
    write_levels(out / f"{job.artefact}.csv", lines, curve=curves, guidance=guidance)
    claims = _claims(job, found)
    compared = [
        (line, one.span) for one in claims if (line := one.line(job, found)) is not None and one.span is not None
    ]
    low, high = [span[0] for _, span in compared], [span[1] for _, span in compared]
    write_contrasts(
        out / f"{job.artefact}_contrasts.csv", [line for line, _ in compared], cider_from=low, cider_to=high
    )
    _draw(job, found, lines, claims, [out / f"{job.artefact}.{ending}" for ending in ("png", "svg", "pdf")])


# --- claims ---------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Claim:
    """The first curve's CLIPScore above the second's at equal CIDEr, in points, between the ``span`` of CIDEr, and what
    was found of it; None if they share no CIDEr."""

    first: Curve
    second: Curve
    estimate: Estimate | None
    span: tuple[float, float] | None
    decision: Decision | None

    def line(self, job: GuidanceFigureJob, found: Captioned) -> Contrast | None:
        """As the csv file has it; None if there is nothing to compare."""
        if self.estimate is None:
            return None
        system = found.systems[self.first.systems[0]]
        sides = [
            Side(one.key, Side.of(system).dataset, system.backbone.label, one.label)
            for one in (self.first, self.second)
        ]
        return Contrast(
            scale=job.scale,
            artefact=job.artefact,
            kind="curves",
            first=sides[0],
            second=sides[1],
            column=_Y,
            label=found.columns[_Y],
            metric=found.metric[_Y],
            unit="points",
            found=self.estimate,
            records=records_of(*(found.systems[key] for key in (*self.first.systems, *self.second.systems))),
            decision=self.decision,
            condition=f"equal {_EQUAL}",
        )

    def words(self) -> str:
        """As the figure says it."""
        if self.estimate is None or self.decision is None:
            return f"{self.first.label} and {self.second.label} share no {_EQUAL}"
        shown = words.shown(self.estimate, 2)
        return f"{self.first.label} − {self.second.label}: {shown}, {words.verdict(self.decision, self.estimate)}"


def _claims(job: GuidanceFigureJob, found: Captioned) -> list[_Claim]:
    """Both curves are drawn on the same resamples of the images."""
    if _Y not in found.columns or _EQUAL not in found.columns:
        return []
    curves, how = {curve.key: curve for curve in job.curves}, job.statistics
    claims: list[_Claim] = []
    for a, b in job.between:
        most = max(found.replicates[key, _Y].seeds for side in (a, b) for key in curves[side].systems)
        one, other = (np.stack([_points(found, key, most) for key in curves[side].systems], axis=2) for side in (a, b))
        apart = difference(one, other)
        if apart is None:
            claims.append(_Claim(curves[a], curves[b], None, None, None))
            continue
        values, span = apart
        first = found.replicates[curves[a].systems[0], _Y]
        distance = estimate(Replicates(values, first.n, first.groups), how.level, contrast=True)
        claims.append(_Claim(curves[a], curves[b], distance, span, None))
    told = iter(decide([Claim(one.estimate) for one in claims if one.estimate], how.level, how.power, how.order))
    return [one if one.estimate is None else replace(one, decision=next(told)) for one in claims]


def _points(found: Captioned, system: str, seeds: int) -> Floats:
    """Of each of so many seeds and each resample a point of a curve, (S, 1 + R, 2): CIDEr and CLIPScore in per cent."""
    points = np.stack([found.replicates[system, name].values for name in (_EQUAL, _Y)], axis=-1)
    return np.broadcast_to(points, (seeds, *points.shape[1:]))  # one record counts with every seed


# --- drawing --------------------------------------------------------------------------------------------------------------


def _draw(
    job: GuidanceFigureJob, found: Captioned, numbers: Sequence[Number], claims: Sequence[_Claim], paths: Sequence[Path]
) -> None:
    across = [key for key in found.parts_of["paper"] if key in found.columns]
    styles = method_styles([curve.key for curve in job.curves])
    by = {(number.system.key, number.label): number for number in numbers}
    rows = -(-len(across) // 2)
    with drawing(10.0, 3.9 * rows + 1.2, paths) as figure:
        panels = figure.subplots(rows, 2, squeeze=False, sharey=True).ravel()
        for panel in panels[len(across) :]:
            panel.set_visible(False)
        for panel, key in zip(panels, across, strict=False):
            for curve in job.curves:
                _curve(panel, curve, found.columns[key], by, styles[curve.key], _Y in found.columns)
            panel.set_xlabel(found.columns[key])
        panels[0].set_ylabel(_Y if _Y in found.columns else f"{_Y} is not available")
        headline(figure, f"{words.heading(job)}, {words.scale_text(job)}")
        bars = words.intervals(found.levels.values(), job.seeds, "Bars:")
        said = " ".join([f"{bars} Numbers: the least and the greatest scale of guidance.", *_said(claims)])
        bottom_legend(figure, panels[0].get_legend_handles_labels()[0], said)


def _said(claims: Sequence[_Claim]) -> list[str]:
    return (
        [f"Points of {_Y} at equal {_EQUAL} or a higher one: {'; '.join(claim.words() for claim in claims)}."]
        if claims
        else []
    )


def _curve(
    panel: Axes, curve: Curve, metric: str, by: dict[tuple[str, str], Number], style: tuple[str, str], there: bool
) -> None:
    if not there:
        return
    points = [(by[key, metric], by[key, _Y]) for key in curve.systems]
    colour, _ = style
    x, y = [one.value for one, _ in points], [one.value for _, one in points]
    faint: dict[str, Any] = {"bars": 0.22, "markersize": 5}
    error_bars(panel, y, [(one.value, *one.ends) for one, _ in points], style, across=True, **faint)
    error_bars(
        panel, x, [(one.value, *one.ends) for _, one in points], style, linestyle="-", label=curve.label, **faint
    )
    # the direction in which the scale grows, by its ends
    for place in (0, -1):
        label: dict[str, Any] = {"fontsize": 8.5, "color": colour, "weight": "bold", "textcoords": "offset points"}
        panel.annotate(f"{curve.scales[place]:g}", (x[place], y[place]), xytext=(6, 5), zorder=4, **label)
