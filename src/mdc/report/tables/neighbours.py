"""Probe results by head: one row per method, one column per head with its mean over probes; then a table for each head."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from mdc.plan.jobs.shown import ArtefactJob, System
from mdc.report import words
from mdc.report.frame import AVERAGE, dataset
from mdc.report.manifests import Manifests
from mdc.report.results import Results
from mdc.report.tables import comparisons
from mdc.report.tables.table import REFERENCE, Cell, Column, Row, Table, mark_rows, number_cell
from mdc.report.zero_shot import ZeroShot

SHOWN = {
    "kind": "heads",
    "artefacts": {"table_neighbours": {"title": "Masked diffusion among its neighbours"}},
    "files": ".csv _long.csv _contrasts.csv _runs.csv .html .md .tex",
    "caption": "What encoders know at scale {scale} by how they are asked: by a linear probe, by one that attends to all tokens, "
    "by nearest neighbours; in per cent with intervals, beside the same encoder before training, and the differences that "
    "the scale claims.",
    "config": "probe_tables.HeadTable",
    "plan": "probe_rows.by_heads",
}

#: kind of score in zero-shot classification → its column
_SHOWN_ZERO_SHOT = {"own": "Zero-shot", "debiased": "Zero-shot, debiased"}


def make(job: ArtefactJob, manifests: Manifests, out: Path) -> None:
    """Write the table's csv files, HTML, Markdown and LaTeX into ``out``; errors as of Table 1."""
    results = Results(job, manifests)
    by_head: dict[str, list[System]] = {}
    for system in job.systems:
        by_head.setdefault(system.estimator, []).append(system)
    zero_shot = _zero_shot(job, manifests)
    shown = [_main(results, by_head, zero_shot)]
    if AVERAGE in results.measures:
        shown += [_probes(results, head, systems) for head, systems in by_head.items()]
    numbers = [*results.numbers, *(zero_shot.numbers if zero_shot else [])]
    comparisons.write(results, [*shown, *comparisons.gains(results), *comparisons.tables(results)], out, None, numbers)


def _zero_shot(job: ArtefactJob, manifests: Manifests) -> ZeroShot | None:
    """The zero-shot results of the rows, as in the zero-shot table."""
    if job.beside is None:
        return None
    no_claims: dict[str, Any] = {"contrasts": [], "primary": [], "reported_separately": [], "primary_metric": "average"}
    return ZeroShot(job.but(**dict(job.beside), beside=None, **no_claims), manifests)


def _main(results: Results, by_head: dict[str, list[System]], zero_shot: ZeroShot | None) -> Table:
    """The mean over probes, or the one probe: a column for each of ``by_head``; then zero-shot classification."""
    columns = [Column(_capital(head), note=results.metric[results.overall]) for head in by_head]
    more: dict[tuple[str, str, str], Cell] = {}
    zero_shot_notes = []
    if zero_shot is not None:
        probes = ", ".join(zero_shot.columns.values())
        zero_shot_notes = [
            f"Zero-shot: the class whose caption scores highest, mean of {probes}; its own table shows each."
        ]
        columns += [Column(name, note="top-1") for name in _SHOWN_ZERO_SHOT.values()]
        for s in zero_shot.job.systems:
            more[dataset(s), s.method.key, s.more["shown"]] = number_cell(zero_shot.number(s.key, zero_shot.overall))
    rows: dict[tuple[str, ...], dict[str, System]] = {}
    for head, systems in by_head.items():
        for system in systems:
            rows.setdefault(_names(system), {})[head] = system
    body: list[Row] = []
    for data in dict.fromkeys(name for name, _ in rows):
        lines = []
        for (name, method), row in rows.items():
            if name == data:
                first = next(iter(row.values()))
                line = [
                    number_cell(results.number(row[head].key, results.overall)) if head in row else Cell(None)
                    for head in by_head
                ]
                if zero_shot is not None:
                    line += [more.get((name, first.method.key, shown), Cell(None)) for shown in _SHOWN_ZERO_SHOT]
                lines.append(Row((name, method), tuple(line), name, first.role in REFERENCE, first.role == "ranked"))
        body += mark_rows(lines)
    measure = results.name(results.overall)
    summary = f"{measure} of {len(results.averaged)} probes" if results.overall == AVERAGE else measure
    levels = _beside(comparisons.levels(results, 2, len(by_head), [results.overall]), len(by_head), zero_shot)
    return Table(
        title=f"{words.heading(results.job)}, {results.scale_text}",
        caption=(f"{summary}, {', '.join(results.backbones)}, per cent. {results.level_words}",),
        labels=("Dataset", "Method"),
        columns=tuple(columns),
        rows=(*body, *levels),
        footnotes=(
            "In each column and dataset: best in bold, second best underlined (after rounding).",
            *zero_shot_notes,
            *results.notes(),
        ),
    )


def _beside(levels: list[Row], count: int, zero_shot: ZeroShot | None) -> list[Row]:
    """The rows of chance, for ``count`` heads and zero-shot classification."""
    if zero_shot is None:
        return levels
    more = comparisons.levels(zero_shot, 2, len(_SHOWN_ZERO_SHOT), [zero_shot.overall])
    ends = {row.labels: row.cells for row in more}
    empty = (Cell(None),)
    extended = [replace(row, cells=row.cells + ends.pop(row.labels, empty * len(_SHOWN_ZERO_SHOT))) for row in levels]
    return extended + [replace(row, cells=empty * count + row.cells) for row in more if row.labels in ends]


def _probes(results: Results, head: str, systems: Sequence[System]) -> Table:
    """Each probe by one head."""
    datasets = dict.fromkeys(dataset(system) for system in systems)
    blocks = [[system for system in systems if dataset(system) == data] for data in datasets]
    rows = [row for block in blocks for row in comparisons.rows(results, block)]
    title, caption = f"{_capital(head)}, probe by probe", ("Per cent on each probe's test items.",)
    return comparisons.level_table(results, title, caption, [*rows, *comparisons.levels(results)], group=_capital(head))


def _names(system: System) -> tuple[str, str]:
    """A row's labels, without the head."""
    return dataset(system), words.method(system).replace(f" · {system.estimator}", "")


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]
