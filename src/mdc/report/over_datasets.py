"""Differences over datasets that are splits of the same images: whether one order of systems holds in all of them."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any

from mdc.plan.jobs.shown_captions import CaptionTableJob, Over, OverDataset
from mdc.plan.records import UserError, read_json
from mdc.report import words
from mdc.report.caption_numbers import Captioned
from mdc.report.frame import Contrast, Side, records_of, write_contrasts
from mdc.report.given import Given, path_of
from mdc.report.results import Pair
from mdc.report.statistics.claims import CAPTION_MARGIN, Claim, Decision, decide
from mdc.report.statistics.estimate import Estimate
from mdc.report.statistics.splits import over_splits
from mdc.report.tables import comparisons
from mdc.report.tables.table import Cell, Column, Row, Table


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

    def values(self, one: str, other: str, measure: str) -> list[float]:
        """The differences on the splits that are compared over."""
        return [self._difference(dataset, one, other, measure).value for dataset in self.over.datasets]

    def mean(self, one: str, other: str, measure: str) -> Estimate:
        """Over the splits."""
        return over_splits(self.values(one, other, measure), self.share, self.level)

    def _difference(self, dataset: OverDataset, one: str, other: str, measure: str) -> Estimate:
        return self.found.differences[self._pair(dataset, one, other), measure]

    def _pair(self, dataset: OverDataset, one: str, other: str) -> Pair:
        return f"{dataset.key}/{one}", f"{dataset.key}/{other}"

    def _claim(self, one: str, other: str, measure: str) -> Claim:
        """With a margin of a tenth of what the second has above its control over the splits, if that is above 0."""
        values, margins = self.values(one, other, measure), self._margins(other, measure)
        difference = over_splits(values, self.share, self.level)
        low = over_splits(margins, self.share, self.level).low if margins else None
        if low is None or low <= 0:
            return Claim(difference)
        above, below = (
            over_splits(
                [value + sign * margin for value, margin in zip(values, margins, strict=True)], self.share, self.level
            )
            for sign in (1, -1)
        )
        return Claim(difference, sum(margins) / len(margins), above, below)

    def _margins(self, other: str, measure: str) -> list[float]:
        """On each split; none if the system has no control."""
        keys = [f"{dataset.key}/{other}" for dataset in self.over.datasets]
        controls = [self.found.systems[key].control for key in keys]
        level = self.found.levels
        return [
            CAPTION_MARGIN * (level[key, measure].value - level[control, measure].value)
            for key, control in zip(keys, controls, strict=True)
            if control is not None
        ]

    @cached_property
    def decisions(self) -> dict[tuple[str, str], Decision]:
        """Of each pair, by the metric that is claimed; none if it is not available."""
        if self.claimed is None:
            return {}
        how = self.statistics
        claims = [self._claim(one, other, self.claimed) for one, other in self.over.pairs]
        decided = decide(claims, how.level, how.power, how.order)
        return dict(zip(((one, other) for one, other in self.over.pairs), decided, strict=True))

    def write(self, path: Path) -> None:
        """The csv file: every pair by every metric, on each dataset and over all of them. ``higher``: on how many of
        ``datasets`` the first is higher; ``plain_low``, ``plain_high``: as if splits were independent."""
        lines: list[Contrast] = []
        more: dict[str, list[Any]] = {
            name: [] for name in ("higher", "datasets", "test_over_train", "plain_low", "plain_high")
        }
        for one, other in self.over.pairs:
            for measure in self.found.measures:
                for dataset in (*self.over.beside, *self.over.datasets):
                    pair = self._pair(dataset, one, other)
                    lines.append(
                        self.found.contrast("difference", pair, measure, self.found.differences[pair, measure])
                    )
                values, plain = (
                    self.values(one, other, measure),
                    over_splits(self.values(one, other, measure), 0.0, self.level),
                )
                lines.append(self._line(one, other, measure))
                told = (sum(value > 0 for value in values), len(values), self.share, plain.low, plain.high)
                for name, value in zip(more, told, strict=True):
                    more[name] += [None] * (len(lines) - 1 - len(more[name])) + [value]
        write_contrasts(path, lines, **more)

    def _line(self, one: str, other: str, measure: str) -> Contrast:
        """A pair over all splits."""
        pairs = [self._pair(dataset, one, other) for dataset in self.over.datasets]
        first, second = (self.found.systems[key] for key in pairs[0])
        line = self.found.contrast("difference", pairs[0], measure, self.mean(one, other, measure))
        sides = (
            Side(name, "all", system.backbone.label, system.method.label)
            for name, system in ((one, first), (other, second))
        )
        records = records_of(*(self.found.systems[key] for pair in pairs for key in pair))
        decision = self.decisions.get((one, other)) if measure == self.claimed else None
        return Contrast(
            line.scale,
            line.artefact,
            "splits",
            next(sides),
            next(sides),
            line.column,
            line.label,
            line.metric,
            line.unit,
            line.found,
            records,
            decision,
        )

    def tables(self, measures: list[str]) -> list[Table]:
        """What was claimed of each pair over the splits, and every metric."""
        return [*([self._claims()] if self.decisions else []), self._table(measures)]

    def _claims(self) -> Table:
        assert self.claimed is not None
        claims = [self._line(one, other, self.claimed) for one, other in self.over.pairs]
        higher = [sum(value > 0 for value in self.values(one, other, self.claimed)) for one, other in self.over.pairs]
        count = dict(zip(map(id, claims), higher, strict=True))
        return comparisons.claims_table(
            f"Primary comparisons over {len(self.over.datasets)} splits on {self.found.name(self.claimed)}, "
            f"{self.found.scale_text}",
            f"Differences in points. {self._how()}",
            claims,
            self.statistics,
            {
                "Comparison": lambda one: f"{one.first.method} − {one.second.method if one.second else ''}",
                "Higher on": lambda one: f"{count[id(one)]} of {len(self.over.datasets)}",
            },
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
