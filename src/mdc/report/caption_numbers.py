"""Table 3's numbers: systems that caption, by metrics, each estimated once from what every image counts."""

from __future__ import annotations

from functools import cache
from typing import Any

from mdc.plan.jobs.shown_captions import CaptionTableJob
from mdc.plan.records import UserError
from mdc.report.given import Given, path_of, record_of, title
from mdc.report.measured_captions import FILE, MeasuredCaptions, read_measured
from mdc.report.probing import Probing

_UNITS = {
    **dict.fromkeys(("words", "unreadable"), "a caption"),
    "content_words": "distinct, a caption",
    # no shares, though printed times 100 like these
    **dict.fromkeys(("CIDEr", "CLIPScore", "RefCLIPScore"), "× 100"),
}


class Captioned(Probing):
    """``missing``: metric → why it is not available here. Such a column is not estimated, and not shown as a number.

    ``parts_of``: of each part of the table, its metrics {key: label}, those that are missing too.
    """

    averages = False
    job: CaptionTableJob

    def __init__(self, job: CaptionTableJob, given: Given) -> None:
        named = [name for s in job.systems for name in s.records] + (job.choose.records if job.choose else [])
        self.records = {name: record_of(job, given, name) for name in dict.fromkeys(named)}
        self.parts_of = {
            part: {column.key: column.label for column in job.columns if column.part == part}
            for part in dict.fromkeys(column.part for column in job.columns)
        }
        self.all_columns = {column.key: column.label for column in job.columns}

        @cache
        def read(name: str) -> dict[str, MeasuredCaptions]:
            record, path = self.records[name], path_of(job, given, name)
            if record.get("kind") != "metrics" or FILE not in record.get("outputs", {}):
                raise UserError(f"{path}: not a record of measured captions; measure again")
            return read_measured(path.parent / FILE, record["outputs"][FILE])

        self._read = read
        self.missing = self._missing(job)
        there = [column for column in job.columns if column.key not in self.missing]
        changed: dict[str, Any] = {"columns": there}
        #: whether there were claims, and their metric is not available
        self.claims_lost = bool(job.primary) and job.primary_column in self.missing
        if job.primary_column in self.missing:
            changed |= {"primary": [], "primary_column": there[0].key}
        super().__init__(job.model_copy(update=changed), given)

    def read(self, given: Given) -> None:
        """See :class:`Probing`."""
        self.groups, self.trained = {}, {}
        for system in self.job.systems:
            self.groups[system.key] = [
                {key: found for key in self.columns if (found := self.of(name, system.system).items(key)) is not None}
                for name in system.records
            ]
            told = self.records[system.records[0]]["systems"].get(system.system, {})
            self.trained[system.key] = told.get("training")
        self.metric = {key: _UNITS.get(key, "per cent") for key in self.columns}
        # there is no guessing; the floor is a row of its own
        self.chance = dict.fromkeys(self.columns, float("nan"))

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
            for name in system.records:
                told = self.records[name]["systems"].get(system.system, {}).get("notes", {})
                one = self._read(name).get(system.system)
                for column in job.columns:
                    if column.key not in found and (one is None or one.items(column.key) is None):
                        found[column.key] = told.get(column.key, "not available")
        return found
