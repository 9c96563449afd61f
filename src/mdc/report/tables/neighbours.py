"""What encoders know, by head of probe: one row per method, one column per head with its mean over probes; then each head."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from mdc.plan.jobs.shown import ProbingJob, System, ZeroShotTableJob
from mdc.report import words
from mdc.report.frame import AVERAGE, dataset
from mdc.report.given import Given
from mdc.report.results import Results
from mdc.report.tables import comparisons
from mdc.report.tables.table import Cell, Column, Row, Table, mark_rows, number_cell
from mdc.report.zero_shot import ZeroShot

SHOWN = {
    "kind": "heads",
    "artefacts": {"table_neighbours": {"title": "Masked diffusion among its neighbours"}},
    "files": ".csv _long.csv _contrasts.csv .html .md .tex",
    "caption": "What encoders know at scale {scale} by how they are asked: by a linear probe, by one that attends to all tokens, "
    "by nearest neighbours; in per cent with intervals, beside the same encoder before training, and the differences that were "
    "named beforehand.",
    "config": "probe_tables.HeadTable",
    "plan": "artefact_plans.probing",
    "job": "shown.ProbingJob",
}

#: how scores decide in zero-shot classification → the column
_SHOWN_ZERO_SHOT = {"own": "Zero-shot", "debiased": "Zero-shot, debiased"}


def make(job: ProbingJob, given: Given, out: Path) -> None:
    """Write the table's csv files, HTML, Markdown and LaTeX into ``out``; errors as of Table 1."""
    found = Results(job, given)
    by_head: dict[str, list[System]] = {}
    for system in job.systems:
        by_head.setdefault(system.estimator, []).append(system)
    zero_shot = _zero_shot(job, given)
    shown = [_main(found, by_head, zero_shot)]
    if AVERAGE in found.measures:
        shown += [_probes(found, head, systems) for head, systems in by_head.items()]
    numbers = [*found.numbers, *(zero_shot.numbers if zero_shot else [])]
    comparisons.write(found, [*shown, *comparisons.gains(found), *comparisons.tables(found)], out, None, numbers)


def _zero_shot(job: ProbingJob, given: Given) -> ZeroShot | None:
    """What the rows find zero-shot, as its own table has it."""
    if job.zero_shot is None:
        return None
    none: dict[str, Any] = {"contrasts": [], "primary": [], "reported_separately": [], "primary_metric": "average"}
    asked = {**vars(job), "plan": "zero_shot", **vars(job.zero_shot), **none}
    return ZeroShot(ZeroShotTableJob(**{name: asked[name] for name in ZeroShotTableJob.model_fields}), given)


def _main(found: Results, by_head: dict[str, list[System]], zero_shot: ZeroShot | None) -> Table:
    """The mean over probes, or the one probe, a column each of ``by_head``; then that of what is found ``zero_shot``."""
    columns = [Column(_capital(head), note=found.metric[found.overall]) for head in by_head]
    more: dict[tuple[str, str, str], Cell] = {}
    zero_shot_notes = []
    if zero_shot is not None:
        of = ", ".join(zero_shot.columns.values())
        zero_shot_notes = [
            f"Zero-shot: the class whose caption scores highest, mean of {of}; its own table shows each."
        ]
        columns += [Column(name, note="top-1") for name in _SHOWN_ZERO_SHOT.values()]
        for s in zero_shot.job.systems:
            more[dataset(s), s.method.key, s.shown] = number_cell(zero_shot.number(s.key, zero_shot.overall))
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
                line = [
                    number_cell(found.number(there[head].key, found.overall)) if head in there else Cell(None)
                    for head in by_head
                ]
                if zero_shot is not None:
                    line += [more.get((name, one.method.key, shown), Cell(None)) for shown in _SHOWN_ZERO_SHOT]
                lines.append(Row((name, method), tuple(line), name, one.reference, one.ranked))
        body += mark_rows(lines)
    measure = found.name(found.overall)
    what = f"{measure} of {len(found.averaged)} probes" if found.overall == AVERAGE else measure
    levels = _beside(comparisons.levels(found, 2, len(by_head), [found.overall]), len(by_head), zero_shot)
    return Table(
        title=f"{words.heading(found.job)}, {found.scale_text}",
        caption=(f"{what}, {', '.join(found.backbones)}, per cent. {found.level_words}",),
        labels=("Dataset", "Method"),
        columns=tuple(columns),
        rows=(*body, *levels),
        footnotes=(
            "In each column and dataset: best in bold, second best underlined (after rounding).",
            *zero_shot_notes,
            *found.notes(),
        ),
    )


def _beside(levels: list[Row], count: int, zero_shot: ZeroShot | None) -> list[Row]:
    """The rows of what guessing reaches, of ``count`` heads and of zero-shot classification."""
    if zero_shot is None:
        return levels
    more = comparisons.levels(zero_shot, 2, len(_SHOWN_ZERO_SHOT), [zero_shot.overall])
    ends = {row.labels: row.cells for row in more}
    none = (Cell(None),)
    found = [replace(row, cells=row.cells + ends.pop(row.labels, none * len(_SHOWN_ZERO_SHOT))) for row in levels]
    return found + [replace(row, cells=none * count + row.cells) for row in more if row.labels in ends]


def _probes(found: Results, head: str, systems: Sequence[System]) -> Table:
    """Each probe by one head."""
    datasets = dict.fromkeys(map(dataset, systems))
    blocks = [[system for system in systems if dataset(system) == data] for data in datasets]
    rows = [row for block in blocks for row in comparisons.rows(found, block)]
    title, caption = f"{_capital(head)}, probe by probe", ("Per cent on each probe's test items.",)
    return comparisons.level_table(found, title, caption, [*rows, *comparisons.levels(found)], group=_capital(head))


def _names(system: System) -> tuple[str, str]:
    """A row's labels, without its head."""
    return dataset(system), words.method(system).replace(f" · {system.estimator}", "")


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]
