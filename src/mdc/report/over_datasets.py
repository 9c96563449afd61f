"""Differences over datasets that are splits of the same images: whether one order of systems holds in all of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from mdc.plan.jobs.shown_captions import CaptionTableJob, Over, OverDataset
from mdc.plan.records import UserError, read_json
from mdc.report import words
from mdc.report.caption_numbers import Captioned
from mdc.report.given import Given, path_of
from mdc.report.lines import records_of
from mdc.report.statistics.interval import Interval
from mdc.report.statistics.splits import over_splits
from mdc.report.statistics.verdicts import Decision, decide
from mdc.report.tables.table import Cell, Column, Row, Table


@dataclass(frozen=True)
class Line:
    """One line of ``NAME_over.csv``: the difference of a pair of systems by one metric on one dataset (``value``), or, where
    ``dataset`` is "all", over them. ``higher``: on how many of ``datasets`` the first is higher. The plain interval takes the
    splits as independent. ``p_holm`` and ``verdict``: of the metric that is claimed."""

    scale: str
    dataset: str
    method: str
    against: str
    benchmark: str
    value: float
    low: float | None
    high: float | None
    p: float | None
    plain_low: float | None
    plain_high: float | None
    higher: int | None
    datasets: int | None
    test_over_train: float | None
    records: str
    p_holm: float | None = None
    verdict: str = ""


class OverDatasets:
    """The pairs of systems that a table compares over its datasets."""

    def __init__(self, job: CaptionTableJob, given: Given, found: Captioned, over: Over) -> None:
        self.found, self.over, self.level, self.statistics = found, over, job.statistics.level, job.statistics
        self.claimed = job.primary_column if job.primary_column not in found.missing else None
        self.shares = {one.key: self._share(job, given, one.trained_on, one.images) for one in over.datasets}
        self.labels = {system.system: system.method.label for system in job.systems}
        if len({round(share, 12) for share in self.shares.values()}) > 1:
            told = ", ".join(f"{key} {share:.4f}" for key, share in self.shares.items())
            raise UserError(
                f"{job.artefact}: over: splits must have equal shares of images to test on; they have {told}"
            )

    def _share(self, job: CaptionTableJob, given: Given, corpus: str, images: int) -> float:
        return images / int(read_json(path_of(job, given, corpus))["splits"]["train"]["samples"])

    @cached_property
    def share(self) -> float:
        """Images tested on over images trained on."""
        return next(iter(self.shares.values()))

    def differences(self, one: str, other: str, measure: str) -> dict[str, Interval]:
        """On each dataset, the first system minus the second."""
        pairs = {d.key: (f"{d.key}/{one}", f"{d.key}/{other}") for d in (*self.over.beside, *self.over.datasets)}
        return {key: self.found.differences[pair, measure] for key, pair in pairs.items()}

    def values(self, one: str, other: str, measure: str) -> list[float]:
        """The differences on the splits that are compared over."""
        within = self.differences(one, other, measure)
        return [within[dataset.key].value for dataset in self.over.datasets]

    def mean(self, one: str, other: str, measure: str) -> Interval:
        """Over the splits."""
        return over_splits(self.values(one, other, measure), self.share, self.level)

    @cached_property
    def decisions(self) -> dict[tuple[str, str], Decision]:
        """Of each pair, by the metric that is claimed; none if it is not available."""
        if self.claimed is None:
            return {}
        found = [self.mean(one, other, self.claimed) for one, other in self.over.pairs]
        decided = decide(found, self.level, self.statistics.comparable, self.statistics.power)
        return dict(zip(((one, other) for one, other in self.over.pairs), decided, strict=True))

    def lines(self) -> Iterator[Line]:
        """Every pair by every metric: on each dataset, then over all."""
        scale = words.scale_column(self.found.job)
        for one, other in self.over.pairs:
            for measure in self.found.measures:
                told = (self.labels[one], self.labels[other], self.found.name(measure))
                within = self.differences(one, other, measure)
                for dataset in (*self.over.beside, *self.over.datasets):
                    here = within[dataset.key]
                    inside = _bounds(here)
                    records = self._records(one, other, dataset)
                    yield Line(scale, dataset.label, *told, here.value, *inside, None, None, None, None, None, records)
                values = self.values(one, other, measure)
                corrected = self.mean(one, other, measure)
                plain = over_splits(values, 0.0, self.level)
                higher = sum(value > 0 for value in values)
                bounds = (*_bounds(corrected), plain.low, plain.high)
                decision = self.decisions.get((one, other)) if measure == self.claimed else None
                decided = (decision.p_holm, decision.verdict) if decision is not None else ()
                records = self._records(one, other, *self.over.datasets)
                counted = (higher, len(values), self.share)
                yield Line(scale, "all", *told, corrected.value, *bounds, *counted, records, *decided)

    def _records(self, one: str, other: str, *datasets: OverDataset) -> str:
        return records_of(*(self.found.systems[f"{d.key}/{name}"] for d in datasets for name in (one, other)))

    def tables(self, measures: list[str]) -> list[Table]:
        """What was claimed of each pair over the splits, and every metric."""
        return [*([self._claims()] if self.decisions else []), self._table(measures)]

    def _claims(self) -> Table:
        rows = []
        for (one, other), decision in self.decisions.items():
            assert self.claimed is not None
            values, mean = self.values(one, other, self.claimed), self.mean(one, other, self.claimed)
            value, low, high = (words.signed(number) for number in (mean.value, mean.low, mean.high))
            told = (value, f"[{low}, {high}]", f"{sum(one > 0 for one in values)} of {len(values)}")
            names = f"{self.labels[one]} − {self.labels[other]}"
            rows.append(Row((names, *told, words.p_value(decision.p_holm), words.verdict(decision)), ()))
        interval = f"{words.percent(self.level)} interval"
        name = self.found.name(self.claimed or "")
        return Table(
            title=f"Primary comparisons over {len(self.over.datasets)} splits on {name}, {self.found.scale_text}",
            caption=(f"Differences in points. {self._how()}", *words.claims(self.statistics, len(rows))),
            labels=("Comparison", "Difference", interval, "Higher on", "Corrected p", "Verdict"),
            columns=(),
            rows=tuple(rows),
        )

    def _how(self) -> str:
        beside = ", ".join(one.label for one in self.over.beside)
        return (
            f"Intervals: {words.percent(self.level)}, Student's t over splits, corrected for that they share most of the images "
            f"they train on (Nadeau and Bengio, 2003: the variance times 1/{len(self.over.datasets)} + {self.share:.3f}, the "
            f"images tested on over those trained on).{f' Not among them: {beside}.' * bool(beside)}"
        )

    def _table(self, measures: list[str]) -> Table:
        """For each pair the mean over datasets, and on how many of them the first is higher."""
        rows = []
        for one, other in self.over.pairs:
            cells = []
            for measure in measures:
                values, mean = self.values(one, other, measure), self.mean(one, other, measure)
                note = f"{sum(value > 0 for value in values)} of {len(values)}"
                cells.append(Cell(mean.value, mean.low, mean.high, note=note))
            rows.append(Row((f"{self.labels[one]} − {self.labels[other]}",), tuple(cells), ""))
        return Table(
            title=f"Over all {len(self.over.datasets)} splits, {self.found.scale_text}",
            caption=(
                "The mean of the splits' differences, in points, and on how many splits the first is higher. "
                + self._how(),
            ),
            labels=("Comparison",),
            columns=tuple(
                Column(self.found.name(measure), "", "Difference", self.found.name(measure)) for measure in measures
            ),
            rows=tuple(rows),
            signed=True,
        )


def _bounds(found: Interval) -> tuple[float, float, float | None]:
    return found.low, found.high, found.p
