"""A table of methods by corpora, as Table 4: one row per method, the columns of each corpus side by side."""

from pathlib import Path

from mdc.plan.jobs.shown import ArtefactJob, System
from mdc.plan.records import UserError
from mdc.report import words
from mdc.report.manifests import Manifests
from mdc.report.results import Results
from mdc.report.tables import comparisons
from mdc.report.tables.table import REFERENCE, Cell, Column, Row, Table, mark_rows, number_cell

SHOWN = {
    "kind": "methods",
    "artefacts": {
        "table4": {"title": "Table 4: ablation on t"},
        "table5": {"kind": "", "title": "Table 5: noise schedules", "config": "probe_tables.ScheduleTable"},
        "table_cnn": {"title": "Probes of a convolutional encoder"},
        "table_shapes": {"title": "Who learns shapes"},
    },
    "files": ".csv _long.csv _contrasts.csv _runs.csv .html .md .tex",
    "caption": "Methods by corpora at scale {scale}: linear probes in per cent with intervals, beside the same encoder before "
    "training, and the differences that the scale claims.",
    "config": "probe_tables.MethodTable",
    "plan": "probe_rows.probing",
}

_NOTES = {"table5": "A row [low, high] is MDC with t, the share of a caption that is masked, drawn from this range."}


def make(job: ArtefactJob, manifests: Manifests, out: Path) -> None:
    """Write the artefact's csv files, HTML, Markdown and LaTeX into ``out``; errors as of Table 1."""
    probing = Results(job, manifests)
    comparisons.write(probing, [main_table(probing), *comparisons.tables(probing)], out)


def main_table(probing: Results) -> Table:
    """A row for each system name; one without a corpus has its numbers under every corpus."""
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
    job = probing.job
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
