"""The numbers of Table 3: captioners by metrics, estimated from per-image results."""

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any

from mdc.plan.jobs.shown import ArtefactJob, System
from mdc.plan.records import UserError, read_json
from mdc.report.frame import Contrast, Kind, Side, decided
from mdc.report.manifests import Manifests, read_table, title
from mdc.report.measured_captions import FILE, UNITS, MeasuredCaptions, measured_of
from mdc.report.results import Pair, Results
from mdc.report.statistics.claims import Claim, caption_margin
from mdc.report.statistics.estimate import NOT_COMPARED
from mdc.report.statistics.replicates import Replicates


class Captioned(Results):
    """``missing``: metric → why it is not available. Such a column is not estimated.

    ``parts_of``: for each part of the table its metrics {key: label}, including missing ones.
    """

    def __init__(self, job: ArtefactJob, manifests: Manifests) -> None:
        chosen = job.more["choose"]["systems"].values() if "choose" in job.more else ()
        named = [name for records in (*(s.records for s in job.systems), *chosen) for name in records]
        self.records = {name: read_json(manifests[name]) for name in dict.fromkeys(named)}
        self.parts_of = {
            part: {column.key: column.label for column in job.columns if column.more["part"] == part}
            for part in dict.fromkeys(column.more["part"] for column in job.columns)
        }
        self.all_columns = {column.key: column.label for column in job.columns}

        self._read = cache(lambda name: read_table(manifests, name, FILE, measured_of))
        self.missing = self._missing(job)
        available = [column for column in job.columns if column.key not in self.missing]
        if not available:
            raise UserError(f"{title(job.artefact)}: no metric is there of all its systems")
        update: dict[str, Any] = {"columns": available}
        #: claims whose metric is not available
        self.claims_lost: list[Pair] = []
        if job.primary_metric in self.missing:
            self.claims_lost = [(first, second) for first, second in job.primary]
            update |= {"primary": [], "primary_metric": available[0].key}
        self.claimed_metric = job.primary_metric
        super().__init__(job.model_copy(update=update), manifests, averages=False)

    def read(self) -> None:
        """See :class:`Results`. There is no chance level: controls are rows."""
        for system in self.job.systems:
            for key in self.columns:
                per_record = [self.of(name, system.method.key).items(key) for name in system.records]
                self.items[system.key, key] = [items for items in per_record if items is not None]
        self.metric = dict(self.columns)
        self.unit = {key: UNITS.get(key, "per cent") for key in self.columns}
        self.chance = dict.fromkeys(self.columns)

    def contrasts(self) -> list[Contrast]:
        """See :class:`Results`; with the claims whose metric is not available."""
        lost = [self.not_compared("difference", pair, self.claimed_metric) for pair in self.claims_lost]
        return [*super().contrasts(), *decided(lost, [Claim(line.estimate) for line in lost], self.job.statistics)]

    def not_compared(self, kind: Kind, pair: Pair, measure: str, **more: Any) -> Contrast:
        """A difference that does not exist, as a line without a value; ``more``: further fields."""
        first, second = (Side.of(self.systems[key]) for key in pair)
        label = self.all_columns[measure]
        return replace(Contrast(kind, first, second, measure, label, label, "points", NOT_COMPARED), **more)

    def first(self, system: System) -> Mapping[str, Any]:
        """See :class:`Results`; a record of captions has several systems."""
        return self.entries(system)[0]

    def margin(self, pair: Pair, measure: str) -> Replicates | None:
        """A tenth of the second side's score above its mismatched-image control; None without such a control."""
        control = self.systems[pair[1]].control
        if control is None:
            return None
        return caption_margin(self.whole(pair[1], measure), self.whole(control, measure), self.job.statistics.level)

    def item_words(self) -> str:
        """The number of images of each dataset."""
        key = next(iter(self.columns), None)
        images = {s.corpus.label: self.count(s, key) for s in self.job.systems if s.corpus and key}
        return f"Images: {', '.join(f'{label} {count}' for label, count in images.items())}."

    def entries(self, system: System) -> list[dict[str, Any]]:
        """The entry of a system in each seed's record, empty where it is missing."""
        return [self.records[name]["systems"].get(system.method.key, {}) for name in system.records]

    def of(self, record: str, system: str) -> MeasuredCaptions:
        """The measured captions of one system in one record; UserError if the record lacks it."""
        systems = self._read(record)
        if system not in systems:
            raise UserError(f"{title(self.job.artefact)}: {record} lacks {system}")
        return systems[system]

    def _missing(self, job: ArtefactJob) -> dict[str, str]:
        """Metrics that some system lacks, with the reason in the records."""
        missing: dict[str, str] = {}
        for system in job.systems:
            for name, entry in zip(system.records, self.entries(system), strict=True):
                for column in job.columns:
                    if column.key not in missing and self.of(name, system.method.key).items(column.key) is None:
                        missing[column.key] = entry.get("notes", {}).get(column.key, "not available")
        return missing
