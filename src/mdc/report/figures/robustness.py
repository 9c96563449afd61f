"""How fast captions become worse as test images do: their quality over the strength of a distortion, a panel a kind.

Captioners start from different levels, so they are compared by the share of its own quality on untouched images that each
keeps at the strongest distortion.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from mdc.plan.config.distortion import Kind
from mdc.plan.jobs.shown_captions import RobustnessFigureJob, Worsening
from mdc.plan.records import write_text
from mdc.report import words
from mdc.report.caption_numbers import Captioned
from mdc.report.figures.accuracy_panels import bottom_legend
from mdc.report.figures.drawing import drawing, headline
from mdc.report.figures.styles import method_styles
from mdc.report.given import Given
from mdc.report.items import ProbeItems
from mdc.report.lines import Number, records_of, tidy
from mdc.report.statistics.drawn import of_resamples
from mdc.report.statistics.interval import Interval
from mdc.report.statistics.verdicts import Decision, decide
from mdc.report.tidy import csv_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SHOWN = {
    "kind": "robustness",
    "artefacts": {"figure_robustness": {"title": "Figure: captions of worse and worse images"}},
    "files": ".png .svg .pdf .csv _claims.csv",
    "caption": "How fast captions become worse as test images do at scale {scale}: Gaussian noise, blur, JPEG and cut-out in "
    "five strengths, a curve a captioner, with intervals.",
    "config": "caption_table.RobustnessFigure",
    "plan": "caption_plans.robustness",
    "job": "shown_captions.RobustnessFigureJob",
}

Floats = NDArray[np.float64]

#: of each row of panels its metric: the one that is claimed, and what of the captions is true, where it is known
_TRUE = "true"
_CLAIM = (
    *("scale", "distortion", "method", "against", "metric", "kept", "kept_against", "points", "low", "high"),
    *("interval", "n", "seeds", "p", "p_holm", "verdict", "primary", "records"),
)


def make(job: RobustnessFigureJob, given: Given, out: Path) -> None:
    """Write the figure, its numbers and its claims into ``out``; errors as of Table 3."""
    found = Captioned(job, given)
    numbers = found.numbers()
    places = {key: (curve, place) for curve in job.curves for place, key in enumerate(curve.systems)}
    by = {(number.system.key, number.benchmark): number for number in numbers}
    # an untouched image is the beginning of every kind's curve
    lines = [
        (curve, place, by[key, label])
        for curve in job.curves
        for place, key in enumerate(curve.systems)
        for label in found.columns.values()
    ]
    assert all(number.system.key in places for _, _, number in lines)
    more: dict[str, Sequence[object]] = {
        "distortion": [curve.kind for curve, _, _ in lines],
        "strength": [place for _, place, _ in lines],
        "system": [curve.key for curve, _, _ in lines],
    }
    write_text(out / f"{job.artefact}.csv", tidy([number for _, _, number in lines], Number, **more))
    claims = _claims(job, found)
    write_text(out / f"{job.artefact}_claims.csv", csv_text([one.line(job, found) for one in claims], _CLAIM))
    _draw(job, found, by, claims, [out / f"{job.artefact}.{ending}" for ending in ("png", "svg", "pdf")])


# --- claims ---------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Claim:
    """What the first system keeps of its quality at the strongest distortion of a kind, minus what the second keeps, in points
    (per cent of each one's own quality on untouched images). ``decision``: None if it was not claimed."""

    kind: Kind
    first: Worsening
    second: Worsening
    kept: tuple[float, float]
    interval: Interval
    decision: Decision | None

    def line(self, job: RobustnessFigureJob, found: Captioned) -> dict[str, object]:
        """As the csv file has it."""
        interval = self.interval
        return {
            "scale": job.scale,
            "distortion": self.kind,
            "method": self.first.label,
            "against": self.second.label,
            "metric": found.columns[job.primary_column],
            "kept": self.kept[0],
            "kept_against": self.kept[1],
            "points": interval.value,
            "low": interval.low,
            "high": interval.high,
            "interval": interval.kind,
            "n": interval.n,
            "seeds": " ".join(map(str, job.seeds)),
            "p": words.p_value(self.decision.p, 4) if self.decision else "",
            "p_holm": words.p_value(self.decision.p_holm, 4) if self.decision else "",
            "verdict": self.decision.verdict if self.decision else "",
            "primary": "true" if self.decision else "",
            "records": records_of(*(found.systems[key] for key in (*self.first.systems, *self.second.systems))),
        }

    def words(self) -> str:
        """As the figure says it; "" if it was not claimed, which the csv file alone holds."""
        if self.decision is None:
            return ""
        found = self.interval
        numbers = f"{found.value:+.1f} [{found.low:+.1f}, {found.high:+.1f}]".replace("-", "−")
        return f"{self.first.kind_label}: {self.first.label} − {self.second.label} {numbers} points, {self.decision.verdict}"


def _claims(job: RobustnessFigureJob, found: Captioned) -> list[_Claim]:
    """All systems are drawn on the same resamples of the images; p-values of what was claimed are corrected for one another."""
    if job.primary_column not in found.columns or found.claims_lost:
        return []
    curves = {(curve.kind, curve.key): curve for curve in job.curves}
    images = found.count(found.systems[job.curves[0].systems[0]], job.primary_column)
    rng = np.random.default_rng(0)
    shares = rng.multinomial(images, np.full(images, 1 / images), size=job.statistics.bootstrap) / images
    weights = np.concatenate([np.full((1, images), 1 / images), shares])
    apart = []
    for kind in dict.fromkeys(curve.kind for curve in job.curves):
        for one, other in job.between:
            first, second = (kept(found, curves[kind, key], job.primary_column, weights) for key in (one, other))
            whole = (float(first[:, 0].mean()), float(second[:, 0].mean()))
            interval = of_resamples(first - second, images, job.statistics.level)
            apart.append((kind, curves[kind, one], curves[kind, other], whole, interval))
    statistics = job.statistics
    claimed = [place for place, (kind, *_) in enumerate(apart) if kind in job.claimed]
    intervals = [apart[place][-1] for place in claimed]
    told = decide(intervals, statistics.level, statistics.comparable, statistics.power)
    decisions = dict(zip(claimed, told, strict=True))
    return [_Claim(*one, decisions.get(place)) for place, one in enumerate(apart)]


def kept(found: Captioned, curve: Worsening, measure: str, weights: Floats) -> Floats:
    """Of each seed and row of ``weights`` (1 + R, images), the quality under the strongest distortion in per cent of that on
    untouched images, (S, 1 + R); 0 where there is none to keep."""
    ends = [
        np.stack([quality(member[measure], weights) for member in found.group(found.systems[key])])
        for key in (curve.systems[0], curve.systems[-1])
    ]
    return 100 * np.divide(ends[1], ends[0], out=np.zeros_like(ends[0]), where=ends[0] > 0)


def quality(items: ProbeItems, weights: Floats) -> Floats:
    """A metric on weighted images: the mean of what each counts, or the statistic of what all do together."""
    if items.value is not None:
        return np.asarray(weights @ np.asarray(items.value, dtype=np.float64))
    assert items.statistic is not None
    return np.asarray(items.statistic(weights * weights.shape[1]), dtype=np.float64)


# --- drawing --------------------------------------------------------------------------------------------------------------


def _draw(
    job: RobustnessFigureJob,
    found: Captioned,
    by: dict[tuple[str, str], Number],
    claims: Sequence[_Claim],
    paths: Sequence[Path],
) -> None:
    kinds = list(dict.fromkeys(curve.kind for curve in job.curves))
    rows = [key for key in dict.fromkeys((job.primary_column, _TRUE)) if key in found.columns]
    styles = method_styles(list(dict.fromkeys(curve.key for curve in job.curves)))
    with drawing(2.7 * max(len(kinds), 2) + 0.6, 2.5 * len(rows) + 1.5, paths) as figure:
        panels = figure.subplots(len(rows), len(kinds), squeeze=False, sharey="row", sharex=True)
        for row, key in zip(panels, rows, strict=True):
            for panel, kind in zip(row, kinds, strict=True):
                curves = [one for one in job.curves if one.kind == kind]
                for curve in curves:
                    _curve(panel, curve, found.columns[key], by, styles[curve.key])
                strengths = range(len(curves[0].systems))
                panel.set_xticks(strengths, ["none", *map(str, strengths[1:])])
            row[0].set_ylim(bottom=0)  # once all of them, which share it, are drawn
            row[0].set_ylabel(found.columns[key] if key != _TRUE else "true statements, per cent")
        titles = {curve.kind: curve.kind_label for curve in job.curves}
        for panel, kind in zip(panels[0], kinds, strict=True):
            panel.set_title(titles[kind])
        for panel in panels[-1]:
            panel.set_xlabel("strength")
        headline(figure, f"{job.title or 'Captions of worse and worse images'}, {words.scale_text(job)}")
        handles, labels = panels[0][0].get_legend_handles_labels()
        note = words.intervals(found.levels.values(), job.seeds, "Bars:")
        said = "; ".join(filter(None, (claim.words() for claim in claims)))
        claimed = f" Of its own quality on untouched images, kept at the strongest distortion: {said}." if said else ""
        bottom_legend(figure, list(zip(handles, labels, strict=True)), f"{note}{claimed}")


def _curve(
    panel: Axes, curve: Worsening, metric: str, by: dict[tuple[str, str], Number], style: tuple[str, str]
) -> None:
    points = [by[key, metric] for key in curve.systems]
    colour, marker = style
    panel.errorbar(
        range(len(points)),
        [one.value for one in points],
        yerr=[[one.value - one.low for one in points], [one.high - one.value for one in points]],
        color=colour,
        marker=marker,
        markersize=4,
        linewidth=1.2,
        elinewidth=0.6,
        label=curve.label,
    )
