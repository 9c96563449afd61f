"""Table 3's numbers: systems that caption, by metrics, each estimated once from what every image counts."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from mdc.plan.jobs.shown import System
from mdc.plan.jobs.shown_captions import CaptionedSystem, CaptionTableJob
from mdc.plan.records import UserError
from mdc.report.given import Given, read_table, record_of, title
from mdc.report.measured_captions import FILE, UNITS, MeasuredCaptions, measured_of
from mdc.report.results import Pair, Results
from mdc.report.statistics.claims import caption_margin
from mdc.report.statistics.replicates import Replicates


class Captioned(Results):
    """``missing``: metric → why it is not available here. Such a column is not estimated, and not shown as a number.

    ``parts_of``: of each part of the table, its metrics {key: label}, those that are missing too.
    """

    job: CaptionTableJob

    def __init__(self, job: CaptionTableJob, given: Given) -> None:
        chosen = job.choose.systems.values() if job.choose else ()
        named = [name for records in (*(s.records for s in job.systems), *chosen) for name in records]
        self.records = {name: record_of(job, given, name) for name in dict.fromkeys(named)}
        self.parts_of = {
            part: {column.key: column.label for column in job.columns if column.part == part}
            for part in dict.fromkeys(column.part for column in job.columns)
        }
        self.all_columns = {column.key: column.label for column in job.columns}

        self._read = cache(lambda name: read_table(job, given, name, FILE, ("system", "image"), measured_of))
        self.missing = self._missing(job)
        there = [column for column in job.columns if column.key not in self.missing]
        if not there:
            raise UserError(f"{title(job.artefact)}: no metric is there of all its systems; measure its captions again")
        changed: dict[str, Any] = {"columns": there}
        #: whether there were claims, and their metric is not available
        self.claims_lost = bool(job.primary) and job.primary_column in self.missing
        if job.primary_column in self.missing:
            changed |= {"primary": [], "primary_column": there[0].key}
        super().__init__(job.model_copy(update=changed), given, averages=False)

    def read(self) -> None:
        """See :class:`Results`. There is no chance level; controls are rows."""
        for system in self.job.systems:
            for key in self.columns:
                found = [self.of(name, system.system).items(key) for name in system.records]
                self.items[system.key, key] = [items for items in found if items is not None]
        self.metric = dict(self.columns)
        self.unit = {key: UNITS.get(key, "per cent") for key in self.columns}
        self.chance = dict.fromkeys(self.columns)

    def first(self, system: System) -> Mapping[str, Any]:
        """See :class:`Results`: a record of captions is of several systems."""
        assert isinstance(system, CaptionedSystem)
        return self.told(system)[0]

    def margin(self, pair: Pair, measure: str) -> Replicates | None:
        """A tenth of what the second side has above the same captioner on other images; None if it has no such control."""
        control = self.systems[pair[1]].control
        if control is None:
            return None
        return caption_margin(self.whole(pair[1], measure), self.whole(control, measure), self.job.statistics.level)

    def told(self, system: CaptionedSystem) -> list[dict[str, Any]]:
        """What each seed's record says of a system, nothing where it lacks it."""
        return [self.records[name]["systems"].get(system.system, {}) for name in system.records]

    def of(self, record: str, system: str) -> MeasuredCaptions:
        """What was measured of one system in one record; UserError if the record lacks it."""
        found = self._read(record)
        if system not in found:
            raise UserError(f"{title(self.job.artefact)}: {record} lacks {system}; measure again")
        return found[system]

    def _missing(self, job: CaptionTableJob) -> dict[str, str]:
        """Metrics that some system lacks, with what the records say of it."""
        found: dict[str, str] = {}
        for system in job.systems:
            for name, told in zip(system.records, self.told(system), strict=True):
                for column in job.columns:
                    if column.key not in found and self.of(name, system.system).items(column.key) is None:
                        found[column.key] = told.get("notes", {}).get(column.key, "not available")
        return found
