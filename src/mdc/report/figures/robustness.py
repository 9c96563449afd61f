"""How fast captions become worse as test images do: their quality over the strength of a distortion, a panel a kind.

Captioners start from different levels, so they are compared by the share of its own quality on untouched images that each
keeps at the strongest distortion. Quality is what lies above the same captioner on other images: one that ignores its image has
none, and keeps nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import cycle, product
from pathlib import Path
from typing import Any

import numpy as np

from mdc.plan.jobs.shown_captions import RobustnessFigureJob, Worsening
from mdc.report import words
from mdc.report.caption_numbers import Captioned
from mdc.report.figures.drawing import bottom_legend, drawing, error_bars, headline
from mdc.report.figures.styles import method_styles
from mdc.report.frame import Contrast, Side, decided, records_of, write_contrasts, write_levels
from mdc.report.given import Given
from mdc.report.statistics.claims import Claim, claim
from mdc.report.statistics.estimate import estimate
from mdc.report.statistics.replicates import Floats, Replicates

SHOWN = {
    "kind": "robustness",
    "artefacts": {"figure_robustness": {"title": "Figure: captions of worse and worse images"}},
    "files": ".png .svg .pdf .csv _contrasts.csv",
    "caption": "How fast captions become worse as test images do at scale {scale}: Gaussian noise, blur, JPEG and cut-out in "
    "five strengths, a curve a captioner, with intervals.",
    "config": "caption_table.RobustnessFigure",
    "plan": "caption_plans.robustness",
    "job": "shown_captions.RobustnessFigureJob",
}

#: of each row of panels its metric: the one that is claimed, and what of the captions is true, where it is known
_TRUE = "true"


def make(job: RobustnessFigureJob, given: Given, out: Path) -> None:
    """Write the figure, its numbers and its claims into ``out``; errors as of Table 3."""
    found = Captioned(job, given)
    # an untouched image is the beginning of every kind's curve
    lines = [
        (found.number(key, column), curve.kind, place, curve.key)
        for curve in job.curves
        for place, key in enumerate(curve.systems)
        for column in found.columns
    ]
    numbers, kinds, places, keys = zip(*lines, strict=True)
    write_levels(out / f"{job.artefact}.csv", job, numbers, distortion=kinds, strength=places, curve=keys)
    claims = _claims(job, found)
    write_contrasts(out / f"{job.artefact}_contrasts.csv", job, claims)
    _draw(job, found, claims, [out / f"{job.artefact}.{ending}" for ending in ("png", "svg", "pdf")])


def _claims(job: RobustnessFigureJob, found: Captioned) -> list[Contrast]:
    """What the first system keeps of its quality at the strongest distortion of a kind, minus what the second keeps, in
    points; of the kinds that are claimed, decided. A pair of which one is not better on its own images than on others
    has nothing to keep, and is not compared."""
    measure, how = job.primary_metric, job.statistics
    if measure not in found.columns or found.claims_lost:
        return []
    curves = {(curve.kind, curve.key): curve for curve in job.curves}
    lines: list[Contrast] = []
    claims: list[Claim | None] = []
    for kind, pair in product(dict.fromkeys(curve.kind for curve in job.curves), job.between):
        sides = [curves[kind, key] for key in pair]
        one, other = (kept(found, side, measure) for side in sides)
        if one is None or other is None:
            continue
        claims.append(claim(one - other, how.margins.get("kept"), how.level) if kind in job.claimed else None)
        named = [replace(Side.of(found.systems[side.systems[0]]), method=side.label) for side in sides]
        keys = [key for side in sides for key in (*side.systems, side.control) if key is not None]
        records = records_of(*(found.systems[key] for key in keys))
        more = {"first": named[0], "second": named[1], "records": records, "condition": kind}
        apart = estimate(one - other, how.level, contrast=True)
        lines.append(found.contrast("kept", (named[0].key, named[1].key), measure, apart, **more))
    return decided(lines, claims, how)


def kept(found: Captioned, curve: Worsening, measure: str) -> Replicates | None:
    """The quality under the strongest distortion in per cent of that on untouched images, both above the same captioner
    on other images.

    None if it has no such control, or is not sure to be above it on untouched images.
    """
    if curve.control is None:
        return None
    whole, worst, control = (found.whole(key, measure) for key in (curve.systems[0], curve.systems[-1], curve.control))
    above = whole - control
    low = estimate(above, found.job.statistics.level, contrast=True).low
    if low is None or low <= 0 or above.values[:, 0].min() <= 0:
        return None

    def share(first: Floats, last: Floats, floor: Floats) -> Floats:
        # not defined where a resample has nothing to keep
        own, left = np.broadcast_arrays(first - floor, last - floor)
        return 100 * np.divide(left, own, out=np.full(own.shape, np.nan), where=own > 0)

    return whole.of(share, worst, control)


def _draw(job: RobustnessFigureJob, found: Captioned, claims: Sequence[Contrast], paths: Sequence[Path]) -> None:
    kinds: dict[str, str] = {curve.kind: curve.kind_label for curve in job.curves}
    rows = [key for key in dict.fromkeys((job.primary_metric, _TRUE)) if key in found.columns]
    rows = rows or list(found.columns)[:1]  # where neither is available
    styles = method_styles(dict.fromkeys(curve.method for curve in job.curves))
    lines = dict(zip(dict.fromkeys(curve.backbone for curve in job.curves), cycle(("-", "--", ":"))))
    # of one method on one backbone the first is filled, others are not
    alike: dict[tuple[str, str], list[str]] = {}
    for curve in job.curves:
        same = alike.setdefault((curve.method, curve.backbone), [])
        same += [curve.key] if curve.key not in same else []
    with drawing(2.7 * max(len(kinds), 2) + 0.6, 2.5 * len(rows) + 1.5, paths) as figure:
        panels = figure.subplots(len(rows), len(kinds), squeeze=False, sharey="row", sharex=True)
        for row, key in zip(panels, rows, strict=True):
            for panel, kind in zip(row, kinds, strict=True):
                for curve in (one for one in job.curves if one.kind == kind):
                    numbers = [found.number(system, key) for system in curve.systems]
                    points = [(number.value, *number.ends) for number in numbers]
                    look: dict[str, Any] = {"markersize": 4.5, "linestyle": lines[curve.backbone], "label": curve.label}
                    place = alike[curve.method, curve.backbone].index(curve.key)
                    look["fillstyle"] = ("full", "none", "bottom", "left")[place % 4]
                    error_bars(panel, range(len(points)), points, styles[curve.method], bars=0.5, **look)
                    panel.set_xticks(range(len(points)), ["none", *map(str, range(1, len(points)))])
            row[0].set_ylim(bottom=0)  # once all of them, which share it, are drawn
            row[0].set_ylabel(found.columns[key] if key != _TRUE else "true statements, per cent")
        for panel, label in zip(panels[0], kinds.values(), strict=True):
            panel.set_title(label)
        for panel in panels[-1]:
            panel.set_xlabel("strength")
        headline(figure, f"{words.heading(job)}, {words.scale_text(job)}")
        note = words.intervals(found.levels.values(), job.seeds, "Bars:")
        told = [f"{kinds[one.condition]}: {said}" for one in claims for said in words.claims_told([one])]
        if told:
            what = "Share of the quality above mismatched images that is kept at the strongest distortion, difference in points"
            note += f" {what}: {'; '.join(told)}."
        bottom_legend(figure, panels[0][0].get_legend_handles_labels()[0], note)
