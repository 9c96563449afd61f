"""MC-Diffusion, figure 3: CLIPScore of captions over each of their metrics against references, as guidance grows.

Guidance trades one for the other, so kinds of guidance are compared at equal CIDEr (:mod:`mdc.report.statistics.curves`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from mdc.plan.jobs.shown import System
from mdc.plan.jobs.shown_captions import Curve, GuidanceFigureJob
from mdc.plan.records import write_text
from mdc.report import words
from mdc.report.caption_numbers import Captioned
from mdc.report.figures.accuracy_panels import bottom_legend
from mdc.report.figures.drawing import drawing, headline
from mdc.report.figures.styles import method_styles
from mdc.report.given import Given
from mdc.report.lines import Number, records_of, tidy
from mdc.report.statistics.curves import Floats, difference
from mdc.report.statistics.interval import Interval
from mdc.report.statistics.verdicts import Decision, decide
from mdc.report.tidy import csv_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SHOWN = {
    "kind": "guidance",
    "artefacts": {"mcd_figure3": {"title": "MC-Diffusion, figure 3: guidance"}},
    "files": ".png .svg .pdf .csv _claims.csv",
    "caption": "CLIPScore of captions over each of their metrics against references at scale {scale}, by the scale of guidance "
    "(MC-Diffusion, figure 3), and the differences between kinds of guidance at equal CIDEr.",
    "config": "caption_table.GuidanceFigure",
    "plan": "caption_plans.guidance",
    "job": "shown_captions.GuidanceFigureJob",
}

_Y = "CLIPScore"
_EQUAL = "CIDEr"
_CLAIM = (
    *("scale", "curve", "against", "points", "low", "high", "interval", "from", "to", "n", "seeds"),
    *("p", "p_holm", "verdict", "records"),
)


def make(job: GuidanceFigureJob, given: Given, out: Path) -> None:
    """Write the figure, its numbers and its claims into ``out``; errors as of Table 3."""
    found = Captioned(job, given)
    numbers = found.numbers()
    scales = {key: scale for curve in job.curves for key, scale in zip(curve.systems, curve.scales, strict=True)}
    named = {key: curve.label for curve in job.curves for key in curve.systems}
    # floors are no points of a curve
    lines = [number for number in numbers if number.system.key in scales]
    keys = [number.system.key for number in lines]
    curves, guidance = [named[key] for key in keys], [scales[key] for key in keys]
    write_text(out / f"{job.artefact}.csv", tidy(lines, Number, curve=curves, guidance=guidance))
    claims = _claims(job, found)
    write_text(out / f"{job.artefact}_claims.csv", csv_text([one.line(job, found.systems) for one in claims], _CLAIM))
    _draw(job, found, lines, claims, [out / f"{job.artefact}.{ending}" for ending in ("png", "svg", "pdf")])


# --- claims ---------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Claim:
    """The first curve's CLIPScore above the second's at equal CIDEr, in points, between the ``span`` of CIDEr, and the verdict;
    None if they share no CIDEr."""

    first: Curve
    second: Curve
    interval: Interval | None
    span: tuple[float, float] | None
    decision: Decision | None

    @property
    def verdict(self) -> str:
        return self.decision.verdict if self.decision is not None else "they share no CIDEr"

    def line(self, job: GuidanceFigureJob, systems: Mapping[str, System]) -> dict[str, object]:
        """As the csv file has it."""
        line: dict[str, object] = dict.fromkeys(_CLAIM)
        line |= {"scale": job.scale, "curve": self.first.label, "against": self.second.label}
        line |= {"seeds": " ".join(map(str, job.seeds)), "verdict": self.verdict}
        line |= {"records": records_of(*(systems[key] for key in (*self.first.systems, *self.second.systems)))}
        if self.interval is None or self.span is None or self.decision is None:
            return line
        found = self.interval
        line |= {"points": found.value, "low": found.low, "high": found.high, "n": found.n, "interval": found.kind}
        line |= {"from": self.span[0], "to": self.span[1]}
        return line | {"p": words.p_value(self.decision.p, 4), "p_holm": words.p_value(self.decision.p_holm, 4)}

    def words(self) -> str:
        """As the figure says it."""
        if self.interval is None:
            return f"{self.first.label} and {self.second.label}: {self.verdict}"
        found = self.interval
        numbers = f"{found.value:+.2f} [{found.low:+.2f}, {found.high:+.2f}]".replace("-", "−")
        return f"{self.first.label} − {self.second.label} at equal {_EQUAL}: {numbers} points of {_Y}, {self.verdict}"


def _claims(job: GuidanceFigureJob, found: Captioned) -> list[_Claim]:
    """Both curves are drawn anew in each resample of the images; p-values are corrected for one another, as in the tables."""
    if _Y not in found.columns or _EQUAL not in found.columns:
        return []
    curves = {curve.key: curve for curve in job.curves}
    images = found.count(found.systems[job.curves[0].systems[0]], _Y)
    rng = np.random.default_rng(0)
    shares = rng.multinomial(images, np.full(images, 1 / images), size=job.statistics.bootstrap) / images
    weights = np.concatenate([np.full((1, images), 1 / images), shares])
    drawn = {key: _points(found, curve, weights) for key, curve in curves.items()}
    apart = [difference(drawn[a], drawn[b], images, job.statistics.level) for a, b in job.between]
    statistics = job.statistics
    told = iter(decide([one[0] for one in apart if one], statistics.level, statistics.comparable, statistics.power))
    return [
        _Claim(curves[a], curves[b], *one, next(told)) if one else _Claim(curves[a], curves[b], None, None, None)
        for (a, b), one in zip(job.between, apart, strict=True)
    ]


def _points(found: Captioned, curve: Curve, weights: Floats) -> Floats:
    """Of each seed and resample the curve's points (S, R, points, 2): CIDEr and CLIPScore in per cent."""
    columns = [
        [
            np.stack([weights @ _values(member[name]) for name in (_EQUAL, _Y)], axis=-1)
            for member in found.group(system)
        ]
        for system in (found.systems[key] for key in curve.systems)
    ]
    return 100 * np.stack([np.stack(of_system) for of_system in columns], axis=2)


def _values(items: object) -> Floats:
    return np.asarray(getattr(items, "value"))  # noqa: B009 - a column of means has them


# --- drawing --------------------------------------------------------------------------------------------------------------


def _draw(
    job: GuidanceFigureJob, found: Captioned, numbers: Sequence[Number], claims: Sequence[_Claim], paths: Sequence[Path]
) -> None:
    across = [key for key in found.parts_of["paper"] if key in found.columns]
    styles = method_styles([curve.key for curve in job.curves])
    by = {(number.system.key, number.benchmark): number for number in numbers}
    with drawing(2.9 * len(across) + 0.5, 4.4, paths) as figure:
        panels = figure.subplots(1, len(across), squeeze=False, sharey=True)[0]
        for panel, key in zip(panels, across, strict=True):
            for curve in job.curves:
                _curve(panel, curve, found.columns[key], by, styles[curve.key], _Y in found.columns)
            panel.set_xlabel(found.columns[key])
        panels[0].set_ylabel(_Y if _Y in found.columns else f"{_Y} is not available")
        headline(figure, f"{job.title or 'MC-Diffusion, figure 3. What guidance trades'}, {words.scale_text(job)}")
        handles, labels = panels[0].get_legend_handles_labels()
        bars = words.intervals(found.levels.values(), job.seeds, "Bars:")
        note = f"{bars} Numbers: the scale of guidance. At equal {_EQUAL}: or at a higher one."
        said = " ".join([note, *(f"{claim.words()}." for claim in claims)])
        bottom_legend(figure, list(zip(handles, labels, strict=True)), said)


def _curve(
    panel: Axes, curve: Curve, metric: str, by: dict[tuple[str, str], Number], style: tuple[str, str], there: bool
) -> None:
    if not there:
        return
    points = [(by[key, metric], by[key, _Y]) for key in curve.systems]
    colour, marker = style
    x, y = [one.value for one, _ in points], [one.value for _, one in points]
    panel.errorbar(
        x,
        y,
        xerr=[[one.value - one.low for one, _ in points], [one.high - one.value for one, _ in points]],
        yerr=[[one.value - one.low for _, one in points], [one.high - one.value for _, one in points]],
        color=colour,
        marker=marker,
        markersize=4,
        linewidth=1.2,
        elinewidth=0.6,
        label=curve.label,
    )
    for a, b, scale in zip(x, y, curve.scales, strict=True):
        panel.annotate(f"{scale:g}", (a, b), textcoords="offset points", xytext=(4, 4), fontsize=6.5, color=colour)
