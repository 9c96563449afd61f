"""MC-Diffusion, figure 3: CLIPScore of captions over each reference-based metric, as guidance grows.

Guidance trades one for the other, so kinds of guidance are compared at equal CIDEr (``curves.py``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from mdc.extensions.mc_diffusion.mask_and_replace.method import Diffusing
from mdc.plan.config.captions import Captions, OfCaptions
from mdc.plan.config.references import Ref
from mdc.plan.config.types import Claims, Name, Names, Side, Strict
from mdc.plan.jobs.shown import ArtefactJob, Labelled

if TYPE_CHECKING:
    from mdc.extensions.mc_diffusion.figures.curves import Floats
    from mdc.plan.jobs.context import Context
    from mdc.report.caption_numbers import Captioned
    from mdc.report.figures.drawing import Axes
    from mdc.report.frame import Contrast
    from mdc.report.manifests import Manifests

SHOWN = {
    "kind": "guidance",
    "artefacts": {"mcd_figure3": {"title": "MC-Diffusion, figure 3: guidance"}},
    "files": ".png .svg .pdf .csv _contrasts.csv _runs.csv",
    "caption": "A CLIP's score of captions over each metric against references at scale {scale}, by the scale of guidance "
    "(MC-Diffusion, figure 3), and the differences between kinds of guidance at equal CIDEr.",
    "config": "Block",
}

_Y = "CLIPScore"
_EQUAL = "CIDEr"


class GuidanceCurve(Strict):
    """Systems that differ only in their guidance scale, in the order of the scales; at least two."""

    label: str
    systems: Names


class Block(OfCaptions):
    """CLIPScore over each reference-based metric, one curve per kind of guidance (MC-Diffusion, figure 3), on one dataset.

    ``primary``: pairs of curves, the first minus the second at equal CIDEr, by interpolation.
    """

    dataset: Name
    curves: Annotated[dict[Name, GuidanceCurve], Field(min_length=1)]
    primary: Claims[Annotated[Side, Ref("curves", "curve (curves)")]] = Field(default_factory=list)

    def shown(self, captions: Captions) -> Iterator[tuple[str, str]]:
        for curve in self.curves.values():
            yield from ((self.dataset, key) for key in captions.members(curve.systems))

    def misfits(self, params: Any, where: str) -> Iterator[str]:
        yield from super().misfits(params, where)
        for name, curve in self.curves.items():
            members = params.captions.members(curve.systems)
            if len(members) < 2:
                yield f"{where}.curves.{name}.systems: {curve.systems[0]} alone makes no curve"
            for key in (key for key in members if key in params.captions.systems):
                if not isinstance(params.captions.systems[key].decode, Diffusing):
                    yield f"{where}.curves: {key} has no scale of guidance; only systems that write by diffuse have"


class Curve(Labelled):
    """Systems' keys with the ``scales`` of their guidance, in the order of scales; the ``method`` of their runs."""

    method: str
    systems: list[str]
    scales: list[float]


def curves_of(job: ArtefactJob) -> list[Curve]:
    """The curves of a job."""
    return [Curve(**curve) for curve in job.more["curves"]]


def rows(plan: Context, name: str, block: Block) -> dict[str, Any]:
    """The values of the figure's job, and the jobs that it is made from (``jobs``)."""
    from mdc.plan.jobs import caption_rows
    from mdc.plan.jobs.caption_jobs import captions_of

    section = captions_of(plan)
    members = {key: section.members(curve.systems) for key, curve in block.curves.items()}
    values = caption_rows.table_values(plan, block, [block.dataset], plan.scale.training.seeds)
    curves = [
        {
            "key": key,
            "label": curve.label,
            "method": section.systems[members[key][0]].method,
            "systems": [f"{block.dataset}/{system}" for system in members[key]],
            "scales": [getattr(section.systems[system].decode, "guidance") for system in members[key]],  # noqa: B009
        }
        for key, curve in block.curves.items()
    ]
    return {**values, "curves": curves, "between": block.primary}


def make(job: ArtefactJob, manifests: Manifests, out: Path) -> None:
    """Write the figure, its numbers and its claims into ``out``; errors as of Table 3."""
    from mdc.report.caption_numbers import Captioned
    from mdc.report.frame import decided, write_contrasts, write_levels
    from mdc.report.statistics.claims import Claim

    results = Captioned(job, manifests)
    scales = {
        key: (curve.key, scale)
        for curve in curves_of(job)
        for key, scale in zip(curve.systems, curve.scales, strict=True)
    }
    # baselines are not points of a curve
    lines = [number for number in results.numbers if number.system.key in scales]
    curves, guidance = zip(*(scales[number.system.key] for number in lines), strict=True)
    write_levels(out / f"{job.artefact}.csv", job, lines, curve=curves, guidance=guidance)
    compared = _claims(job, results)
    members = {curve.key: curve.systems for curve in curves_of(job)}
    below = [
        _Y in results.columns and results.below_control(_Y, *(members[key] for key in pair))
        for pair in job.more["between"]
    ]
    tested = [Claim(line.estimate, below_control=low) for line, low in zip(compared, below, strict=True)]
    claims = decided(list(compared), tested, job.statistics)
    low, high = zip(*compared.values(), strict=True) if compared else ((), ())
    write_contrasts(out / f"{job.artefact}_contrasts.csv", job, claims, cider_from=low, cider_to=high)
    _draw(job, results, [out / f"{job.artefact}.{ending}" for ending in ("png", "svg", "pdf")])


def _claims(job: ArtefactJob, results: Captioned) -> dict[Contrast, tuple[float, float] | tuple[None, None]]:
    """The first curve's CLIPScore minus the second's at equal CIDEr, in points, and the range of CIDEr. Both curves have the same
    resamples of images."""
    from mdc.report.frame import Side as Shown
    from mdc.report.statistics.estimate import estimate
    from mdc.report.statistics.replicates import Replicates

    curves = {curve.key: curve for curve in curves_of(job)}
    lines: dict[Contrast, tuple[float, float] | tuple[None, None]] = {}
    for pair in job.more["between"]:
        sides = [curves[key] for key in pair]
        ends = sides[0].systems[0], sides[1].systems[-1]
        place = Shown.of(results.systems[ends[0]])
        named = [replace(place, key=side.key, method=side.label) for side in sides]
        more = {"first": named[0], "second": named[1], "condition": f"equal {_EQUAL}"}
        if (shared := _shared(results, sides)) is None:
            lines[results.not_compared("curves", ends, _Y, **more)] = None, None
            continue
        first = results.replicates[ends[0], _Y]
        apart = estimate(Replicates(shared[0], first.n, first.groups), job.statistics.level, contrast=True)
        lines[results.contrast("curves", ends, _Y, apart, **more)] = shared[1]
    return lines


def _shared(results: Captioned, sides: Sequence[Curve]) -> tuple[Floats, tuple[float, float]] | None:
    """See :func:`difference`; None without one of the metrics, too."""
    if not {_Y, _EQUAL} <= set(results.columns):
        return None
    import numpy as np

    from mdc.extensions.mc_diffusion.figures.curves import difference

    most = max(results.replicates[key, _Y].seeds for side in sides for key in side.systems)
    left, right = (np.stack([_points(results, key, most) for key in side.systems], axis=2) for side in sides)
    return difference(left, right)


def _points(results: Captioned, system: str, seeds: int) -> Floats:
    """A point of a curve for each seed and resample, (S, 1 + R, 2): CIDEr and CLIPScore in per cent."""
    import numpy as np

    points = np.stack([results.replicates[system, name].values for name in (_EQUAL, _Y)], axis=-1)
    return np.broadcast_to(points, (seeds, *points.shape[1:]))  # a single record is paired with every seed


def _draw(job: ArtefactJob, results: Captioned, paths: Sequence[Path]) -> None:
    from mdc.report import words
    from mdc.report.figures.drawing import bottom_legend, drawing, headline
    from mdc.report.figures.styles import method_styles

    curves = curves_of(job)
    across = [key for key in results.parts_of["paper"] if key in results.columns]
    of_methods = len({curve.method for curve in curves}) == len(curves)
    named = {curve.key: curve.method if of_methods else curve.key for curve in curves}
    styles = method_styles(named.values(), job.styles)
    lines = -(-len(across) // 2)
    with drawing(10.0, 3.9 * lines + 1.2, paths) as figure:
        panels = figure.subplots(lines, 2, squeeze=False, sharey=True).ravel()
        for panel in panels[len(across) :]:
            panel.set_visible(False)
        for panel, key in zip(panels, across, strict=False):
            for curve in curves if _Y in results.columns else ():
                _curve(panel, curve, results, key, styles[named[curve.key]])
            panel.set_xlabel(results.columns[key])
        panels[0].set_ylabel(results.columns.get(_Y, f"{results.all_columns[_Y]} is not available"))
        headline(figure, f"{words.heading(job)}, {words.scale_text(job)}")
        note = f"{words.bars(job)} Numbers: the least and the greatest scale of guidance."
        bottom_legend(figure, panels[0].get_legend_handles_labels()[0], note)


def _curve(panel: Axes, curve: Curve, results: Captioned, metric: str, style: tuple[str, str]) -> None:
    from mdc.report.figures.drawing import error_bars

    x, y = ([results.number(key, name) for key in curve.systems] for name in (metric, _Y))
    across, up = ([number.value for number in numbers] for numbers in (x, y))
    faint: dict[str, Any] = {"bars": 0.22, "markersize": 5}
    error_bars(
        panel, across, [(number.value, *number.ends) for number in y], style, linestyle="-", label=curve.label, **faint
    )
    # the scales at both ends
    for place in (0, -1):
        label: dict[str, Any] = {"fontsize": 8.5, "color": style[0], "weight": "bold", "textcoords": "offset points"}
        panel.annotate(f"{curve.scales[place]:g}", (across[place], up[place]), xytext=(6, 5), zorder=4, **label)
