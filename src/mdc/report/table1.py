"""Table 1, linear probing: from probe records to csv, tidy csv, contrasts, HTML, Markdown and LaTeX.

Which encoders stand in it comes from a specification (see ``build``); every number comes from the encoders' per-item
results, so that comparisons are paired by test item. A record that is missing, or that was made with another
configuration than the expected one, is refused by name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from mdc import statistics
from mdc.records import UserError, write_text
from mdc.report import published
from mdc.report.estimates import Estimator, MeanAveragePrecision, interval_label
from mdc.report.items import ProbeItems
from mdc.report.tables import Cell, Column, Row, Table, csv_text, mark_rows, write_csv, write_html, write_latex
from mdc.report.tables import write_markdown as write_md
from mdc.statistics import Interval

AVERAGE = "Average"
#: the files that :func:`build` writes
FILES = ("table1.csv", "table1_long.csv", "table1_contrasts.csv", "table1.html", "table1.md", "table1.tex")

METRICS = {"top1": "top-1", "map": "mAP"}
POOLINGS = {"patch_mean": "mean of patches", "cls": "[CLS]"}
#: PROTOCOL: contrasts are named beforehand; each is the first method minus the second, within a corpus and backbone
CONTRASTS = (("mdc", "arc"), ("mdc", "clip"))

Record = Mapping[str, Any]
ItemsOf = Callable[[Record], Mapping[str, ProbeItems]]


@dataclass(frozen=True)
class Encoder:
    """One row: an encoder with all its seeds. ``corpus`` None: an untrained control."""

    corpus: str | None
    backbone: str
    method: str
    pooling: str
    seeds: tuple[int, ...]

    def ids(self) -> list[str]:
        """The encoders' ids, one a seed, as in the records."""
        if self.corpus is None:
            return [f"untrained/{self.backbone}/{self.pooling}/s{seed}" for seed in self.seeds]
        return [f"{self.corpus}/{self.backbone}/{self.method}/s{seed}" for seed in self.seeds]

    def control(self) -> Encoder:
        """Its own initial weights with its own pooling."""
        return Encoder(None, self.backbone, "untrained", self.pooling, self.seeds)


@dataclass(frozen=True)
class Number:
    """One line of ``table1_long.csv``. Per cent; gains in points over the untrained control; 95 % intervals.

    ``pairs``: of images and captions there really were to train on; ``steps`` that followed from them.
    """

    scale: str
    table: str
    dataset: str
    backbone: str
    method: str
    method_key: str
    pooling: str
    seeds: str
    benchmark: str
    metric: str
    value: float
    low: float
    high: float
    interval: str
    n: int
    chance: float
    gain: float | None
    gain_low: float | None
    gain_high: float | None
    pairs: int | None
    steps: int | None
    run: str
    published: float | None


@dataclass(frozen=True)
class Contrast:
    """One line of ``table1_contrasts.csv``: ``method`` minus ``against``, in points, paired."""

    scale: str
    table: str
    dataset: str
    backbone: str
    method: str
    against: str
    benchmark: str
    metric: str
    difference: float
    low: float
    high: float
    interval: str
    n: int
    seeds: str
    p: float
    p_holm: float
    verdict: str
    smallest_detectable: float


@dataclass(frozen=True)
class Table1:
    """What was written, for figures and checks."""

    table: Table
    numbers: tuple[Number, ...]
    contrasts: tuple[Contrast, ...]


def build(
    records: Iterable[Record],
    items: ItemsOf,
    spec: Mapping[str, Any],
    out: str | Path,
    mean_average_precision: MeanAveragePrecision | None = None,
) -> Table1:
    """Write the six ``FILES`` into the folder ``out``.

    ``records``: probe records, one an encoder. ``items``: reads a record's per-item results, by probe.
    ``spec``: ``scale``, ``scale_label``, ``corpora`` [{key, label, methods}], ``backbones`` [{key, label}], ``methods``
    {key: {label, pooling, grey}}, ``probes`` [{key, label}], ``seeds``, ``expected`` {encoder id: config sha256}, and
    ``bootstrap`` (resamples; default 2000). ``mean_average_precision``: needed if a probe is multi-label,
    see :class:`mdc.report.estimates.Estimator`.

    UserError names the encoder whose record is missing, stale, of another scale, or does not match its items.
    """
    maker = _Maker(records, items, spec, mean_average_precision)
    numbers, contrasts = maker.numbers(), maker.contrasts()
    main = maker.main_table(numbers)
    shown = [main, maker.gain_table(numbers)]
    if any(contrast.against != "untrained" for contrast in contrasts):
        shown.append(maker.contrast_table(contrasts))
    out = Path(out)
    write_csv(main, out / "table1.csv", {"scale": maker.scale_words})
    write_text(out / "table1_long.csv", _tidy(numbers, Number, leave_out=("method_key",)))
    write_text(out / "table1_contrasts.csv", _tidy(contrasts, Contrast))
    write_html(shown, out / "table1.html")
    write_md(shown, out / "table1.md")
    write_latex(main, out / "table1.tex")
    return Table1(main, tuple(numbers), tuple(contrasts))


class _Maker:
    """Records and specification brought together; every estimate is made once."""

    def __init__(
        self, records: Iterable[Record], items: ItemsOf, spec: Mapping[str, Any], metric: MeanAveragePrecision | None
    ) -> None:
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
        self.records = select(records, [*self.trained, *self.untrained], self.scale, spec["expected"], self.probes)
        self.items = {id_: dict(items(record)) for id_, record in self.records.items()}
        self._pairs = [(e, e.control()) for e in self.trained] + self._named_pairs()
        self.measures = [*self.probes, AVERAGE]
        # The least p of a bootstrap is 2/(draws + 1), and Holm multiplies it by up to the size of the family: with too
        # few draws no contrast of a large table could ever be told from 0.
        family = len(self._pairs) * len(self.measures)
        self.estimator = Estimator(max(int(spec.get("bootstrap", 2000)), 100 * family), 0, metric)
        for id_, record in self.records.items():
            _check_items(id_, record, self.items[id_], self.probes, self.estimator)
        some = next(iter(self.records.values()))["probes"]
        self.metric = {p: METRICS.get(some[p]["metric"], some[p]["metric"]) for p in self.probes}
        self.metric[AVERAGE] = "mean"
        self.chance = {p: float(some[p]["chance"]) for p in self.probes}
        self.chance[AVERAGE] = sum(self.chance.values()) / len(self.chance)
        for id_, record in self.records.items():
            for p in self.probes:
                if abs(float(record["probes"][p]["chance"]) - self.chance[p]) > 1e-6:
                    raise UserError(f"table 1: {id_} was probed with another chance level on {p} than the others")
        self._differences = self._all_differences()

    # numbers

    def numbers(self) -> list[Number]:
        return [self._number(encoder, measure) for encoder in self._rows() for measure in self.measures]

    def contrasts(self) -> list[Contrast]:
        keys = list(self._differences)
        adjusted = statistics.holm([_p(self._differences[key]) for key in keys])
        found = []
        for (a, b, measure), holm in zip(keys, adjusted, strict=True):
            interval = self._differences[a, b, measure]
            found.append(
                Contrast(
                    scale=self.scale,
                    table="table1",
                    dataset=self._dataset(a),
                    backbone=self.backbones[a.backbone],
                    method=self._method(a),
                    against=self._method(b) if b.corpus else "untrained",
                    benchmark=self._benchmark(measure),
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
        labels = self._dataset(encoder), self.backbones[encoder.backbone], self._method(encoder)
        paper = self.scale == "paper" and encoder.corpus is not None
        return Number(
            scale=self.scale,
            table="table1",
            dataset=labels[0],
            backbone=labels[1],
            method=labels[2] if encoder.corpus else "untrained",
            method_key=encoder.method,
            pooling=encoder.pooling,
            seeds=_seeds(self.seeds),
            benchmark=self._benchmark(measure),
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
            pairs=self._training(encoder, "pairs"),
            steps=self._training(encoder, "steps"),
            run=" ".join(encoder.ids()),
            published=published.lookup("table1", *labels, self._benchmark(measure)) if paper else None,
        )

    def _training(self, encoder: Encoder, key: str) -> int | None:
        told = self.records[encoder.ids()[0]].get("training")
        return int(told[key]) if told else None

    def _pairs_words(self) -> tuple[str, ...]:
        """How many pairs each corpus really had: of a list of URLs, what could be obtained."""
        found = {self.corpora[e.corpus]: self._training(e, "pairs") for e in self.trained if e.corpus}
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
                    raise UserError(f"table 1: {a.ids()[0]} against {b.ids()[0]}: {error}") from None
        return found

    def _named_pairs(self) -> list[tuple[Encoder, Encoder]]:
        by_key = {(e.corpus, e.backbone, e.method): e for e in self.trained}
        blocks = dict.fromkeys((e.corpus, e.backbone) for e in self.trained)
        return [
            (by_key[*block, first], by_key[*block, second])
            for block in blocks
            for first, second in CONTRASTS
            if (*block, first) in by_key and (*block, second) in by_key
        ]

    # tables

    def main_table(self, numbers: Sequence[Number]) -> Table:
        found = {(n.run, n.benchmark): n for n in numbers}
        rows: list[Row] = []
        for block in self._blocks():
            lines = [
                self._row(encoder, [found[" ".join(encoder.ids()), m] for m in self._names()]) for encoder in block
            ]
            rows += mark_rows(lines, [not self._grey(encoder) for encoder in block])
        chance = tuple(Cell(self.chance[measure]) for measure in self.measures)
        rows.append(Row(("any", "any", "chance"), chance, "chance", reference=True))
        grey = dict.fromkeys(self._method(encoder) for encoder in self.trained if self._grey(encoder))
        notes = (
            "Within a dataset and backbone: best in bold, second best underlined, compared as printed.",
            *((f"Grey († in Markdown), shown but not ranked: {', '.join(grey)}.",) if grey else ()),
            "Untrained: the initial weights of the same backbone, seed and pooling. Chance: what guessing would score.",
            f"{AVERAGE}: plain mean of the columns; its interval resamples within each benchmark.",
            *self._pairs_words(),
            *(("Paper: the value printed in the paper's Table 1.",) if any(n.published for n in numbers) else ()),
        )
        return Table(
            title=f"Table 1. Linear probing, {self.scale_text}",
            caption=(f"Per cent on each benchmark's test items. {self._interval_words()}",),
            labels=("Dataset", "Backbone", "Method"),
            columns=self._columns("Linear probe"),
            rows=tuple(rows),
            footnotes=notes,
        )

    def gain_table(self, numbers: Sequence[Number]) -> Table:
        found = {(n.run, n.benchmark): n for n in numbers}
        rows = []
        for encoder in self.trained:
            mine = [found[" ".join(encoder.ids()), name] for name in self._names()]
            cells = tuple(Cell(n.gain, n.gain_low, n.gain_high) for n in mine)
            rows.append(Row(self._labels(encoder), cells, f"{encoder.backbone}/{encoder.corpus}"))
        return Table(
            title=f"Gain over the untrained encoder, {self.scale_text}",
            caption=(
                f"Points above the encoder's own initial weights, same pooling, paired. {self._interval_words()}",
            ),
            labels=("Dataset", "Backbone", "Method"),
            columns=self._columns("Trained minus untrained"),
            rows=tuple(rows),
            signed=True,
        )

    def contrast_table(self, contrasts: Sequence[Contrast]) -> Table:
        named = [c for c in contrasts if c.against != "untrained"]
        rows = []
        for first in range(0, len(named), len(self.measures)):
            line = named[first : first + len(self.measures)]
            head = line[0]
            cells = tuple(Cell(c.difference, c.low, c.high, note=_verdict_words(c)) for c in line)
            labels = (head.dataset, head.backbone, f"{head.method} − {head.against}")
            rows.append(Row(labels, cells, f"{head.backbone}/{head.dataset}"))
        return Table(
            title=f"Differences between methods, {self.scale_text}",
            caption=(
                f"Points, paired by {'seed' if len(self.seeds) >= 3 else 'test item'}. {self._interval_words()}",
                "Claim: the first method is better. Held: the interval lies above 0. Comparable: it lies within ±2 "
                "points. Otherwise it cannot be told, and the number is the smallest difference that could have been "
                "seen (power 80 %).",
            ),
            labels=("Dataset", "Backbone", "Contrast"),
            columns=self._columns("Difference"),
            rows=tuple(rows),
            footnotes=("p is Holm-corrected over these differences and the gains; all are in table1_contrasts.csv.",),
            signed=True,
        )

    def _row(self, encoder: Encoder, numbers: Sequence[Number]) -> Row:
        cells = tuple(
            Cell(n.value, n.low, n.high, note="" if n.published is None else f"paper {n.published:.1f}")
            for n in numbers
        )
        block = encoder.backbone if encoder.corpus is None else f"{encoder.backbone}/{encoder.corpus}"
        return Row(self._labels(encoder), cells, block, reference=encoder.corpus is None)

    def _columns(self, group: str) -> tuple[Column, ...]:
        probes = [Column(label, group, self.metric[key]) for key, label in self.probes.items()]
        return (*probes, Column(AVERAGE, "", self.metric[AVERAGE]))

    def _rows(self) -> list[Encoder]:
        return [encoder for block in self._blocks() for encoder in block]

    def _blocks(self) -> list[list[Encoder]]:
        """By backbone: its untrained controls, then one block a corpus."""
        found: list[list[Encoder]] = []
        for backbone in self.backbones:
            found.append([e for e in self.untrained if e.backbone == backbone])
            found += [[e for e in self.trained if (e.backbone, e.corpus) == (backbone, c)] for c in self.corpora]
        return [block for block in found if block]

    # words

    def _interval_words(self) -> str:
        seeds = f"seed{'s' if len(self.seeds) > 1 else ''} {_seeds(self.seeds)}"
        sizes = ", ".join(f"{label} {self._n(self.trained[0], key)}" for key, label in self.probes.items())
        return f"In brackets the 95 % interval: {self.interval} ({seeds}). Test items: {sizes}."

    def _labels(self, encoder: Encoder) -> tuple[str, str, str]:
        return self._dataset(encoder), self.backbones[encoder.backbone], self._method(encoder)

    def _dataset(self, encoder: Encoder) -> str:
        return "none" if encoder.corpus is None else self.corpora[encoder.corpus]

    def _method(self, encoder: Encoder) -> str:
        if encoder.corpus is None:
            return f"untrained, {POOLINGS.get(encoder.pooling, encoder.pooling)}"
        return str(self.methods[encoder.method]["label"])

    def _grey(self, encoder: Encoder) -> bool:
        return encoder.corpus is not None and bool(self.methods[encoder.method].get("grey", False))

    def _benchmark(self, measure: str) -> str:
        return AVERAGE if measure == AVERAGE else self.probes[measure]

    def _names(self) -> list[str]:
        return [self._benchmark(measure) for measure in self.measures]

    def _parts(self, measure: str) -> list[str]:
        return list(self.probes) if measure == AVERAGE else [measure]

    def _n(self, encoder: Encoder, measure: str) -> int:
        """Test items; of an Average, those of all its benchmarks."""
        return sum(self.items[encoder.ids()[0]][name].n for name in self._parts(measure))


def select(
    records: Iterable[Record],
    encoders: Sequence[Encoder],
    scale: str,
    expected: Mapping[str, str],
    probes: Iterable[str],
) -> dict[str, Record]:
    """The record of every encoder and seed, by id; UserError if one is missing, doubled, stale or incomplete.

    Ids may carry a leading ``runs/``. Records of other encoders are passed over.
    """
    by_id: dict[str, Record] = {}
    for record in records:
        id_ = str(record["encoder"]["id"]).removeprefix("runs/")
        if id_ in by_id:
            raise UserError(f"table 1: two probe records for {id_}")
        by_id[id_] = record
    wanted = {id_.removeprefix("runs/"): sha256 for id_, sha256 in expected.items()}
    found = {}
    for id_ in (id_ for encoder in encoders for id_ in encoder.ids()):
        if id_ not in by_id:
            raise UserError(f"table 1: no probe record for {id_}; probe this encoder first")
        if id_ not in wanted:
            raise UserError(f"table 1: the specification expects no record for {id_}, though its table needs it")
        record = by_id[id_]
        if record.get("kind") != "probe" or record.get("scale") != scale:
            made = f"kind {record.get('kind')}, scale {record.get('scale')}"
            raise UserError(f"table 1: the record of {id_} is of {made}; needed: kind probe, scale {scale}")
        if record["config_sha256"] != wanted[id_]:
            raise UserError(
                f"table 1: the probe record of {id_} is stale: made with configuration {record['config_sha256'][:12]}, "
                f"expected {wanted[id_][:12]}; probe this encoder again"
            )
        missing = [name for name in probes if name not in record["probes"]]
        if missing:
            raise UserError(f"table 1: the probe record of {id_} lacks {', '.join(missing)}")
        found[id_] = record
    return found


def _check_items(
    id_: str, record: Record, items: Mapping[str, ProbeItems], probes: Iterable[str], estimator: Estimator
) -> None:
    """A record's values must be those of its items: two files that belong to different runs are caught here."""
    for name in probes:
        if name not in items:
            raise UserError(f"table 1: the items of {id_} lack {name}")
        told, found = record["probes"][name], 100 * estimator.value(items[name])
        if told["n"] != items[name].n or abs(told["value"] - found) > 1e-3:
            raise UserError(
                f"table 1: {id_} on {name}: the record says {told['value']:.3f} over {told['n']} items, its items give "
                f"{found:.3f} over {items[name].n}; probe this encoder again"
            )


def _verdict_words(contrast: Contrast) -> str:
    if contrast.verdict == "cannot be told":
        return f"cannot be told (≥ {contrast.smallest_detectable:.1f})"
    return f"{contrast.verdict}, p {contrast.p_holm:.3f}" if contrast.verdict == "held" else contrast.verdict


def _p(interval: Interval) -> float:
    return 1.0 if interval.p is None else interval.p


def _seeds(seeds: Sequence[int]) -> str:
    return " ".join(map(str, seeds))


def _tidy(lines: Sequence[Any], kind: type, leave_out: Sequence[str] = ()) -> str:
    columns = [field.name for field in fields(kind) if field.name not in leave_out]
    return csv_text([asdict(line) for line in lines], columns)
