"""MC-Diffusion, figure 3: CLIPScore of captions over each of their metrics against references, as guidance grows.

Guidance trades one for the other, so kinds of guidance are compared at equal CIDEr: of each curve, the highest CLIPScore that it
reaches at that CIDEr or above, with straight lines between its points; the mean of that over the CIDEr that both curves reach.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from mdc.jobs.shown import Curve, GuidanceFigureJob
from mdc.records import write_text
from mdc.report import words
from mdc.report.caption_numbers import Captioned
from mdc.report.figures.accuracy_panels import bottom_legend
from mdc.report.figures.drawing import drawing, headline
from mdc.report.figures.styles import method_styles
from mdc.report.given import Given
from mdc.report.lines import Number, tidy
from mdc.report.tidy import csv_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Floats = NDArray[np.float64]

_Y = "CLIPScore"
_EQUAL = "CIDEr"
_PLACES = 65  # at which a curve is read; 0 and 1 are its ends
_CLAIM = ("scale", "curve", "against", "points", "low", "high", "from", "to", "n", "seeds", "verdict")


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
    write_text(out / f"{job.artefact}_claims.csv", csv_text([one.line(job) for one in claims], _CLAIM))
    _draw(job, found, lines, claims, [out / f"{job.artefact}.{ending}" for ending in ("png", "svg", "pdf")])


# --- claims ---------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Claim:
    """The first curve's CLIPScore above the second's at equal CIDEr, between ``start`` and ``stop``; None if they share none."""

    first: Curve
    second: Curve
    difference: float | None
    low: float | None
    high: float | None
    start: float | None
    stop: float | None
    images: int
    level: float

    @property
    def verdict(self) -> str:
        if self.difference is None or self.low is None or self.high is None:
            return "they share no CIDEr"
        if self.low > 0 or self.high < 0:
            return "higher" if self.low > 0 else "lower"
        return "cannot be told"

    def line(self, job: GuidanceFigureJob) -> dict[str, object]:
        """As the csv file has it."""
        return {
            **{
                "scale": job.scale,
                "curve": self.first.label,
                "against": self.second.label,
                "points": self.difference,
            },
            **{"low": self.low, "high": self.high, "from": self.start, "to": self.stop, "n": self.images},
            **{"seeds": " ".join(map(str, job.seeds)), "verdict": self.verdict},
        }

    def words(self) -> str:
        """As the figure says it."""
        if self.difference is None:
            return f"{self.first.label} and {self.second.label}: {self.verdict}"
        numbers = f"{self.difference:+.2f} [{self.low:+.2f}, {self.high:+.2f}]".replace("-", "−")
        return f"{self.first.label} − {self.second.label} at equal {_EQUAL}: {numbers} points of {_Y}, {self.verdict}"


def _claims(job: GuidanceFigureJob, found: Captioned) -> list[_Claim]:
    """By the bootstrap over images: in each resample both curves are drawn anew."""
    if _Y not in found.columns or _EQUAL not in found.columns:
        return []
    curves = {curve.key: curve for curve in job.curves}
    images = found.count(found.systems[job.curves[0].systems[0]], _Y)
    rng = np.random.default_rng(0)
    shares = rng.multinomial(images, np.full(images, 1 / images), size=job.statistics.bootstrap) / images
    weights = np.concatenate([np.full((1, images), 1 / images), shares])
    drawn = {key: _points(found, curve, weights) for key, curve in curves.items()}
    claims = []
    for a, b in job.between:
        span = common(drawn[a][0], drawn[b][0])
        if span is None:
            claims.append(_Claim(curves[a], curves[b], None, None, None, None, None, images, job.statistics.level))
            continue
        apart = [
            _mean(drawn[a][row], span) - _mean(drawn[b][row], span)
            for row in range(len(weights))
            if common(drawn[a][row], drawn[b][row], span) is not None
        ]
        tail = 100 * (1 - job.statistics.level) / 2
        low, high = np.percentile(apart[1:], [tail, 100 - tail])
        claims.append(
            _Claim(curves[a], curves[b], apart[0], float(low), float(high), *span, images, job.statistics.level)
        )
    return claims


def _points(found: Captioned, curve: Curve, weights: Floats) -> Floats:
    """Of each resample the curve's points (R, points, 2): CIDEr and CLIPScore in per cent, means over seeds."""
    columns = []
    for key in curve.systems:
        group = found.group(found.systems[key])
        columns.append(
            np.stack(
                [np.mean([weights @ _values(member[name]) for member in group], axis=0) for name in (_EQUAL, _Y)],
                axis=-1,
            )
        )
    return 100 * np.stack(columns, axis=1)


def _values(items: object) -> Floats:
    return np.asarray(getattr(items, "value"))  # noqa: B009 - a column of means has them


def common(one: Floats, other: Floats, asked: tuple[float, float] | None = None) -> tuple[float, float] | None:
    """The CIDEr that both curves (points, 2) reach: from the greater of their least to the less of their greatest; None if there
    is none, or none of what is ``asked``."""
    low, high = max(one[:, 0].min(), other[:, 0].min()), min(one[:, 0].max(), other[:, 0].max())
    if asked is not None:
        low, high = max(low, asked[0]), min(high, asked[1])
    return (float(low), float(high)) if low < high else None


def reached(curve: Floats, at: Floats) -> Floats:
    """The highest CLIPScore of a curve (points, 2) at each CIDEr of ``at`` or above; its end where it reaches no such CIDEr."""
    steps = np.linspace(0, 1, _PLACES)
    pieces = [a + steps[:, None] * (b - a) for a, b in pairwise(curve)]
    line = np.concatenate(pieces)
    line = line[np.argsort(-line[:, 0], kind="stable")]
    best = np.maximum.accumulate(line[:, 1])
    place = np.searchsorted(-line[:, 0], -at, side="right") - 1
    return np.asarray(best[np.maximum(place, 0)])


def _mean(curve: Floats, span: tuple[float, float]) -> float:
    return float(reached(curve, np.linspace(*span, 33)).mean())


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
        headline(figure, f"MC-Diffusion, figure 3. What guidance trades, {words.scale_text(job)}")
        handles, labels = panels[0].get_legend_handles_labels()
        note = f"{words.intervals(found.levels.values(), job.seeds, 'Bars:')} Numbers: the scale of guidance."
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
