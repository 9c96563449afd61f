"""A table's or figure's systems by columns: items → replicates → estimates → claims."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache, cached_property
from typing import Any

from mdc.plan.jobs.shown import ArtefactJob, System
from mdc.plan.records import UserError, read_json
from mdc.report import published, seen, words
from mdc.report.frame import AVERAGE, Contrast, Kind, Number, Side, dataset
from mdc.report.items import items_of
from mdc.report.manifests import Manifests, reading, table_of, title
from mdc.report.statistics.claims import Decision, claim, decide
from mdc.report.statistics.estimate import Estimate, estimate
from mdc.report.statistics.replicates import Items, Replicates, mean, resampled

#: two systems' keys, the first minus the second
Pair = tuple[str, str]
METRICS = {"top1": "top-1", "map": "mAP"}


class Results:
    """A job's systems with their results; a measure is a column's key or ``AVERAGE``.

    ``record``: a job's record by its name. ``items``: the test items of each system and column, training by training.
    ``replicates``: of each system and column, in per cent. ``metric``, ``unit``: of each measure. ``chance``, ``shortcut``,
    ``ceiling``: what guessing, the best known shortcut and a perfect scorer reach on each measure, None if not known.
    ``shortcut_by``: the inputs of that shortcut; ``shortcut_name``: its row. ``overall``: the average, or the first column
    without one. With ``averages`` the mean of several columns of one metric is a measure of its own.
    """

    shortcut_name = "best shortcut"

    def __init__(self, job: ArtefactJob, manifests: Manifests, averages: bool = True) -> None:
        self.job, self.manifests, self.title, self.scale_text = (
            job,
            manifests,
            title(job.artefact),
            words.scale_text(job),
        )
        self.systems = {system.key: system for system in job.systems}
        self.corpora = {s.corpus.key: s.corpus.label for s in job.systems if s.corpus}
        self.backbones = list(dict.fromkeys(s.backbone.label for s in job.systems))
        self.columns = {column.key: column.label for column in job.columns}
        self.averaged = [key for key in self.columns if key not in job.reported_separately]
        metrics = {column.metric for column in job.columns if column.key in self.averaged}
        averages = averages and len(self.averaged) > 1 and len(metrics) == 1
        self.measures = [*self.averaged, *([AVERAGE] if averages else []), *job.reported_separately]
        self.overall = AVERAGE if averages else self.measures[0]
        self.primary_measure = self._primary_measure()
        self.claimed_measures = [self.primary_measure, *job.also_claimed]
        self._labels_differ()
        self.record = cache(lambda name: read_json(manifests[name]))
        self.items: dict[tuple[str, str], list[Items]] = {}
        self.metric: dict[str, str] = {}
        self.chance: dict[str, float | None] = {}
        self.ceiling: dict[str, float | None] = {}
        self.shortcut: dict[str, float | None] = {}
        self.shortcut_by: dict[str, str] = {}
        self.unit: dict[str, str] = dict.fromkeys(self.measures, "per cent")
        self.read()
        self.metric[AVERAGE] = "mean"
        for level in (self.chance, self.ceiling, self.shortcut):
            level[AVERAGE] = self._averaged(level)
        try:
            replicates = resampled(self.items, job.statistics.bootstrap)
        except UserError as error:
            raise UserError(f"{self.title}: {error}") from None
        self.replicates: dict[tuple[str, str], Replicates] = {}
        for key, system in self.systems.items():
            # a model without seeds, and a rule that reads the captions alone, are one result however often they are read
            once = len(set(system.records)) == 1
            for column in self.columns:
                scaled = replicates[key, column].times(100)
                self.replicates[key, column] = replace(scaled, values=scaled.values[:1]) if once else scaled
        self.levels = {
            (key, measure): estimate(self.whole(key, measure), job.statistics.level)
            for key in self.systems
            for measure in self.measures
        }
        self.gains: list[Pair] = [(s.key, s.control) for s in job.systems if s.control is not None]
        contrasts = [(first, second) for first, second in job.contrasts]
        self.named = self._oriented(contrasts)
        #: the claims, in the order in which they are tested: as shown → as claimed, the first side predicted to be higher
        self.claimed: dict[Pair, Pair] = {
            (first, second) if (first, second) in self.named else (second, first): (first, second)
            for first, second in job.primary
        }
        self.compared = list(dict.fromkeys([*self.claimed, *self.named, *self.gains]))
        self.differences = {
            (pair, measure): estimate(self.difference(pair, measure), job.statistics.level, contrast=True)
            for pair in dict.fromkeys([*self.compared, *contrasts])
            for measure in self.measures
        }
        self.decisions = self._decisions()
        self.trained_on = seen.counted(job, manifests)

    def read(self) -> None:
        """Read the records: sets ``items``, ``metric`` and ``chance``. UserError if a record's values are not those of its items,
        or chance levels differ between records."""
        names = dict.fromkeys(name for system in self.job.systems for name in system.records)
        results = {name: self._probe(name) for name in names}
        for column in self.columns:
            for system in self.job.systems:
                self.items[system.key, column] = [results[name][column][0] for name in system.records]
            chances = {round(of[column][1], 6): name for name, of in results.items()}
            if len(chances) > 1:
                levels = ", ".join(f"{name} with {chance:g}" for chance, name in chances.items())
                raise UserError(f"{self.title}: {column} has other chance levels: {levels}")
            _, self.chance[column], self.metric[column], best = next(iter(results.values()))[column]
            if best is not None:
                self.shortcut[column], self.shortcut_by[column] = 100 * best[0], best[1]

    def _probe(self, name: str) -> dict[str, tuple[Items, float, str, tuple[float, str] | None]]:
        """Of each column a record's items, chance level, metric and best shortcut."""
        results = {}
        with reading(self.manifests[name]):
            items = items_of(table_of(self.manifests, name, "items.parquet"))
            for column in self.columns:
                told = self.record(name)["probes"][column]
                n, value, metric = items[column].n, 100 * items[column].value, str(told["metric"])
                if told["n"] != n or not abs(told["value"] - value) <= 1e-3:
                    raise UserError(
                        f"{name} on {column}: the record says {told['value']:.3f} over {told['n']} items, its items give "
                        f"{value:.3f} over {n}"
                    )
                results[column] = items[column], float(told["chance"]), METRICS.get(metric, metric), best_shortcut(told)
        return results

    def _averaged(self, levels: Mapping[str, float | None]) -> float | None:
        """The mean over the columns of the average; None if one has no value."""
        values = [value for column in self.parts(AVERAGE) if (value := levels.get(column)) is not None]
        return sum(values) / len(values) if values and len(values) == len(self.parts(AVERAGE)) else None

    def _primary_measure(self) -> str:
        metric = self.job.primary_metric
        if metric != "average":
            return metric
        if AVERAGE not in self.measures and len(self.columns) > 1:
            raise UserError(f"{self.title}: it has no average; primary_metric must be one of {', '.join(self.columns)}")
        return self.overall

    def _labels_differ(self) -> None:
        """Labels identify rows; UserError if two systems have the same."""
        keys: dict[tuple[str, str, str], str] = {}
        for system in self.job.systems:
            labels = dataset(system), system.backbone.label, words.method(system)
            first = keys.setdefault(labels, system.key)
            if first != system.key:
                raise UserError(f"{self.title}: {first} and {system.key} are both called {', '.join(labels)}")

    def _oriented(self, pairs: Sequence[Pair]) -> list[Pair]:
        """``pairs``, each once, and those between the same two datasets (else backbones, else methods) in the orientation of the
        first of them."""
        shown: set[tuple[int, str, str]] = set()
        oriented: dict[Pair, None] = {}
        for first, second in pairs:
            labels = (
                (dataset(system), system.backbone.label, words.method(system))
                for system in (self.systems[first], self.systems[second])
            )
            kind, left, right = next((n, *both) for n, both in enumerate(zip(*labels, strict=True)) if len({*both}) > 1)
            turned = (kind, right, left) in shown
            shown |= set() if turned else {(kind, left, right)}
            oriented[(second, first) if turned else (first, second)] = None
        return list(oriented)

    # replicates

    def whole(self, system: str, measure: str) -> Replicates:
        """Of a system on a measure, in per cent."""
        return mean([self.replicates[system, column] for column in self.parts(measure)])

    def difference(self, pair: Pair, measure: str) -> Replicates:
        """The first minus the second in points, paired by item and by seed; UserError if their items differ."""
        for column in self.parts(measure):
            first, second = (self.items[key, column][0] for key in pair)
            if not first.same_items(second):
                raise UserError(
                    f"{self.title}: {pair[0]} against {pair[1]}: {column}: not tested on the same items, which a comparison needs"
                )
        try:
            return self.whole(pair[0], measure) - self.whole(pair[1], measure)
        except UserError as error:
            raise UserError(f"{self.title}: {pair[0]} against {pair[1]}: {error}") from None

    def margin(self, pair: Pair, measure: str) -> float | Replicates | None:
        """The margin of a measure (protocol.statistics.margins); of an average, if all its columns have the same."""
        margins = {self.job.statistics.margins.get(self.metric[column]) for column in self.parts(measure)}
        return margins.pop() if len(margins) == 1 else None

    def below_control(self, measure: str, *sides: Sequence[str]) -> bool:
        """Whether no side of a claim is above its control. A side is above if one of its systems is, or if none has a control. A
        comparison with a side's own control is never below control."""
        if len(sides) == 2 and any(self.systems[key].control in sides[1] for key in sides[0]):
            return False
        return all(self._above_control(side, measure) is False for side in sides)

    def _above_control(self, systems: Sequence[str], measure: str) -> bool | None:
        """Whether the interval of some system's gain over its control lies above 0; None if none has a control."""
        pairs = [(key, control) for key in systems if (control := self.systems[key].control) is not None]
        lows = [self.differences[pair, measure].low for pair in pairs]
        return any(low is not None and low > 0 for low in lows) if pairs else None

    def _decisions(self) -> dict[tuple[Pair, str], Decision]:
        """The decisions on the primary contrasts, by pair as shown and measure; they are one family."""
        statistics = self.job.statistics
        keys = [(pair, measure) for measure in self.claimed_measures for pair in self.claimed]
        claims = [
            replace(
                claim(self.difference(pair, measure), self.margin(pair, measure), statistics.level),
                below_control=self.below_control(measure, *([key] for key in pair)),
            )
            for pair, measure in ((self.claimed[shown], measure) for shown, measure in keys)
        ]
        return dict(zip(keys, decide(claims, statistics.level, statistics.power, statistics.order), strict=True))

    # lines

    @cached_property
    def numbers(self) -> list[Number]:
        """A line for each system and measure."""
        return [self.number(key, measure) for key in self.systems for measure in self.measures]

    def number(self, key: str, measure: str) -> Number:
        """The line of a system on a measure."""
        system = self.systems[key]
        labels = dataset(system), system.backbone.label, system.method.label
        paper = self.job.scale == "paper" and system.corpus is not None
        return Number(
            system=system,
            column=self.key(measure),
            label=self.name(measure),
            metric=self.metric[measure],
            unit=self.unit[measure],
            estimate=self.levels[system.key, measure],
            chance=self.chance[measure],
            shortcut=self.shortcut.get(measure),
            ceiling=self.ceiling.get(measure),
            gain=self.differences[(system.key, system.control), measure] if system.control else None,
            control=self.systems[system.control] if system.control else None,
            pairs=self.training(system, "pairs"),
            steps=self.training(system, "steps"),
            published=published.lookup(self.job.artefact, *labels, self.name(measure)) if paper else None,
        )

    def contrasts(self) -> list[Contrast]:
        """A line for each difference and measure: named contrasts first, then gains."""
        named = set(self.named)
        return [
            self.contrast("difference" if pair in named else "gain", pair, measure, self.differences[pair, measure])
            for pair in self.compared
            for measure in self.measures
        ]

    def contrast(self, kind: Kind, pair: Pair, measure: str, estimate: Estimate, **more: Any) -> Contrast:
        """A difference of two systems as a line; ``more``: further fields."""
        first, second = (self.systems[key] for key in pair)
        line = Contrast(
            kind=kind,
            first=Side.of(first),
            second=Side.of(second),
            column=self.key(measure),
            label=self.name(measure),
            metric=self.metric[measure],
            unit="points" if self.unit[measure] in ("per cent", "x 100") else self.unit[measure],
            estimate=estimate,
            decision=self.decisions.get((pair, measure)),
            predicted="higher" if self.claimed.get(pair, pair) == pair else "lower",
            seen=seen.mark(self.trained_on, pair, self.parts(measure)),
        )
        return replace(line, **more)

    def claims(self) -> list[Contrast]:
        """The lines of the primary contrasts, in their order."""
        return [
            self.contrast("difference", pair, measure, self.differences[pair, measure])
            for pair, measure in self.decisions
        ]

    # what systems have

    def first(self, system: System) -> Mapping[str, Any]:
        """The system's first record."""
        return self.record(system.records[0])

    def training(self, system: System, key: str) -> int | None:
        """A number of its training (pairs, steps, samples_seen) in the first record, None if there is none."""
        training_record = self.first(system).get("training")
        return int(training_record[key]) if training_record else None

    def training_of_corpus(self, corpus: str, key: str, name: str) -> int:
        """The number ``key`` of the trainings on a corpus, called ``name`` in messages; UserError if a record lacks it or records
        differ."""
        by_count: dict[int, str] = {}
        here = [s for s in self.job.systems if s.corpus and s.corpus.key == corpus]
        for record in (record for system in here for record in system.records):
            training_record = self.record(record).get("training")
            if not training_record:
                raise UserError(f"{self.title}: the record of {record} does not tell its {name}")
            by_count.setdefault(int(training_record[key]), record)
        if len(by_count) > 1:
            text = ", ".join(f"{record} on {count:,}" for count, record in by_count.items())
            raise UserError(f"{self.title}: runs of {corpus} saw different numbers of {name}: {text}")
        return next(iter(by_count))

    def count(self, system: System, measure: str) -> int:
        """Test items; of an average, those of all its columns."""
        return sum(self.items[system.key, name][0].n for name in self.parts(measure))

    def parts(self, measure: str) -> list[str]:
        """The columns of a measure."""
        return self.averaged if measure == AVERAGE else [measure]

    def name(self, measure: str) -> str:
        """A measure's label."""
        return AVERAGE if measure == AVERAGE else self.columns[measure]

    def key(self, measure: str) -> str:
        """A measure's key in csv files."""
        return measure.lower() if measure == AVERAGE else measure

    # words

    @property
    def level_words(self) -> str:
        """What the intervals are, and the number of test items."""
        return f"{words.intervals(self.job.statistics, self.job.seeds)} {self.item_words()}"

    def item_words(self) -> str:
        """The number of test items of each column, on which all systems are tested."""
        first = self.job.systems[0]
        return f"Test items: {', '.join(f'{label} {self.count(first, key)}' for key, label in self.columns.items())}."

    def notes(self) -> list[str]:
        """The notes below a table of levels: its systems', its columns', and those of every table."""
        shortcuts = [f"{self.name(column)}: {what}" for column, what in self.shortcut_by.items()]
        pairs = {n.dataset: n.pairs for n in self.numbers if n.pairs is not None}
        return [
            *dict.fromkeys(system.note for system in self.job.systems if system.note),
            *self.job.notes,
            *([f"Best shortcut: {'; '.join(shortcuts)}. {_SHORTCUT}"] if shortcuts else []),
            *([f"Image–caption pairs: {', '.join(f'{k} {n:,}' for k, n in pairs.items())}."] if pairs else []),
            *_NOTES,
        ]


_SHORTCUT = (
    "That is what is right without the image, or by these parts of it alone: a score below it may rest on the shortcut. Where "
    "none is shown, none was searched."
)
_NOTES = (
    "† (grey): shown but not ranked. Chance: what guessing would score.",
    f"{AVERAGE}: the plain mean of the columns under its heading; for its interval, items are drawn within each column.",
    "Paper: the value printed in the paper, shown at its own scale only.",
)


def best_shortcut(result: Mapping[str, Any], score: str | None = None) -> tuple[float, str] | None:
    """The share of right answers and the inputs of the best shortcut in a set's ``result``, of a set of pairs that for
    Winoground's ``score``; None if there is none."""
    found = [one for one in result.get("shortcuts", ()) if one.get("score") == score]
    return max(((float(one["value"]), one["what"]) for one in found), default=None)
