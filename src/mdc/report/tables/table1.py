"""Table 1, linear probing: from probe records to csv, tidy csv, contrasts, HTML, Markdown and LaTeX.

Which encoders stand in it comes from a specification (see ``build``). A record that is missing, or that was made with
another configuration than the expected one, is refused by name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mdc.records import write_text
from mdc.report.estimates import MeanAveragePrecision
from mdc.report.lines import AVERAGE, Contrast, Encoder, Number, tidy
from mdc.report.probing import CLAIM, Probing, verdict_words
from mdc.report.selection import ItemsOf, Record
from mdc.report.tables.layout import Cell, Column, Row, Table, mark_rows, write_csv, write_html, write_latex
from mdc.report.tables.layout import write_markdown as write_md

#: the files that :func:`build` writes
FILES = ("table1.csv", "table1_long.csv", "table1_contrasts.csv", "table1.html", "table1.md", "table1.tex")


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
    maker = _Layout(records, items, spec, mean_average_precision)
    numbers, contrasts = maker.numbers(), maker.contrasts()
    main = maker.main_table(numbers)
    shown = [main, maker.gain_table(numbers)]
    named = [contrast for contrast in contrasts if contrast.against != "untrained"]
    within = [contrast for contrast in named if contrast.against_dataset == contrast.dataset]
    across = [contrast for contrast in named if contrast.against_dataset != contrast.dataset]
    shown += [
        maker.contrast_table(f"Differences between {what}", lines)
        for what, lines in (("methods", within), ("datasets", across))
        if lines
    ]
    out = Path(out)
    write_csv(main, out / "table1.csv", {"scale": maker.scale_words})
    write_text(out / "table1_long.csv", tidy(numbers, Number, leave_out=("method_key",)))
    write_text(out / "table1_contrasts.csv", tidy(contrasts, Contrast))
    write_html(shown, out / "table1.html")
    write_md(shown, out / "table1.md")
    write_latex(main, out / "table1.tex")
    return Table1(main, tuple(numbers), tuple(contrasts))


class _Layout(Probing):
    """The tables of Table 1."""

    def main_table(self, numbers: Sequence[Number]) -> Table:
        found = {(n.run, n.benchmark): n for n in numbers}
        rows: list[Row] = []
        for block in self.blocks():
            lines = [self._row(encoder, [found[" ".join(encoder.ids()), m] for m in self.names()]) for encoder in block]
            rows += mark_rows(lines, [not self.grey(encoder) for encoder in block])
        chance = tuple(Cell(self.chance[measure]) for measure in self.measures)
        rows.append(Row(("any", "any", "chance"), chance, "chance", reference=True))
        grey = dict.fromkeys(self.method(encoder) for encoder in self.trained if self.grey(encoder))
        notes = (
            "Within a dataset and backbone: best in bold, second best underlined, compared as printed.",
            *((f"Grey († in Markdown), shown but not ranked: {', '.join(grey)}.",) if grey else ()),
            "Untrained: the initial weights of the same backbone, seed and pooling. Chance: what guessing would score.",
            f"{AVERAGE}: plain mean of the columns"
            + ("." if len(self.seeds) >= 3 else "; its interval resamples within each benchmark."),
            *self.pairs_words(),
            *(("Paper: the value printed in the paper's Table 1.",) if any(n.published for n in numbers) else ()),
        )
        return Table(
            title=f"Table 1. Linear probing, {self.scale_text}",
            caption=(f"Per cent on each benchmark's test items. {self.interval_words()}",),
            labels=("Dataset", "Backbone", "Method"),
            columns=self._columns("Linear probe"),
            rows=tuple(rows),
            footnotes=notes,
        )

    def gain_table(self, numbers: Sequence[Number]) -> Table:
        found = {(n.run, n.benchmark): n for n in numbers}
        rows = []
        for encoder in self.trained:
            mine = [found[" ".join(encoder.ids()), name] for name in self.names()]
            cells = tuple(Cell(n.gain, n.gain_low, n.gain_high) for n in mine)
            rows.append(Row(self.labels(encoder), cells, f"{encoder.backbone}/{encoder.corpus}"))
        return Table(
            title=f"Gain over the untrained encoder, {self.scale_text}",
            caption=(f"Points above the encoder's own initial weights, same pooling, paired. {self.interval_words()}",),
            labels=("Dataset", "Backbone", "Method"),
            columns=self._columns("Trained minus untrained"),
            rows=tuple(rows),
            signed=True,
        )

    def contrast_table(self, title: str, contrasts: Sequence[Contrast]) -> Table:
        """``contrasts``: a line a measure, those of one comparison beside each other."""
        rows = []
        for first in range(0, len(contrasts), len(self.measures)):
            line = contrasts[first : first + len(self.measures)]
            head = line[0]
            cells = tuple(Cell(c.difference, c.low, c.high, note=verdict_words(c)) for c in line)
            dataset = _minus(head.dataset, head.against_dataset)
            rows.append(
                Row((dataset, head.backbone, _minus(head.method, head.against)), cells, f"{head.backbone}/{dataset}")
            )
        return Table(
            title=f"{title}, {self.scale_text}",
            caption=(
                f"Points, paired by {'seed' if len(self.seeds) >= 3 else 'test item'}. {self.interval_words()}",
                CLAIM,
            ),
            labels=("Dataset", "Backbone", "Method"),
            columns=self._columns("Difference"),
            rows=tuple(rows),
            footnotes=self.correction_words(),
            signed=True,
        )

    def _row(self, encoder: Encoder, numbers: Sequence[Number]) -> Row:
        cells = tuple(
            Cell(n.value, n.low, n.high, note="" if n.published is None else f"paper {n.published:.1f}")
            for n in numbers
        )
        block = encoder.backbone if encoder.corpus is None else f"{encoder.backbone}/{encoder.corpus}"
        return Row(self.labels(encoder), cells, block, reference=encoder.corpus is None)

    def _columns(self, group: str) -> tuple[Column, ...]:
        probes = [Column(label, group, self.metric[key]) for key, label in self.probes.items()]
        return (*probes, Column(AVERAGE, "", self.metric[AVERAGE]))


def _minus(first: str, second: str) -> str:
    """What a difference is of: the one thing that both sides are, or the first minus the second."""
    return first if first == second else f"{first} − {second}"
