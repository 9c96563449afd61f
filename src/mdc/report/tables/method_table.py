"""A table of methods by corpora, as Table 4: one row per method, the columns of each corpus side by side."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from pydantic import model_validator

from mdc.plan.config.method import Method
from mdc.plan.config.probe_tables import MethodTable
from mdc.plan.jobs.shown import ArtefactJob, System
from mdc.plan.records import UserError
from mdc.report.tables.table import REFERENCE, Cell, Column, Row, Table, mark_rows, number_cell

if TYPE_CHECKING:
    from mdc.report.manifests import Manifests
    from mdc.report.results import Results

SHOWN = {
    "kind": "methods",
    "artefacts": {
        "table4": {"title": "Table 4: ablation on t"},
        "table5": {"kind": "", "title": "Table 5: noise schedules", "config": "Schedules"},
    },
    "files": ".csv _long.csv _contrasts.csv _runs.csv .html .md .tex",
    "caption": "Methods by corpora at scale {scale}: linear probes in per cent with intervals, beside the same encoder before "
    "training, and the differences that the scale claims.",
    "config": "probe_tables.MethodTable",
    "plan": "probe_rows.probing",
}


_NOTES = {"table5": "A row [low, high] is MDC with t, the share of a caption that is masked, drawn from this range."}


class Schedules(MethodTable):
    """Table 5: one objective under several ranges of t. The others are compared with the last method of a corpus."""

    def label_of(self, method: Method) -> str:
        """MDC's range of t, as in the paper."""
        by_range = getattr(method, "weight", None) == "inverse_t"
        return str(list(method.masked_share or ())) if by_range else method.label

    def misfits(self, params: Any, where: str) -> Iterator[str]:
        """A row is a range of t."""
        yield from super().misfits(params, where)
        for corpus, listed in self.corpora.items():
            seen: dict[object, str] = {}
            for name in listed:
                if (share := params.methods[name].masked_share) is None:
                    yield f"{where}.corpora.{corpus}: {name} has no t_range; only masked methods have"
                elif seen.setdefault(share, name) != name:
                    yield f"{where}.corpora.{corpus}: {seen[share]} and {name} have the same t_range"

    @property
    def reference(self) -> str:
        """The last method of every corpus."""
        return next(iter(self.corpora.values()))[-1]

    @model_validator(mode="after")
    def _one_reference(self) -> Self:
        for corpus, methods in self.corpora.items():
            if methods[-1] != self.reference:
                raise ValueError(
                    f"corpora.{corpus} ends with {methods[-1]}, the first corpus with {self.reference}; the method that the "
                    "others are compared with must be the last of each"
                )
        return self


def make(job: ArtefactJob, manifests: Manifests, out: Path) -> None:
    """Write the artefact's csv files, HTML, Markdown and LaTeX into ``out``; errors as of Table 1."""
    from mdc.report.results import Results
    from mdc.report.tables import comparisons

    probing = Results(job, manifests)
    comparisons.write(probing, [main_table(probing), *comparisons.tables(probing)], out)


def main_table(probing: Results) -> Table:
    """A row for each system name; one without a corpus has its numbers under every corpus."""
    from mdc.report import words
    from mdc.report.tables import comparisons

    job = probing.job
    by_name: dict[str, dict[str | None, System]] = {}
    for system in probing.job.systems:
        row = by_name.setdefault(words.method(system), {})
        corpus = system.corpus.key if system.corpus else None
        if corpus in row:
            raise UserError(f"{probing.title}: {row[corpus].key} and {system.key} would stand in the same cell")
        row[corpus] = system
    rows = []
    for name, systems in by_name.items():
        first = next(iter(systems.values()))
        cells = tuple(
            number_cell(probing.number(system.key, measure)) if system else Cell(None)
            for system in (systems.get(corpus, systems.get(None)) for corpus in probing.corpora)
            for measure in probing.measures
        )
        rows.append(
            Row(
                (name,),
                cells,
                "control" if first.role in REFERENCE else "",
                first.role in REFERENCE,
                first.role == "ranked",
            )
        )
    columns = []
    for label in probing.corpora.values():
        for measure in probing.measures:
            name, metric = probing.name(measure), probing.metric[measure]
            alone = Column(label, note=f"{name}, {metric}")
            columns.append(alone if len(probing.measures) == 1 else Column(name, label, metric, f"{label}, {name}"))
    return Table(
        title=f"{words.heading(job)}, {probing.scale_text}",
        caption=(f"Linear probing of {', '.join(probing.backbones)}, per cent. {probing.level_words}",),
        labels=("Method",),
        columns=tuple(columns),
        rows=(*mark_rows(rows), *comparisons.levels(probing, 1, len(probing.corpora))),
        footnotes=(
            *([_NOTES[job.artefact]] if job.artefact in _NOTES else []),
            "In each column: best in bold, second best underlined (after rounding).",
            *probing.notes(),
        ),
    )
