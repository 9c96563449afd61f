"""A table of methods by corpora, as Table 4: a row a method, the probes of each corpus side by side."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from mdc.records import write_text
from mdc.report.estimates import MeanAveragePrecision
from mdc.report.lines import AVERAGE, Contrast, Encoder, Number, tidy
from mdc.report.probing import CLAIM, Probing, verdict_words
from mdc.report.selection import ItemsOf, Record
from mdc.report.tables.layout import Cell, Column, Row, Table, mark_rows, write_csv, write_html, write_latex
from mdc.report.tables.layout import write_markdown as write_md

TITLES = {"table4": "Ablation on t", "table5": "Analysis of noise schedule"}
_NOTES = {"table5": "A row [low, high] is MDC with t, the share of a caption that is masked, drawn from this range."}


def files(table: str) -> list[str]:
    """The names that :func:`build` writes."""
    endings = (".csv", "_long.csv", "_contrasts.csv", ".html", ".md", ".tex")
    return [f"{table}{ending}" for ending in endings]


def build(
    records: Iterable[Record],
    items: ItemsOf,
    spec: Mapping[str, Any],
    out: str | Path,
    mean_average_precision: MeanAveragePrecision | None = None,
) -> tuple[list[Number], list[Contrast]]:
    """Write ``files`` of ``spec["table"]`` into ``out``; arguments and errors as :func:`mdc.report.tables.table1.build`."""
    maker = _Layout(records, items, spec, mean_average_precision)
    numbers, contrasts = maker.numbers(), maker.contrasts()
    main = maker.main_table(numbers)
    shown = [main]
    if any(contrast.against != "untrained" for contrast in contrasts):
        shown.append(maker.contrast_table(contrasts))
    out, name = Path(out), maker.table
    write_csv(main, out / f"{name}.csv", {"scale": maker.scale_words})
    write_text(out / f"{name}_long.csv", tidy(numbers, Number, leave_out=("method_key",)))
    write_text(out / f"{name}_contrasts.csv", tidy(contrasts, Contrast))
    write_html(shown, out / f"{name}.html")
    write_md(shown, out / f"{name}.md")
    write_latex(main, out / f"{name}.tex")
    return numbers, contrasts


class _Layout(Probing):
    always_average = False

    def main_table(self, numbers: Sequence[Number]) -> Table:
        found = {(n.run, n.benchmark): n for n in numbers}

        def cell(encoder: Encoder, benchmark: str, shown: Encoder) -> Cell:
            number = found[" ".join(encoder.ids()), benchmark]
            note = "" if number.published is None or shown is not encoder else f"paper {number.published:.1f}"
            return Cell(number.value, number.low, number.high, note=note)

        rows = []
        for pooling in dict.fromkeys(e.pooling for e in self.trained):
            control = next(e for e in self.untrained if e.pooling == pooling)
            cells = tuple(cell(control, name, control) for _ in self.corpora for name in self.names())
            rows.append(Row((self.method(control),), cells, "untrained", reference=True))
        by_method = [
            [
                next((e for e in self.trained if (e.corpus, e.method) == (corpus, method)), None)
                for corpus in self.corpora
            ]
            for method in dict.fromkeys(e.method for e in self.trained)
        ]
        lines = []
        for encoders in by_method:
            cells = tuple(
                Cell(None) if encoder is None else cell(encoder, name, encoder)
                for encoder in encoders
                for name in self.names()
            )
            first = next(encoder for encoder in encoders if encoder is not None)
            lines.append((self.grey(first), Row((self.method(first),), cells, "methods")))
        rows += mark_rows([row for _, row in lines], [not grey for grey, _ in lines])
        chance = tuple(Cell(self.chance[measure]) for _ in self.corpora for measure in self.measures)
        rows.append(Row(("chance",), chance, "chance", reference=True))
        (backbone,) = self.backbones.values()
        average = (f"{AVERAGE}: plain mean of the probes of a corpus.",) if AVERAGE in self.measures else ()
        paper = ("Paper: the value printed in the paper.",) if any(n.published for n in numbers) else ()
        return Table(
            title=f"Table {self.table.removeprefix('table')}. {TITLES[self.table]}, {self.scale_text}",
            caption=(f"Linear probing of {backbone}, per cent. {self.interval_words()}",),
            labels=("Method",),
            columns=self._columns(),
            rows=tuple(rows),
            footnotes=(
                *([_NOTES[self.table]] if self.table in _NOTES else []),
                "In each column: best in bold, second best underlined, compared as printed.",
                "Untrained: the initial weights of the same backbone, seed and pooling. Chance: what guessing would score.",
                *average,
                *self.pairs_words(),
                *paper,
            ),
        )

    def contrast_table(self, contrasts: Sequence[Contrast]) -> Table:
        named = [c for c in contrasts if c.against != "untrained"]
        found = {(c.method, c.against, c.dataset, c.benchmark): c for c in named}
        rows = []
        for method, against in dict.fromkeys((c.method, c.against) for c in named):
            line = [
                found.get((method, against, label, name)) for label in self.corpora.values() for name in self.names()
            ]
            cells = tuple(
                Cell(None) if c is None else Cell(c.difference, c.low, c.high, note=verdict_words(c)) for c in line
            )
            rows.append(Row((f"{method} − {against}",), cells, "contrasts"))
        return Table(
            title=f"Differences between methods, {self.scale_text}",
            caption=(
                f"Points, paired by {'seed' if len(self.seeds) >= 3 else 'test item'}. {self.interval_words()}",
                CLAIM,
            ),
            labels=("Contrast",),
            columns=self._columns(),
            rows=tuple(rows),
            footnotes=self.correction_words(),
            signed=True,
        )

    def _columns(self) -> tuple[Column, ...]:
        alone = len(self.measures) == 1
        return tuple(
            Column(label, note=f"{self.benchmark(measure)}, {self.metric[measure]}")
            if alone
            else Column(self.benchmark(measure), label, self.metric[measure], f"{label}, {self.benchmark(measure)}")
            for label in self.corpora.values()
            for measure in self.measures
        )
