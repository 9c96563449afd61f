"""How probe accuracy grows with the number of pairs: a least-squares line for each method over nested corpora."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from mdc.plan.jobs.shown import Labelled, ProbingJob, System
from mdc.plan.records import UserError
from mdc.report import words
from mdc.report.estimates import interval_label
from mdc.report.given import Given
from mdc.report.lines import records_of
from mdc.report.probing import Probing
from mdc.report.statistics.interval import Interval
from mdc.report.statistics.trend import slope_weights
from mdc.report.statistics.verdicts import Decision, decide


@dataclass(frozen=True)
class Trend:
    """One line of ``figure5_trend.csv``: accuracy = ``intercept`` + ``slope`` · log2(pairs), least squares.

    In per cent; ``slope`` in points a doubling of the pairs, with its interval. ``primary``: "true" of the trends that were
    named beforehand, on the primary column, whose claim is that accuracy rises; of all others ``p``, ``p_holm``,
    ``smallest_detectable`` and ``verdict`` are empty. It is comparable if the whole rise, from the smallest corpus to the
    largest, is. ``smallest_detectable``: the slope that would have been found, see
    :func:`mdc.report.statistics.verdicts.smallest_detectable`. ``residual_sd``: what one point lies off the line, None where two
    points make it. ``system``: the first of the line, which is no column.
    """

    system: System
    scale: str
    table: str
    backbone: str
    method: str
    benchmark: str
    metric: str
    datasets: str
    pairs: str
    slope: float
    low: float
    high: float
    interval: str
    p: str
    p_holm: str
    smallest_detectable: float | None
    intercept: float
    residual_sd: float | None
    seeds: str
    n: int
    verdict: str
    primary: str
    records: str

    def at(self, pairs: float) -> float:
        """The line's per cent at so many pairs."""
        return self.intercept + self.slope * math.log2(pairs)


class Sizes(Probing):
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
        slopes = [self._slope(group, column) for group, column in lines]
        primary = [
            place
            for place, (group, column) in enumerate(lines)
            if column == self.primary_measure and group[0].method.key in self.job.trends
        ]
        statistics = self.job.statistics
        # what is within ±2 points is the rise over all the doublings
        doublings = [self._doublings(lines[place][0]) for place in primary]
        rises = [slopes[place].times(factor) for place, factor in zip(primary, doublings, strict=True)]
        told = decide(rises, statistics.level, statistics.comparable, statistics.power)
        decisions = {
            place: replace(decision, smallest_detectable=decision.smallest_detectable / factor)
            for place, decision, factor in zip(primary, told, doublings, strict=True)
        }
        return [
            self._trend(group, column, slopes[place], decisions.get(place))
            for place, (group, column) in enumerate(lines)
        ]

    def _doublings(self, systems: Sequence[System]) -> float:
        """How many doublings of the pairs lie between the smallest corpus and the largest."""
        pairs = [self.pairs(system) for system in systems]
        return math.log2(max(pairs) / min(pairs))

    def _slope(self, systems: Sequence[System], column: str) -> Interval:
        weights = slope_weights([math.log2(self.pairs(system)) for system in systems]).tolist()
        groups = [self.group(system) for system in systems]
        try:
            return self.estimator.combination(list(zip(weights, groups, strict=True)), [column])
        except UserError as error:
            raise UserError(f"{self.title}: trend of {systems[0].method.label}: {error}") from None

    def _trend(self, systems: Sequence[System], column: str, slope: Interval, decision: Decision | None) -> Trend:
        levels = np.array([self.levels[system.key, column].value for system in systems])
        logs = np.log2([self.pairs(system) for system in systems])
        intercept = float(levels.mean() - slope.value * logs.mean())
        off = levels - intercept - slope.value * logs
        free = len(levels) - 2  # two parameters are fitted
        return Trend(
            system=systems[0],
            scale=self.job.scale,
            table=self.job.artefact,
            backbone=systems[0].backbone.label,
            method=systems[0].method.label,
            benchmark=self.name(column),
            metric=self.metric[column],
            datasets="; ".join(words.dataset(system) for system in systems),
            pairs=" ".join(str(self.pairs(system)) for system in systems),
            slope=slope.value,
            low=slope.low,
            high=slope.high,
            interval=interval_label(slope),
            p=words.p_value(decision.p, 4) if decision else "",
            p_holm=words.p_value(decision.p_holm, 4) if decision else "",
            smallest_detectable=words.finite(decision.smallest_detectable) if decision else None,
            intercept=intercept,
            residual_sd=math.sqrt(float(off @ off) / free) if free else None,
            seeds=" ".join(map(str, self.job.seeds)),
            n=self.count(systems[0], column),
            verdict=decision.verdict if decision else "",
            primary="true" if decision else "false",
            records=records_of(*systems),
        )
