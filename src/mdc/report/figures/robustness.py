"""Quality of captions over the strength of a distortion of the test images, one panel for each kind of distortion.

Captioners start from different levels. Each is therefore compared by the share of its own quality on undistorted images that it
keeps at the strongest distortion. Quality is the score above the mismatched-image control: a captioner that ignores its image has
none.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import cycle, product
from pathlib import Path
from typing import Any

import numpy as np

from mdc.plan.jobs.shown import ArtefactJob, Labelled
from mdc.report import words
from mdc.report.caption_numbers import Captioned
from mdc.report.figures.drawing import bottom_legend, drawing, error_bars, headline
from mdc.report.figures.styles import method_styles
from mdc.report.frame import Contrast, Side, decided, write_contrasts, write_levels
from mdc.report.manifests import Manifests
from mdc.report.statistics.claims import Claim, claim
from mdc.report.statistics.estimate import NOT_COMPARED, estimate
from mdc.report.statistics.replicates import Floats, Replicates

SHOWN = {
    "kind": "robustness",
    "artefacts": {"figure_robustness": {"title": "Figure: captions of distorted images"}},
    "files": ".png .svg .pdf .csv _contrasts.csv _runs.csv",
    "caption": "How fast captions become worse as test images do at scale {scale}: Gaussian noise, blur, JPEG and cut-out in "
    "five strengths, a curve a captioner, with intervals.",
    "config": "caption_table.RobustnessFigure",
    "plan": "caption_plans.robustness",
}

#: the metric of the second row of panels, where it is known: the share of true statements
_PRECISION = "precision"
_APART = 0.06  # of a strength: from a curve's marker to the next one's


class Worsening(Labelled):
    """A system's keys under one ``kind`` of distortion, called ``kind_label``, by a ``method`` on a ``backbone``, from none to
    the strongest. ``control``: its mismatched-image control, above whose quality its own counts; None if the scale has none."""

    kind: str
    kind_label: str
    method: str
    backbone: str
    systems: list[str]
    control: str | None


def curves_of(job: ArtefactJob) -> list[Worsening]:
    """The curves of a job."""
    return [Worsening(**curve) for curve in job.more["curves"]]


def make(job: ArtefactJob, manifests: Manifests, out: Path) -> None:
    """Write the figure, its numbers and its claims into ``out``; errors as of Table 3."""
    results = Captioned(job, manifests)
    # every curve starts at the undistorted images
    lines = [
        (results.number(key, column), curve.kind, place, curve.key)
        for curve in curves_of(job)
        for place, key in enumerate(curve.systems)
        for column in results.columns
    ]
    numbers, kinds, places, keys = zip(*lines, strict=True)
    write_levels(out / f"{job.artefact}.csv", job, numbers, distortion=kinds, strength=places, curve=keys)
    claims = _claims(job, results)
    write_contrasts(out / f"{job.artefact}_contrasts.csv", job, claims)
    _draw(job, results, [out / f"{job.artefact}.{ending}" for ending in ("png", "svg", "pdf")])


def _claims(job: ArtefactJob, results: Captioned) -> list[Contrast]:
    """The share of quality that the first system keeps at the strongest distortion minus that of the second, in points, for each
    kind; decided for the claimed kinds. A pair is not compared if one of the two is not above its mismatched-image control, or
    the metric is not available."""
    measure, statistics = job.primary_metric, job.statistics
    curves = {(curve.kind, curve.key): curve for curve in curves_of(job)}
    lines: list[Contrast] = []
    claims: list[Claim | None] = []
    for kind, pair in product(dict.fromkeys(curve.kind for curve in curves_of(job)), job.more["between"]):
        sides = [curves[kind, key] for key in pair]
        named = [replace(Side.of(results.systems[side.systems[0]]), method=side.label) for side in sides]
        ends = named[0].key, named[1].key
        more = {"first": named[0], "second": named[1], "condition": kind}
        known = [kept(results, side, measure) for side in sides] if measure in results.columns else [None]
        if None in known and kind not in job.more["claimed"]:
            continue
        if None in known:
            lines.append(results.not_compared("kept", ends, measure, **more))
            tested = Claim(NOT_COMPARED)
        else:
            first, second = (share for share in known if share is not None)
            lines.append(
                results.contrast(
                    "kept", ends, measure, estimate(first - second, statistics.level, contrast=True), **more
                )
            )
            tested = claim(first - second, statistics.margins.get("kept"), statistics.level)
        claims.append(tested if kind in job.more["claimed"] else None)
    return decided(lines, claims, statistics)


def kept(results: Captioned, curve: Worsening, measure: str) -> Replicates | None:
    """The quality under the strongest distortion, in per cent of that on undistorted images; both above the mismatched-image
    control. None without a control, or if the interval on undistorted images is not above it."""
    if curve.control is None:
        return None
    whole, worst, control = (
        results.whole(key, measure) for key in (curve.systems[0], curve.systems[-1], curve.control)
    )
    above = whole - control
    low = estimate(above, results.job.statistics.level, contrast=True).low
    if low is None or low <= 0 or above.values[:, 0].min() <= 0:
        return None

    def share(first: Floats, last: Floats, floor: Floats) -> Floats:
        # undefined on resamples without quality
        own, left = np.broadcast_arrays(first - floor, last - floor)
        return 100 * np.divide(left, own, out=np.full(own.shape, np.nan), where=own > 0)

    return whole.of(share, worst, control)


def _draw(job: ArtefactJob, results: Captioned, paths: Sequence[Path]) -> None:
    curves = curves_of(job)
    kinds: dict[str, str] = {curve.kind: curve.kind_label for curve in curves}
    rows = [key for key in dict.fromkeys((job.primary_metric, _PRECISION)) if key in results.columns]
    rows = rows or list(results.columns)[:1]  # where neither is available
    styles = method_styles(dict.fromkeys(curve.method for curve in curves))
    lines = dict(zip(dict.fromkeys(curve.backbone for curve in curves), cycle(("-", "--", ":"))))
    names = list(dict.fromkeys(curve.key for curve in curves))
    # of several curves of one method on one backbone the first has filled markers
    alike: dict[tuple[str, str], list[str]] = {}
    for curve in curves:
        same = alike.setdefault((curve.method, curve.backbone), [])
        same += [curve.key] if curve.key not in same else []
    with drawing(2.7 * max(len(kinds), 2) + 0.6, 2.5 * len(rows) + 1.5, paths) as figure:
        panels = figure.subplots(len(rows), len(kinds), squeeze=False, sharey="row", sharex=True)
        for row, key in zip(panels, rows, strict=True):
            for panel, kind in zip(row, kinds, strict=True):
                for curve in (claim for claim in curves if claim.kind == kind):
                    numbers = [results.number(system, key) for system in curve.systems]
                    points = [(number.value, *number.ends) for number in numbers]
                    look: dict[str, Any] = {"markersize": 4.5, "linestyle": lines[curve.backbone], "label": curve.label}
                    place = alike[curve.method, curve.backbone].index(curve.key)
                    look["fillstyle"] = ("full", "none", "bottom", "left")[place % 4]
                    off = _APART * (names.index(curve.key) - (len(names) - 1) / 2)
                    at = [step + off for step in range(len(points))]
                    error_bars(panel, at, points, styles[curve.method], bars=0.5, **look)
                    panel.set_xticks(range(len(points)), ["none", *map(str, range(1, len(points)))])
            row[0].set_ylim(bottom=0)  # once all of them, which share it, are drawn
            row[0].set_ylabel(results.columns[key] if key != _PRECISION else "precision of statements, %")
        for panel, label in zip(panels[0], kinds.values(), strict=True):
            panel.set_title(label)
        for panel in panels[-1]:
            panel.set_xlabel("strength")
        headline(figure, f"{words.heading(job)}, {words.scale_text(job)}")
        bottom_legend(figure, panels[0][0].get_legend_handles_labels()[0], words.bars(job))
