"""Quality of captions over the strength of a distortion of the test images, one panel for each kind of distortion.

Captioners start from different levels. Each is therefore compared by the share of its own quality on undistorted images that it
keeps at the strongest distortion. Quality is the score above the mismatched-image control: a captioner that ignores its image has
none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain, cycle, product
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from pydantic import Field, model_validator

from mdc.extensions.blog.kinds import Corruption, Distorted
from mdc.plan.config.captions import Captions, Claimed, OfCaptions
from mdc.plan.config.systems import distorted, mismatched_key
from mdc.plan.config.types import MOST_CLAIMS, Name, Names, Pairs, Side, SomeUnique, Unique, check_reference, unknown
from mdc.plan.jobs.shown import ArtefactJob, Labelled

if TYPE_CHECKING:
    from mdc.plan.jobs.context import Context
    from mdc.report.caption_numbers import Captioned
    from mdc.report.frame import Contrast
    from mdc.report.manifests import Manifests
    from mdc.report.statistics.claims import Claim
    from mdc.report.statistics.replicates import Floats, Replicates

SHOWN = {
    "kind": "robustness",
    "artefacts": {"figure_robustness": {"title": "Figure: captions of distorted images"}},
    "files": ".png .svg .pdf .csv _contrasts.csv _runs.csv",
    "caption": "How fast captions become worse as test images do at scale {scale}: Gaussian noise, blur, JPEG and cut-out in "
    "five strengths, a curve a captioner, with intervals.",
    "config": "Block",
}

#: the metric of the second row of panels, where it is known: the share of true statements
_PRECISION = "precision"
_APART = 0.06  # of a strength: from a curve's marker to the next one's


class Block(OfCaptions):
    """How the captions of ``systems`` on one dataset degrade under image distortions, one panel per kind of distortion.

    ``primary``: pairs of systems; the claim is that the first keeps more of its quality, by ``primary_metric``, at the strongest
    distortion of each kind in ``primary_kinds``, by default of all ``kinds``. For the other kinds the difference is shown without
    a claim.
    """

    dataset: Name
    systems: Names
    kinds: SomeUnique[Distorted]
    primary: Pairs[Side] = Field(default_factory=list)
    primary_kinds: Unique[Distorted] | None = None
    primary_metric: Claimed = "CIDEr"

    @property
    def claimed(self) -> list[Distorted]:
        """The kinds of distortion that are claimed."""
        return self.kinds if self.primary_kinds is None else self.primary_kinds

    @staticmethod
    def worse(system: str, kind: Distorted) -> list[str]:
        """The keys of a system under one kind of distortion, the weakest first."""
        return [distorted(system, distortion) for distortion in Corruption.at_all_strengths(kind)]

    def shown(self, captions: Captions) -> Iterator[tuple[str, str]]:
        for key in self.systems:
            yield self.dataset, key
            yield from ((self.dataset, worse) for kind in self.kinds for worse in self.worse(key, kind))
            if mismatched_key(key) in captions.systems:
                yield self.dataset, mismatched_key(key)

    def misfits(self, params: Any, where: str) -> Iterator[str]:
        systems = params.captions.systems
        yield from unknown(f"{where}.primary", [*chain(*self.primary)], self.systems, "system of this figure (systems)")
        for key, kind in product(self.systems, self.kinds):
            if key in systems and not systems.keys() >= {*self.worse(key, kind)}:
                yield f"{where}.kinds: {key} is shown none with {kind}; give captions.systems.{key} distorted: [{kind}]"
        for key in dict.fromkeys(chain(*self.primary)):
            if key in systems and mismatched_key(key) not in systems:
                said = f"{key} has no mismatched-image control, above which its quality counts; give {key} mismatched: true"
                yield f"{where}.primary: {said}"
        yield from super().misfits(params, where)

    @model_validator(mode="after")
    def _few_claims(self) -> Self:
        for kind in self.claimed:
            check_reference("primary_kinds", kind, self.kinds, "kind of this figure (kinds)")
        count = len(self.primary) * len(self.claimed)
        if count > MOST_CLAIMS:
            raise ValueError(
                f"primary: {len(self.primary)} pairs on {len(self.claimed)} kinds are {count} claims, allowed: "
                f"{MOST_CLAIMS}; name fewer pairs, or the kinds that are claimed (primary_kinds: [{self.kinds[0]}])"
            )
        return self


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


def rows(plan: Context, name: str, block: Block) -> dict[str, Any]:
    """The values of the figure's job, and the jobs that it is made from (``jobs``)."""
    from mdc.plan.jobs import caption_rows
    from mdc.plan.jobs.caption_jobs import captions_of

    section, place = captions_of(plan), f"{block.dataset}/"
    lengths = {section.systems[key].decode.shown_length for key in block.systems}
    curves = [
        {
            "key": key,
            "label": caption_rows.label_of(section.systems[key], lengths),
            "kind": kind,
            "kind_label": Corruption.at_all_strengths(kind)[0].in_words,
            "method": section.systems[key].method,
            "backbone": section.backbone_of(block.dataset, key),
            "systems": [place + key, *(place + worse for worse in block.worse(key, kind))],
            "control": place + mismatched_key(key) if mismatched_key(key) in section.systems else None,
        }
        for kind in block.kinds
        for key in block.systems
    ]
    seeds, metric = plan.scale.training.seeds, block.primary_metric
    values = caption_rows.table_values(plan, block, [block.dataset], seeds, metric)
    return {**values, "curves": curves, "between": block.primary, "claimed": block.claimed}


def make(job: ArtefactJob, manifests: Manifests, out: Path) -> None:
    """Write the figure, its numbers and its claims into ``out``; errors as of Table 3."""
    from mdc.report.caption_numbers import Captioned
    from mdc.report.frame import write_contrasts, write_levels

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
    kind; decided for the claimed kinds. A pair has no share to compare if the metric is not available, or if one of the two is
    not above its mismatched-image control; the latter is known from results alone, so the claim counts in the correction."""
    from mdc.report.frame import Side as Shown
    from mdc.report.frame import decided
    from mdc.report.statistics.claims import Claim, claim
    from mdc.report.statistics.estimate import NOT_COMPARED, estimate

    measure, statistics = job.primary_metric, job.statistics
    curves = {(curve.kind, curve.key): curve for curve in curves_of(job)}
    lines: list[Contrast] = []
    claims: list[Claim | None] = []
    for kind, pair in product(dict.fromkeys(curve.kind for curve in curves_of(job)), job.more["between"]):
        sides = [curves[kind, key] for key in pair]
        named = [replace(Shown.of(results.systems[side.systems[0]]), method=side.label) for side in sides]
        ends = named[0].key, named[1].key
        more = {"first": named[0], "second": named[1], "condition": kind}
        known = [kept(results, side, measure) for side in sides] if measure in results.columns else [None]
        if None in known and kind not in job.more["claimed"]:
            continue
        if None in known:
            lines.append(results.not_compared("kept", ends, measure, **more))
            known_controls = measure in results.columns and all(side.control is not None for side in sides)
            tested = Claim(NOT_COMPARED, below_control=known_controls)
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
    import numpy as np

    from mdc.report.statistics.estimate import estimate

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
    from mdc.report import words
    from mdc.report.figures.drawing import bottom_legend, drawing, error_bars, headline
    from mdc.report.figures.styles import method_styles

    curves = curves_of(job)
    kinds: dict[str, str] = {curve.kind: curve.kind_label for curve in curves}
    measures = [key for key in dict.fromkeys((job.primary_metric, _PRECISION)) if key in results.columns]
    measures = measures or list(results.columns)[:1]  # where neither is available
    styles = method_styles((curve.method for curve in curves), job.styles)
    lines = dict(zip(dict.fromkeys(curve.backbone for curve in curves), cycle(("-", "--", ":"))))
    names = list(dict.fromkeys(curve.key for curve in curves))
    # of several curves of one method on one backbone the first has filled markers
    alike: dict[tuple[str, str], list[str]] = {}
    for curve in curves:
        same = alike.setdefault((curve.method, curve.backbone), [])
        same += [curve.key] if curve.key not in same else []
    with drawing(2.7 * max(len(kinds), 2) + 0.6, 2.5 * len(measures) + 1.5, paths) as figure:
        panels = figure.subplots(len(measures), len(kinds), squeeze=False, sharey="row", sharex=True)
        for row, key in zip(panels, measures, strict=True):
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
