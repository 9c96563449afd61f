"""Every number and every contrast of a table of probes, each estimated once from the encoders' per-item results.

Which encoders stand in it comes from a specification (see :func:`mdc.report.tables.table1.build`). Comparisons are paired by test
item, or by seed where there are three or more.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from mdc.records import UserError
from mdc.report import published
from mdc.report.estimates import Estimator, MeanAveragePrecision, interval_label
from mdc.report.lines import AVERAGE, POOLINGS, Contrast, Encoder, Number, side
from mdc.report.selection import ItemsOf, Record, check_items, select
from mdc.statistics import intervals as statistics
from mdc.statistics.intervals import Interval

METRICS = {"top1": "top-1", "map": "mAP"}
#: what the verdicts of a table mean, under its contrasts
CLAIM = (
    "Claim: the first is better. Held: the interval lies above 0. Comparable: it lies within ±2 points. Otherwise it "
    "cannot be told; beside it stands the smallest difference that could have been seen (power 80 %), or that the interval "
    "lies below 0."
)


class Probing:
    """Records and specification brought together; every estimate is made once."""

    averages = True  # the mean of the probes is a measure of its own …
    always_average = True  # … also of one probe
    printed = True  # the paper prints these numbers; of a figure it only draws them

    def __init__(
        self, records: Iterable[Record], items: ItemsOf, spec: Mapping[str, Any], metric: MeanAveragePrecision | None
    ) -> None:
        self.table = str(spec.get("table", "table1"))
        self.title = re.sub(r"(?<=[a-z])(?=\d)", " ", self.table)  # as "table 1"
        self.scale = str(spec["scale"])
        label = str(spec.get("scale_label", self.scale))
        self.scale_text = f"scale {label if label.startswith(self.scale) else f'{self.scale} ({label})'}"
        # a csv has no caption: the warning stands in its own column
        self.scale_words = self.scale
        if self.scale != "paper":
            self.scale_text += ": not a reproduction of the paper's numbers"
            self.scale_words += " (not a reproduction of the paper's numbers)"
        self.corpora = {c["key"]: c["label"] for c in spec["corpora"]}
        self.backbones = {b["key"]: b["label"] for b in spec["backbones"]}
        self.methods: dict[str, Mapping[str, Any]] = dict(spec["methods"])
        self.probes = {p["key"]: p["label"] for p in spec["probes"]}
        # named beforehand: each is the first method minus the second, within a backbone, and a corpus if it names none
        self.named = [(side(first), side(second)) for first, second in spec["contrasts"]]
        self.seeds = tuple(int(seed) for seed in spec["seeds"])
        self.interval = interval_label(len(self.seeds))
        self.trained = [
            Encoder(c["key"], backbone, method, self.methods[method]["pooling"], self.seeds)
            for backbone in self.backbones
            for c in spec["corpora"]
            for method in c["methods"]
        ]
        poolings = {b: dict.fromkeys(e.pooling for e in self.trained if e.backbone == b) for b in self.backbones}
        self.untrained = [Encoder(None, b, "untrained", p, self.seeds) for b in self.backbones for p in poolings[b]]
        self.records = select(
            self.title, records, [*self.trained, *self.untrained], self.scale, spec["expected"], self.probes
        )
        self.items = {id_: dict(items(record)) for id_, record in self.records.items()}
        self._pairs = [(e, e.control()) for e in self.trained] + self._named_pairs()
        averaged = self.averages and (self.always_average or len(self.probes) > 1)
        self.measures = [*self.probes, *([AVERAGE] if averaged else [])]
        # The least p of a bootstrap is 2/(draws + 1), and Holm multiplies it by up to the size of the family: with too
        # few draws no contrast of a large table could ever be told from 0.
        family = len(self._pairs) * len(self.measures)
        self.estimator = Estimator(max(int(spec.get("bootstrap", 2000)), 100 * family), 0, metric)
        for id_, record in self.records.items():
            check_items(self.title, id_, record, self.items[id_], self.probes, self.estimator)
        some = next(iter(self.records.values()))["probes"]
        self.metric = {p: METRICS.get(some[p]["metric"], some[p]["metric"]) for p in self.probes}
        self.metric[AVERAGE] = "mean"
        self.chance = {p: float(some[p]["chance"]) for p in self.probes}
        self.chance[AVERAGE] = sum(self.chance.values()) / len(self.chance)
        for id_, record in self.records.items():
            for p in self.probes:
                if abs(float(record["probes"][p]["chance"]) - self.chance[p]) > 1e-6:
                    raise UserError(f"{self.title}: {id_} was probed with another chance level on {p} than the others")
        self._differences = self._all_differences()

    # numbers

    def numbers(self) -> list[Number]:
        return [self._number(encoder, measure) for encoder in self.rows() for measure in self.measures]

    def contrasts(self) -> list[Contrast]:
        keys = list(self._differences)
        adjusted = statistics.holm([_p(self._differences[key]) for key in keys])
        found = []
        for (a, b, measure), holm in zip(keys, adjusted, strict=True):
            interval = self._differences[a, b, measure]
            found.append(
                Contrast(
                    scale=self.scale,
                    table=self.table,
                    dataset=self._dataset(a),
                    backbone=self.backbones[a.backbone],
                    method=self.method(a),
                    against=self.method(b) if b.corpus else "untrained",
                    against_dataset=self._dataset(b),
                    benchmark=self.benchmark(measure),
                    metric=self.metric[measure],
                    difference=interval.value,
                    low=interval.low,
                    high=interval.high,
                    interval=self.interval,
                    n=self._n(a, measure),
                    seeds=_seeds(self.seeds),
                    p=_p(interval),
                    p_holm=float(holm),
                    verdict=statistics.verdict(interval),
                    smallest_detectable=statistics.smallest_detectable_difference(interval),
                )
            )
        return found

    def _number(self, encoder: Encoder, measure: str) -> Number:
        group = [self.items[id_] for id_ in encoder.ids()]
        level = self.estimator.level(group, self._parts(measure))
        gain = self._differences.get((encoder, encoder.control(), measure))
        labels = self._dataset(encoder), self.backbones[encoder.backbone], self.method(encoder)
        paper = self.printed and self.scale == "paper" and encoder.corpus is not None
        return Number(
            scale=self.scale,
            table=self.table,
            dataset=labels[0],
            backbone=labels[1],
            method=labels[2] if encoder.corpus else "untrained",
            method_key=encoder.method,
            pooling=encoder.pooling,
            seeds=_seeds(self.seeds),
            benchmark=self.benchmark(measure),
            metric=self.metric[measure],
            value=level.value,
            low=level.low,
            high=level.high,
            interval=self.interval,
            n=self._n(encoder, measure),
            chance=self.chance[measure],
            gain=gain.value if gain else None,
            gain_low=gain.low if gain else None,
            gain_high=gain.high if gain else None,
            pairs=self.training(encoder, "pairs"),
            steps=self.training(encoder, "steps"),
            run=" ".join(encoder.ids()),
            published=published.lookup(self.table, *labels, self.benchmark(measure)) if paper else None,
        )

    def training(self, encoder: Encoder, key: str) -> int | None:
        told = self.records[encoder.ids()[0]].get("training")
        return int(told[key]) if told else None

    def pairs_words(self) -> tuple[str, ...]:
        """How many pairs each corpus really had: of a list of URLs, what could be obtained."""
        found = {self.corpora[e.corpus]: self.training(e, "pairs") for e in self.trained if e.corpus}
        told = [f"{label} {pairs:,}" for label, pairs in found.items() if pairs is not None]
        return (f"Image–caption pairs trained on: {'; '.join(told)}.",) if told else ()

    def _all_differences(self) -> dict[tuple[Encoder, Encoder, str], Interval]:
        found = {}
        for a, b in self._pairs:
            first, second = ([self.items[id_] for id_ in encoder.ids()] for encoder in (a, b))
            for measure in self.measures:
                try:
                    found[a, b, measure] = self.estimator.difference(first, second, self._parts(measure))
                except UserError as error:
                    raise UserError(f"{self.title}: {a.ids()[0]} against {b.ids()[0]}: {error}") from None
        return found

    def _named_pairs(self) -> list[tuple[Encoder, Encoder]]:
        by_key = {(e.corpus, e.backbone, e.method): e for e in self.trained}
        blocks = dict.fromkeys((e.corpus, e.backbone) for e in self.trained)
        within = [
            (by_key[*block, first], by_key[*block, second])
            for block in blocks
            for (of, first), (_, second) in self.named
            if not of and (*block, first) in by_key and (*block, second) in by_key
        ]
        across = [
            (by_key[of, backbone, first], by_key[against, backbone, second])
            for backbone in self.backbones
            for (of, first), (against, second) in self.named
            if of and (of, backbone, first) in by_key and (against, backbone, second) in by_key
        ]
        return list(dict.fromkeys(within + across))

    # tables

    def rows(self) -> list[Encoder]:
        return [encoder for block in self.blocks() for encoder in block]

    def blocks(self) -> list[list[Encoder]]:
        """By backbone: its untrained controls, then one block a corpus."""
        found: list[list[Encoder]] = []
        for backbone in self.backbones:
            found.append([e for e in self.untrained if e.backbone == backbone])
            found += [[e for e in self.trained if (e.backbone, e.corpus) == (backbone, c)] for c in self.corpora]
        return [block for block in found if block]

    # words

    def interval_words(self) -> str:
        sizes = ", ".join(f"{label} {self._n(self.trained[0], key)}" for key, label in self.probes.items())
        return f"In brackets the 95 % interval: {self.interval} ({self.seed_words()}). Test items: {sizes}."

    def correction_words(self) -> tuple[str, str]:
        """What p is corrected for, and what a claim that is held beside a large p is worth."""
        return (
            f"p is Holm-corrected over all {len(self._differences)} comparisons of {self.table}_contrasts.csv, which has the "
            "gains too.",
            "A verdict speaks of one interval alone: held beside a p above 0.05, it may be what so many comparisons bring by "
            "chance.",
        )

    def seed_words(self) -> str:
        """Which seeds the numbers are of."""
        return f"seed{'s' if len(self.seeds) > 1 else ''} {_seeds(self.seeds)}"

    def labels(self, encoder: Encoder) -> tuple[str, str, str]:
        return self._dataset(encoder), self.backbones[encoder.backbone], self.method(encoder)

    def _dataset(self, encoder: Encoder) -> str:
        return "none" if encoder.corpus is None else self.corpora[encoder.corpus]

    def method(self, encoder: Encoder) -> str:
        if encoder.corpus is None:
            return f"untrained, {POOLINGS.get(encoder.pooling, encoder.pooling)}"
        return str(self.methods[encoder.method]["label"])

    def grey(self, encoder: Encoder) -> bool:
        return encoder.corpus is not None and bool(self.methods[encoder.method].get("grey", False))

    def benchmark(self, measure: str) -> str:
        return AVERAGE if measure == AVERAGE else self.probes[measure]

    def names(self) -> list[str]:
        return [self.benchmark(measure) for measure in self.measures]

    def _parts(self, measure: str) -> list[str]:
        return list(self.probes) if measure == AVERAGE else [measure]

    def _n(self, encoder: Encoder, measure: str) -> int:
        """Test items; of an Average, those of all its benchmarks."""
        return sum(self.items[encoder.ids()[0]][name].n for name in self._parts(measure))


def verdict_words(contrast: Contrast) -> str:
    """A verdict as a table shows it; where the claim cannot be told, with what could have been, or that its opposite is seen."""
    if contrast.verdict == "cannot be told" and contrast.high < 0:
        return f"cannot be told (below 0, p {contrast.p_holm:.3f})"
    if contrast.verdict == "cannot be told":
        return f"cannot be told (≥ {contrast.smallest_detectable:.1f})"
    return f"{contrast.verdict}, p {contrast.p_holm:.3f}" if contrast.verdict == "held" else contrast.verdict


def _p(interval: Interval) -> float:
    return 1.0 if interval.p is None else interval.p


def _seeds(seeds: Sequence[int]) -> str:
    return " ".join(map(str, seeds))
