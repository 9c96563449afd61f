"""What encoders know, by how they are asked: a row a method, a column a head with its mean over probes; then each head's own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from mdc.plan.jobs.shown import ProbingJob, System
from mdc.report import words
from mdc.report.frame import AVERAGE, Number, dataset
from mdc.report.given import Given
from mdc.report.results import Results
from mdc.report.tables import comparisons
from mdc.report.tables.table import Cell, Column, Row, Table, mark_rows, number_cell

SHOWN = {
    "kind": "heads",
    "artefacts": {"table_neighbours": {"title": "Masked diffusion among its neighbours"}},
    "files": ".csv _long.csv _contrasts.csv .html .md .tex",
    "caption": "What encoders know at scale {scale} by how they are asked: by a linear probe, by one that attends to all tokens, "
    "by nearest neighbours; in per cent with intervals, beside the same encoder before training, and the differences that were "
    "named beforehand.",
    "config": "tables.HeadTable",
    "plan": "artefact_plans.probing",
    "job": "shown.ProbingJob",
}


def make(job: ProbingJob, given: Given, out: Path) -> None:
    """Write the table's csv files, HTML, Markdown and LaTeX into ``out``; errors as of Table 1."""
    found = Results(job, given)
    numbers = found.numbers()
    by_head: dict[str, list[System]] = {}
    for system in job.systems:
        by_head.setdefault(system.estimator, []).append(system)
    shown = [_main(found, numbers, by_head)]
    if AVERAGE in found.measures:
        shown += [_probes(found, numbers, head, systems) for head, systems in by_head.items()]
    comparisons.write(found, numbers, [*shown, *comparisons.gains(found), *comparisons.tables(found)], out)


def _main(found: Results, numbers: Sequence[Number], by_head: dict[str, list[System]]) -> Table:
    """The mean over probes, or the one probe, a column each of ``by_head``."""
    cells = {n.system.key: number_cell(n) for n in numbers if n.column == found.key(found.overall)}
    rows: dict[tuple[str, ...], dict[str, System]] = {}
    for head, systems in by_head.items():
        for system in systems:
            rows.setdefault(_names(system), {})[head] = system
    body: list[Row] = []
    for data in dict.fromkeys(name for name, _ in rows):
        lines = []
        for (name, method), there in rows.items():
            if name == data:
                one = next(iter(there.values()))
                line = tuple(cells[there[head].key] if head in there else Cell(None) for head in by_head)
                lines.append(Row((name, method), line, name, one.reference, one.ranked))
        body += mark_rows(lines)
    measure = found.name(found.overall)
    what = f"{measure} of {len(found.averaged)} probes" if found.overall == AVERAGE else measure
    levels = comparisons.levels(found, 2, len(by_head), [found.overall])
    return Table(
        title=f"{words.heading(found.job)}, {found.scale_text}",
        caption=(f"{what}, {', '.join(found.backbones)}, per cent. {found.interval_words(found.levels.values())}",),
        labels=("Dataset", "Method"),
        columns=tuple(Column(_capital(head), note=found.metric[found.overall]) for head in by_head),
        rows=(*body, *levels),
        footnotes=(
            "In each column and dataset: best in bold, second best underlined, compared as printed.",
            *found.notes(numbers),
        ),
    )


def _probes(found: Results, numbers: Sequence[Number], head: str, systems: Sequence[System]) -> Table:
    """Each probe by one head."""
    datasets = dict.fromkeys(map(dataset, systems))
    blocks = [[system for system in systems if dataset(system) == data] for data in datasets]
    return Table(
        title=f"{_capital(head)}, probe by probe, {found.scale_text}",
        caption=("Per cent on each probe's test items.",),
        labels=("Dataset", "Backbone", "Method"),
        columns=comparisons.columns(found, _capital(head), found.measures),
        rows=(
            *(row for block in blocks for row in comparisons.rows(found, numbers, block)),
            *comparisons.levels(found),
        ),
    )


def _names(system: System) -> tuple[str, str]:
    """A row's labels, without its head."""
    return dataset(system), words.method(system).replace(f" · {system.estimator}", "")


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]
