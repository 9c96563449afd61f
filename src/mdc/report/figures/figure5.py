"""Figure 5: probe accuracy over the number of pairs, and the trend of each method."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Self

from pydantic import AfterValidator, Field, model_validator

from mdc.plan.config.probe_tables import MethodTable
from mdc.plan.config.references import Methods
from mdc.plan.config.types import Name, each_once
from mdc.plan.jobs.shown import ArtefactJob, System
from mdc.plan.records import UserError

if TYPE_CHECKING:
    from mdc.plan.jobs.context import Context
    from mdc.report.figures.drawing import Axes
    from mdc.report.frame import Contrast, Number
    from mdc.report.manifests import Manifests
    from mdc.report.results import Results

SHOWN = {
    "artefacts": {"figure5": {"title": "Figure 5: numbers of pairs"}},
    "files": ".png .svg .pdf .csv _contrasts.csv _runs.csv",
    "caption": "Linear-probe accuracy at scale {scale} over the number of pairs of nested corpora, with intervals, and the "
    "points that a doubling adds. Each corpus is trained on for the same number of epochs, so samples seen grow with the "
    "pairs, and the warm-up takes a larger share of a smaller corpus's steps: the trend is of all three together, as in the "
    "paper.",
    "config": "Block",
}


class Block(MethodTable):
    """Figure 5: methods over corpora of different numbers of pairs, compared by the trend of each method.

    ``trends``: methods with the claim that more pairs raise the accuracy; only these get a verdict.
    """

    averaged = False

    corpora: Annotated[Methods, Field(min_length=2)]
    trends: Annotated[list[Name], Field(max_length=6), AfterValidator(each_once)] = Field(default_factory=list)

    @model_validator(mode="after")
    def _no_contrasts(self) -> Self:
        for key, pairs in (("contrasts", self.contrasts), ("primary", self.primary)):
            if pairs:
                raise ValueError(
                    f"{key}: this figure compares the corpora of a method by their trend alone; leave it out"
                )
        for name in self.trends:
            if sum(name in methods for methods in self.corpora.values()) < 2:
                raise ValueError(f"trends: {name} is in fewer than two corpora, so it has no trend")
        return self


def rows(plan: Context, name: str, block: Block) -> dict[str, Any]:
    """As every table of probes, and the methods whose ``trends`` are claimed."""
    from mdc.plan.jobs.probe_rows import probing

    return {**probing(plan, name, block), "trends": block.trends}


def make(job: ArtefactJob, manifests: Manifests, out: Path) -> None:
    """Write the figure, its numbers and its trends into ``out``; there is no average of several columns. Errors as of Table 1;
    also if trainings on a corpus differ in their number of pairs, or those on two do not."""
    from mdc.report import words
    from mdc.report.figures.accuracy_panels import count_words, draw
    from mdc.report.frame import write_contrasts, write_levels
    from mdc.report.results import Results

    results = Results(job, manifests, averages=False)
    found, seen = trends(results, job), [results.training(n.system, "samples_seen") for n in results.numbers]
    write_levels(out / "figure5.csv", job, results.numbers, samples_seen=seen)
    intercepts = [trend.intercept for trend in found]
    write_contrasts(out / "figure5_contrasts.csv", job, [trend.line for trend in found], intercept=intercepts)

    def tick(pairs: float) -> str:
        own = sorted({count for n, count in zip(results.numbers, seen, strict=True) if n.pairs == pairs and count})
        return f"{count_words(int(pairs))}\n{' to '.join(map(count_words, dict.fromkeys((own[0], own[-1]))))}"

    def more(panel: Axes, styles: Mapping[str, tuple[str, str]], numbers: Sequence[Number]) -> None:
        text = []
        for trend in (trend for trend in found if trend.line.column == numbers[0].column):
            ends, method = [min(trend.pairs), max(trend.pairs)], trend.system.method
            panel.plot(ends, [trend.at(end) for end in ends], color=styles[method.key][0], linewidth=1.4, zorder=2)
            text.append(f"\n{method.label}: {words.shown(trend.line.estimate, 2)}")
        panel.set_title("".join(["points per doubling of the pairs", *text]) if text else "", fontsize=8)

    label = "image–caption pairs\n(below: samples seen in training)"
    draw(results, out, "Pairs trained on,", label, lambda n: n.pairs, tick, lambda _: (), more, log=True)


@dataclass(frozen=True)
class Trend:
    """Accuracy = ``intercept`` + slope · log2(pairs), least squares, in per cent. ``line``: its slope, in points per doubling
    of the ``pairs``. The claim is that accuracy rises; its margin is the metric's margin for the whole rise, from the smallest
    corpus to the largest, per doubling. ``system``: the first of the line."""

    system: System
    line: Contrast
    pairs: Sequence[int]
    intercept: float

    def at(self, pairs: float) -> float:
        """The line's value at so many pairs, in per cent."""
        return self.intercept + self.line.estimate.value * math.log2(pairs)


def trends(results: Results, job: ArtefactJob) -> list[Trend]:
    """One for each method with two corpora or more and each column; those that the job names are decided."""
    import numpy as np

    from mdc.report.figures.accuracy_panels import check_counts_differ
    from mdc.report.frame import Contrast, Side, decided
    from mdc.report.statistics.claims import claim
    from mdc.report.statistics.estimate import estimate

    counts = {corpus: results.training_of_corpus(corpus, "pairs", "pairs") for corpus in results.corpora}
    check_counts_differ(results, counts, "pairs")
    groups: dict[Hashable, list[System]] = {}
    for system in (system for system in job.systems if system.corpus):
        groups.setdefault((system.backbone, system.method, system.estimator), []).append(system)
    lines = [(group, column) for group in groups.values() if len(group) > 1 for column in results.columns]
    found, claims = list[Trend](), list[Any]()
    for systems, column in lines:
        first = systems[0]
        pairs = [counts[system.corpus.key] for system in systems if system.corpus]
        # the weights of the values in their least-squares line
        slope_weights, intercept_weights = np.linalg.pinv(np.vander(np.log2(pairs), 2))
        items = [results.items[system.key, column][0] for system in systems]
        if not all(items[0].same_items(other) for other in items):
            raise UserError(
                f"{results.title}: trend of {first.method.label}: not tested on the same items; probe again"
            )
        replicates, *others = (results.replicates[system.key, column] for system in systems)
        slope = replicates.of(lambda *v, w=slope_weights: np.tensordot(w, np.broadcast_arrays(*v), 1), *others)
        line = Contrast(
            kind="slope",
            first=Side(first.method.key, "", first.backbone.label, first.method.label),
            second=None,
            column=column,
            label=results.name(column),
            metric=results.metric[column],
            unit="points per doubling",
            estimate=estimate(slope, job.statistics.level, contrast=True),
        )
        levels = np.array([results.levels[system.key, column].value for system in systems])
        found.append(Trend(first, line, pairs, float(intercept_weights @ levels)))
        rise = results.margin((first.key, systems[-1].key), column)
        if isinstance(rise, float):
            rise /= math.log2(max(pairs) / min(pairs))
        named = column == results.primary_measure and first.method.key in job.more["trends"]
        below_control = results.below_control(column, [system.key for system in systems])
        claims.append(replace(claim(slope, rise, job.statistics.level), below_control=below_control) if named else None)
    decisions = decided([trend.line for trend in found], claims, job.statistics)
    return [replace(trend, line=line) for trend, line in zip(found, decisions, strict=True)]
