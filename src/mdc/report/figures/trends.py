"""How probe accuracy grows with the number of pairs: a least-squares line for each method over nested corpora."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mdc.plan.jobs.shown import Labelled, ProbingJob, System
from mdc.plan.records import UserError
from mdc.report.frame import Contrast, Side, records_of
from mdc.report.given import Given
from mdc.report.results import Results
from mdc.report.statistics.claims import Decision, claim, decide
from mdc.report.statistics.estimate import estimate
from mdc.report.statistics.replicates import Replicates
from mdc.report.statistics.trend import slope_weights


@dataclass(frozen=True)
class Trend:
    """Accuracy = ``intercept`` + slope · log2(pairs), least squares, in per cent. ``line``: its slope, in points a
    doubling of the ``pairs``; a claim is that accuracy rises, and its margin is that of the whole rise, from the
    smallest corpus to the largest, a doubling. ``residual_sd``: what one point lies off the line, None where two points
    make it. ``system``: the first of the line."""

    system: System
    line: Contrast
    pairs: Sequence[int]
    intercept: float
    residual_sd: float | None

    def at(self, pairs: float) -> float:
        """The line's per cent at so many pairs."""
        return self.intercept + self.line.found.value * math.log2(pairs)


class Sizes(Results):
    """The systems by their corpora's numbers of pairs."""

    job: ProbingJob

    averages = False
    printed = False

    def __init__(self, job: ProbingJob, given: Given) -> None:
        super().__init__(job, given)
        if len(self.corpora) < 2:
            raise UserError(f"{self.title}: a trend needs two corpora or more")
        self.sizes = {corpus: self.told_of(corpus, "pairs", "pairs") for corpus in self.corpora}
        by_size: dict[int, str] = {}
        for corpus, pairs in self.sizes.items():
            if pairs in by_size:
                raise UserError(
                    f"{self.title}: {by_size[pairs]} and {corpus} both had {pairs:,} pairs; drop one of them"
                )
            by_size[pairs] = corpus

    def pairs(self, system: System) -> int:
        """Of its corpus."""
        return self.sizes[system.corpus.key] if system.corpus else 0

    def trends(self) -> list[Trend]:
        """One for each method and column, of methods that stand in two corpora or more; those that the job names are decided."""
        groups: dict[tuple[Labelled, Labelled, str], list[System]] = {}
        for system in (system for system in self.job.systems if system.corpus):
            groups.setdefault((system.backbone, system.method, system.estimator), []).append(system)
        lines = [(group, column) for group in groups.values() if len(group) > 1 for column in self.columns]
        claimed = [
            (group, column)
            for group, column in lines
            if column == self.primary_measure and group[0].method.key in self.job.trends
        ]
        how = self.job.statistics
        claims = [claim(self._slope(*one), self._margin_of_slope(*one), how.level) for one in claimed]
        decisions = decide(claims, how.level, how.power, how.order)
        decided = {(group[0].key, column): one for (group, column), one in zip(claimed, decisions, strict=True)}
        return [self._trend(group, column, decided.get((group[0].key, column))) for group, column in lines]

    def _margin_of_slope(self, systems: Sequence[System], column: str) -> float | None:
        """Of a doubling, if the whole rise is to be less than the metric's margin."""
        margin = self.margin((systems[0].key, systems[-1].key), column)
        pairs = [self.pairs(system) for system in systems]
        return margin / math.log2(max(pairs) / min(pairs)) if isinstance(margin, float) else None

    def _slope(self, systems: Sequence[System], column: str) -> Replicates:
        weights = slope_weights([math.log2(self.pairs(system)) for system in systems]).tolist()
        first, *others = (
            self.replicates[system.key, column].times(weight) for system, weight in zip(systems, weights, strict=True)
        )
        if not all(self.items[systems[0].key, column][0].same_items(self.items[one.key, column][0]) for one in systems):
            raise UserError(
                f"{self.title}: trend of {systems[0].method.label}: not tested on the same items; probe again"
            )
        return first.of(lambda *values: np.sum(np.broadcast_arrays(*values), axis=0), *others)

    def _trend(self, systems: Sequence[System], column: str, decision: Decision | None) -> Trend:
        slope = estimate(self._slope(systems, column), self.job.statistics.level, contrast=True)
        levels = np.array([self.levels[system.key, column].value for system in systems])
        logs = np.log2([self.pairs(system) for system in systems])
        intercept = float(levels.mean() - slope.value * logs.mean())
        off = levels - intercept - slope.value * logs
        free = len(levels) - 2  # two parameters are fitted
        first = systems[0]
        line = Contrast(
            scale=self.job.scale,
            artefact=self.job.artefact,
            kind="slope",
            first=Side(first.method.key, "", first.backbone.label, first.method.label),
            second=None,
            column=column,
            label=self.name(column),
            metric=self.metric[column],
            unit="points per doubling",
            found=slope,
            records=records_of(*systems),
            decision=decision,
        )
        pairs = [self.pairs(system) for system in systems]
        return Trend(first, line, pairs, intercept, math.sqrt(float(off @ off) / free) if free else None)
