"""Every number and every contrast of a table or figure of systems by columns, each estimated once from per-item results."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

from mdc.plan.jobs.shown import System, SystemsJob
from mdc.plan.records import UserError
from mdc.report import published, words
from mdc.report.estimates import Estimator, interval_label
from mdc.report.given import Given, title
from mdc.report.items import ProbeItems
from mdc.report.lines import AVERAGE, METRICS, Contrast, Number, records_of
from mdc.report.measured import measured
from mdc.report.statistics.interval import Interval
from mdc.report.statistics.verdicts import Decision, decide

#: two systems' keys, the first minus the second
Pair = tuple[str, str]


class Probing:
    """A job's systems with their records; every estimate is made once. A measure is a column's key or ``AVERAGE``."""

    averages = True  # the mean of the columns is a measure of its own …
    always_average = True  # … also of one column
    printed = True  # the paper prints these numbers; of a figure it only draws them

    def __init__(self, job: SystemsJob, given: Given) -> None:
        statistics = job.statistics
        self.job, self.title, self.scale_text = job, title(job.artefact), words.scale_text(job)
        self.estimator = Estimator(statistics.bootstrap, statistics.level)
        self.systems = {system.key: system for system in job.systems}
        self.corpora = {s.corpus.key: s.corpus.label for s in job.systems if s.corpus}
        self.backbones = list(dict.fromkeys(s.backbone.label for s in job.systems))
        self.columns = {column.key: column.label for column in job.columns}
        averaged = self.averages and (self.always_average or len(self.columns) > 1)
        self.measures = [*self.columns, *([AVERAGE] if averaged else [])]
        self.primary_measure = self._primary_measure()
        self._labels_differ()
        self.read(given)
        self.metric[AVERAGE] = "mean"
        self.chance[AVERAGE] = sum(map(self.chance.__getitem__, self.parts(AVERAGE))) / len(self.parts(AVERAGE))
        gains = [(s.key, s.control) for s in job.systems if s.control is not None]
        self.named: list[Pair] = [(first, second) for first, second in job.contrasts]
        self.levels = {
            (system.key, measure): self.estimator.level(self.group(system), self.parts(measure))
            for system in job.systems
            for measure in self.measures
        }
        self.differences = {
            (pair, measure): self._difference(pair, measure)
            for pair in dict.fromkeys([*gains, *self.named])
            for measure in self.measures
        }
        self.decisions = self._decisions()

    def read(self, given: Given) -> None:
        """Read the records: sets ``groups`` (a system's items by column, one entry a seed), ``trained`` (what its first
        record tells of its training), ``metric`` and ``chance``."""
        records = measured(self.job, given, self.estimator)
        results = records[self.job.systems[0].records[0]].probes
        self.groups: dict[str, list[dict[str, ProbeItems]]] = {
            s.key: [dict(records[name].items) for name in s.records] for s in self.job.systems
        }
        self.training_of = {name: one.training for name, one in records.items()}
        self.trained = {s.key: self.training_of[s.records[0]] for s in self.job.systems}
        self.metric = {key: METRICS.get(results[key]["metric"], results[key]["metric"]) for key in self.columns}
        self.chance = {key: float(results[key]["chance"]) for key in self.columns}

    def _primary_measure(self) -> str:
        asked = self.job.primary_column
        if asked != "average":
            return asked
        if AVERAGE not in self.measures and len(self.columns) > 1:
            raise UserError(f"{self.title}: it has no average; primary_column must be one of {', '.join(self.columns)}")
        return self.measures[-1]

    def _labels_differ(self) -> None:
        """Rows are found by their labels; UserError if two systems have the same."""
        found: dict[tuple[str, str, str], str] = {}
        for system in self.job.systems:
            labels = words.dataset(system), system.backbone.label, words.method(system)
            other = found.setdefault(labels, system.key)
            if other != system.key:
                raise UserError(f"{self.title}: {other} and {system.key} are both called {', '.join(labels)}")

    def _difference(self, pair: Pair, measure: str) -> Interval:
        first, second = (self.group(self.systems[key]) for key in pair)
        try:
            return self.estimator.difference(first, second, self.parts(measure))
        except UserError as error:
            raise UserError(f"{self.title}: {pair[0]} against {pair[1]}: {error}") from None

    def _decisions(self) -> dict[tuple[Pair, str], Decision]:
        """The verdicts, which only the primary contrasts have."""
        statistics = self.job.statistics
        keys = [((first, second), self.primary_measure) for first, second in self.job.primary]
        found = [self.differences[key] for key in keys]
        told = decide(found, statistics.level, statistics.comparable, statistics.power)
        return dict(zip(keys, told, strict=True))

    # lines

    def numbers(self) -> list[Number]:
        """A line for each system and measure."""
        return [self._number(system, measure) for system in self.job.systems for measure in self.measures]

    def _number(self, system: System, measure: str) -> Number:
        level = self.levels[system.key, measure]
        gain = self.differences[(system.key, system.control), measure] if system.control else None
        label = words.dataset(system), system.backbone.label, system.method.label
        paper = self.printed and self.job.scale == "paper" and system.corpus is not None
        return Number(
            system=system,
            scale=self.job.scale,
            table=self.job.artefact,
            dataset=label[0],
            backbone=label[1],
            method=label[2],
            pooling=system.pooling,
            seeds=" ".join(map(str, self.job.seeds)),
            benchmark=self.name(measure),
            metric=self.metric[measure],
            value=level.value,
            low=level.low,
            high=level.high,
            interval=interval_label(level),
            n=self.count(system, measure),
            chance=words.finite(self.chance[measure]),
            gain=gain.value if gain else None,
            gain_low=gain.low if gain else None,
            gain_high=gain.high if gain else None,
            pairs=self.training(system, "pairs"),
            steps=self.training(system, "steps"),
            run=" ".join(system.runs),
            published=published.lookup(self.job.artefact, *label, self.name(measure)) if paper else None,
            estimator=system.estimator,
            records=records_of(system),
            control_records=records_of(self.systems[system.control]) if system.control else "",
        )

    def contrasts(self) -> list[Contrast]:
        """A line for each difference and measure: the gains, then those that the job names."""
        return [self._contrast(pair, measure, found) for (pair, measure), found in self.differences.items()]

    def _contrast(self, pair: Pair, measure: str, found: Interval) -> Contrast:
        first, second = (self.systems[key] for key in pair)
        decision = self.decisions.get((pair, measure))
        return Contrast(
            scale=self.job.scale,
            table=self.job.artefact,
            dataset=words.dataset(first),
            backbone=words.minus(first.backbone.label, second.backbone.label),
            method=first.method.label,
            against=second.method.label,
            against_dataset=words.dataset(second),
            benchmark=self.name(measure),
            metric=self.metric[measure],
            difference=found.value,
            low=found.low,
            high=found.high,
            interval=interval_label(found),
            n=self.count(first, measure),
            seeds=" ".join(map(str, self.job.seeds)),
            p=words.p_value(decision.p, 4) if decision else "",
            p_holm=words.p_value(decision.p_holm, 4) if decision else "",
            verdict=decision.verdict if decision else "",
            smallest_detectable=words.finite(decision.smallest_detectable) if decision else None,
            primary="true" if decision else "false",
            records=records_of(first, second),
        )

    # what systems have

    def group(self, system: System) -> list[dict[str, ProbeItems]]:
        """Its items by column, one encoder a seed."""
        return self.groups[system.key]

    def training(self, system: System, key: str) -> int | None:
        """What its first record tells of its training (pairs, steps, samples_seen), None if it tells nothing."""
        told = self.trained[system.key]
        return int(told[key]) if told else None

    def told_of(self, corpus: str, key: str, name: str) -> int:
        """What all runs of a corpus tell of their training, called ``name`` in messages; UserError if one tells nothing or
        another number."""
        found: dict[int, str] = {}
        here = [s for s in self.job.systems if s.corpus and s.corpus.key == corpus]
        for record in (record for system in here for record in system.records):
            told = self.training_of[record]
            if not told:
                raise UserError(f"{self.title}: the record of {record} does not tell its {name}; probe it again")
            found.setdefault(int(told[key]), record)
        if len(found) > 1:
            told_words = ", ".join(f"{record} on {count:,}" for count, record in found.items())
            raise UserError(
                f"{self.title}: runs of {corpus} saw different numbers of {name}: {told_words}; train them again"
            )
        return next(iter(found))

    def count(self, system: System, measure: str) -> int:
        """Test items; of an average, those of all its columns."""
        items = self.groups[system.key][0]
        return sum(items[name].n for name in self.parts(measure))

    def blocks(self) -> list[list[System]]:
        """Neighbouring systems of one backbone and corpus."""
        by = itertools.groupby(self.job.systems, key=lambda s: (s.backbone.key, s.corpus and s.corpus.key))
        return [list(systems) for _, systems in by]

    def controls(self) -> list[str]:
        """What the systems' controls are called."""
        keys = (system.control for system in self.job.systems if system.control is not None)
        return list(dict.fromkeys(self.systems[key].method.label for key in keys))

    def parts(self, measure: str) -> list[str]:
        """The columns that a measure is of."""
        return list(self.columns) if measure == AVERAGE else [measure]

    def name(self, measure: str) -> str:
        """A measure as it is shown."""
        return AVERAGE if measure == AVERAGE else self.columns[measure]

    # words

    def interval_words(self, found: Iterable[Interval]) -> str:
        """How ``found`` were made, and the number of test items of each column."""
        sizes = ", ".join(f"{label} {self.count(self.job.systems[0], key)}" for key, label in self.columns.items())
        return f"{words.intervals(found, self.job.seeds)} Test items: {sizes}."

    def notes(self, numbers: Sequence[Number], systems: Sequence[System] | None = None) -> tuple[str, ...]:
        """What stands below a table of levels of ``systems``, by default of all. A row of reference is seen to be one, and is
        not listed."""
        shown = self.job.systems if systems is None else systems
        keys = {system.key for system in shown}
        grey = dict.fromkeys(words.method(system) for system in shown if not (system.ranked or system.reference))
        pairs = {
            n.dataset: n.pairs for n in numbers if n.pairs is not None and n.system.corpus and n.system.key in keys
        }
        told = [f"{label} {count:,}" for label, count in pairs.items()]
        return (
            *((f"Grey († in Markdown), shown but not ranked: {', '.join(grey)}.",) if grey else ()),
            *dict.fromkeys(system.note for system in shown if system.note),
            "Chance: what guessing would score.",
            *(
                (f"{AVERAGE}: the plain mean of the columns; for its interval, items are drawn within each column.",)
                if self.averages_shown
                else ()
            ),
            *((f"Image–caption pairs trained on: {'; '.join(told)}.",) if told else ()),
            *(("Paper: the value printed in the paper.",) if any(n.published for n in numbers) else ()),
        )

    @property
    def averages_shown(self) -> bool:
        """Whether the average is a column."""
        return AVERAGE in self.measures
