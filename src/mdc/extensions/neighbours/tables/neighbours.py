"""Probe results by head: one row per method, one column per head with its mean over probes; then a table for each head."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from mdc.plan.artefacts import ARTEFACTS
from mdc.plan.config.kinds.backbones import Backbone
from mdc.plan.config.kinds.encoders import OpenClipTower, TimmTower
from mdc.plan.config.probe_tables import ProbeTable
from mdc.plan.config.references import BackboneNames, HeadName, MethodSide, Ref
from mdc.plan.config.types import Claims, Pairs, Scored, SomeUnique, equal_labels
from mdc.plan.jobs.shown import ArtefactJob, Beside, System
from mdc.plan.records import UserError
from mdc.report.tables.table import REFERENCE, Cell, Column, Row, Table, mark_rows, number_cell

if TYPE_CHECKING:
    from mdc.extensions.neighbours.tables.zero_shot_numbers import ZeroShot
    from mdc.plan.jobs.context import Context
    from mdc.report.manifests import Manifests
    from mdc.report.results import Results

SHOWN = {
    "kind": "heads",
    "artefacts": {"table_neighbours": {"title": "Masked diffusion among its neighbours"}},
    "files": ".csv _long.csv _contrasts.csv _runs.csv .html .md .tex",
    "caption": "What encoders know at scale {scale} by how they are asked: by a linear probe and by other heads; in per cent "
    "with intervals, beside the same encoder before training, and the differences that the scale claims.",
    "config": "Block",
}

#: kind of score in zero-shot classification → its column
_SHOWN_ZERO_SHOT = {"own": "Zero-shot", "debiased": "Zero-shot, debiased"}


class Block(ProbeTable):
    """A table of one backbone by several ``heads``: ``linear`` or those of the scale's ``probe``. ``contrasts``: pairs of
    methods, within a corpus and by each head. ``primary``: pairs of corpus/method/head. ``zero_shot``: add the columns of the
    scale's ``table_zero_shot``, for the rows that both tables have."""

    backbones: Annotated[BackboneNames, Field(max_length=1)]
    heads: SomeUnique[HeadName]
    contrasts: Pairs[MethodSide] = Field(default_factory=list)
    primary: Claims[Annotated[Scored, Ref("by_heads", "corpus/method/head of this table")]] = Field(
        default_factory=list
    )
    zero_shot: bool = False

    by_head = True

    def misfits(self, params: Any, where: str) -> Iterator[str]:
        """Attention needs patch tokens and a feature of their width, k neighbours as many training items."""
        yield from super().misfits(params, where)
        if self.zero_shot and "table_zero_shot" not in params.tables:
            yield f"{where}.zero_shot: the scale classifies nothing zero-shot; name table_zero_shot, or leave it out"
        every = params.probe.every if params.probe else {}
        heads = {name: every[name] for name in self.heads}
        labels = {key: head.label if head else "linear probe" for key, head in heads.items()}
        yield from equal_labels(f"{where}.heads", labels)
        entries = {name: params.encoders[name] for name in self.encoders}
        trained = {name: params.training.backbones[name] for name in self.backbones}
        counts = {name: entry.tokens for name, entry in entries.items()}
        counts |= {name: (b.image_size // b.patch_size) ** 2 for name, b in trained.items() if isinstance(b, Backbone)}
        if any(head is not None and head.reads_tokens for head in heads.values()):
            for name in (name for name, count in counts.items() if count < 2):
                yield f"{where}.heads: {name} gives one vector an image and no patch tokens, so it can have no attentive probe"
            for name, entry in entries.items():
                if isinstance(entry, OpenClipTower | TimmTower) and not entry.pooled:
                    said = f"a feature of {name} that is as wide as its tokens; set encoders.{name}.pooled: true"
                    yield f"{where}.encoders: an attentive probe needs {said}"
        for key, head in heads.items():
            least = head.least_items() if head is not None else 1
            for name in self.shown:
                train = getattr(params.data.probes[name].source, "train", None)
                if isinstance(train, int) and train < least:
                    said = f"{name} has {train} training items, fewer than the {least} that it needs"
                    yield f"{where}.heads: {key}: {said}"

    @property
    def head_names(self) -> list[str]:
        return list(self.heads)

    @property
    def by_heads(self) -> dict[str, str]:
        """What claims may name: corpus/method/head → the head."""
        return {f"{side}/{head}": head for side in self.sides for head in self.heads}


def rows(plan: Context, name: str, block: Block) -> dict[str, Any]:
    """Probes by several heads, and beside it the rows of the zero-shot table, if it shows them."""
    from mdc.plan.jobs import probe_rows

    values = probe_rows.probing(plan, name, block)
    if not block.zero_shot:
        return values
    beside = _zero_shot_rows(plan, block)
    return {**values, "jobs": values["jobs"] | beside.pop("jobs"), **beside}


def _zero_shot_rows(plan: Context, block: Block) -> dict[str, Any]:
    """The rows of the zero-shot table whose runs are also in a table of heads, by each method's own estimator."""
    table_zero_shot = plan.scale.tables["table_zero_shot"]
    plan_values = ARTEFACTS["table_zero_shot"].load("plan")(plan, "table_zero_shot", table_zero_shot)
    runs = {run.id for run in plan.runs_of(block)}
    shown, jobs = list[System](), dict[str, Any]()
    for row in plan_values["systems"]:
        method = plan.params.methods[row.method.key]
        if (
            row.estimator == method.estimators[0]
            and row.weights == table_zero_shot.weights[0]
            and set(row.runs) <= runs
        ):
            shown.append(row)
            jobs |= {name: plan_values["jobs"][name] for name in row.records}
    if not shown:
        raise UserError(f"{plan.file}: table_zero_shot has none of the runs of a table with zero_shot")
    return {
        "jobs": jobs,
        "beside": Beside(systems=shown, columns=plan_values["columns"], more={"samples": plan_values["samples"]}),
    }


def make(job: ArtefactJob, manifests: Manifests, out: Path) -> None:
    """Write the table's csv files, HTML, Markdown and LaTeX into ``out``; errors as of Table 1."""
    from mdc.report.results import Results
    from mdc.report.tables import comparisons

    results = Results(job, manifests)
    by_head: dict[str, list[System]] = {}
    for system in job.systems:
        by_head.setdefault(system.estimator, []).append(system)
    zero_shot = _zero_shot(job, manifests)
    shown = [_main(results, by_head, zero_shot)]
    if len(results.measures) > 1:
        shown += [_probes(results, head, systems) for head, systems in by_head.items()]
    numbers = [*results.numbers, *(zero_shot.numbers if zero_shot else [])]
    comparisons.write(results, [*shown, *comparisons.gains(results), *comparisons.tables(results)], out, None, numbers)


def _zero_shot(job: ArtefactJob, manifests: Manifests) -> ZeroShot | None:
    """The zero-shot results of the rows, as in the zero-shot table."""
    from mdc.extensions.neighbours.tables.zero_shot_numbers import ZeroShot

    if job.beside is None:
        return None
    no_claims: dict[str, Any] = {"contrasts": [], "primary": [], "reported_separately": [], "primary_metric": "average"}
    no_claims["also_claimed"] = []
    return ZeroShot(job.but(**dict(job.beside), beside=None, **no_claims), manifests)


def _main(results: Results, by_head: dict[str, list[System]], zero_shot: ZeroShot | None) -> Table:
    """What claims are about, the mean over probes or one of them, a column for each of ``by_head``; then zero-shot results."""
    from mdc.report import words
    from mdc.report.frame import AVERAGE, dataset
    from mdc.report.tables import comparisons

    primary = results.primary_measure
    columns = [Column(_capital(head), note=results.metric[primary]) for head in by_head]
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
    by_name: dict[tuple[str, ...], dict[str, System]] = {}
    for head, systems in by_head.items():
        for system in systems:
            by_name.setdefault(_names(system), {})[head] = system
    body: list[Row] = []
    for data in dict.fromkeys(name for name, _ in by_name):
        lines = []
        for (name, method), row in by_name.items():
            if name == data:
                first = next(iter(row.values()))
                line = [
                    number_cell(results.number(row[head].key, primary)) if head in row else Cell(None)
                    for head in by_head
                ]
                if zero_shot is not None:
                    line += [more.get((name, first.method.key, shown), Cell(None)) for shown in _SHOWN_ZERO_SHOT]
                lines.append(Row((name, method), tuple(line), name, first.role in REFERENCE, first.role == "ranked"))
        body += mark_rows(lines)
    measure = results.name(primary)
    summary = f"{measure} of {len(results.averaged)} probes" if primary == AVERAGE else measure
    levels = _beside(comparisons.levels(results, 2, len(by_head), [primary]), len(by_head), zero_shot)
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
    from mdc.report.tables import comparisons

    if zero_shot is None:
        return levels
    more = comparisons.levels(zero_shot, 2, len(_SHOWN_ZERO_SHOT), [zero_shot.overall])
    ends = {row.labels: row.cells for row in more}
    empty = (Cell(None),)
    extended = [replace(row, cells=row.cells + ends.pop(row.labels, empty * len(_SHOWN_ZERO_SHOT))) for row in levels]
    return extended + [replace(row, cells=empty * count + row.cells) for row in more if row.labels in ends]


def _probes(results: Results, head: str, systems: Sequence[System]) -> Table:
    """Each probe by one head."""
    from mdc.report.frame import dataset
    from mdc.report.tables import comparisons

    datasets = dict.fromkeys(dataset(system) for system in systems)
    blocks = [[system for system in systems if dataset(system) == data] for data in datasets]
    lines = [row for block in blocks for row in comparisons.rows(results, block)]
    title, caption = f"{_capital(head)}, probe by probe", ("Per cent on each probe's test items.",)
    return comparisons.level_table(
        results, title, caption, [*lines, *comparisons.levels(results)], group=_capital(head)
    )


def _names(system: System) -> tuple[str, str]:
    """A row's labels, without the head."""
    from mdc.report import words
    from mdc.report.frame import dataset

    return dataset(system), words.method(system).replace(f" · {system.estimator}", "")


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]
