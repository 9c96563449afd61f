"""What tables of systems share: rows of levels, differences (primary comparisons with verdicts, the others with intervals only),
and output files."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from mdc.plan.jobs.shown import Statistics, System
from mdc.report import seen, words
from mdc.report.frame import AVERAGE, Contrast, Number, dataset, write_contrasts, write_levels
from mdc.report.results import Pair, Results
from mdc.report.tables.render import write_csv, write_pages
from mdc.report.tables.table import REFERENCE, Cell, Column, Row, Table, estimate_cell, mark_rows, number_cell
from mdc.report.warnings import warnings

_ALONE = (
    "An interval here applies to one difference alone: none is corrected for the number of differences. Claims have "
    "their verdicts under primary comparisons."
)


def rows(results: Results, systems: Sequence[System], block: str | None = None) -> list[Row]:
    """A row for each of ``systems`` with its levels, the best and second best marked. ``block``: their common block, by default
    one for each dataset and backbone."""
    lines = []
    for system in systems:
        labels = names(system)
        levels = tuple(number_cell(results.number(system.key, measure)) for measure in results.measures)
        where = "/".join(labels[:2]) if block is None else block
        lines.append(Row(labels, levels, where, system.role in REFERENCE, system.role == "ranked"))
    return mark_rows(lines)


def level_table(
    results: Results,
    title: str,
    caption: Sequence[str],
    body: Sequence[Row],
    notes: Sequence[str] = (),
    group: str = "",
) -> Table:
    """A table of levels on every measure, under the heading ``group``."""
    return Table(
        title=f"{title}, {results.scale_text}",
        caption=tuple(caption),
        labels=("Dataset", "Backbone", "Method"),
        columns=columns(results, group, results.measures),
        rows=tuple(body),
        footnotes=tuple(notes),
    )


def levels(results: Results, labels: int = 3, times: int = 1, measures: Sequence[str] | None = None) -> list[Row]:
    """The rows of chance, the best known shortcut and a perfect scorer, for a table with so many ``labels`` whose columns, by
    default all ``measures``, are repeated ``times`` times."""
    shown = results.measures if measures is None else measures
    reached = {"chance": results.chance, results.shortcut_name: results.shortcut, "perfect scorer": results.ceiling}
    return [
        Row(
            (*("any",) * (labels - 1), name),
            tuple(Cell(level.get(measure)) for measure in shown) * times,
            "levels",
            reference=True,
            level=True,
        )
        for name, level in reached.items()
        if any(level.get(measure) is not None for measure in shown)
    ]


def tables(probing: Results, measures: Sequence[str] | None = None) -> list[Table]:
    """The tables of the comparisons that the job names, without empty ones. ``measures``: those shown, by default all."""
    # pairs decided on every measure are not repeated
    open_ = [pair for pair in probing.named if any((pair, m) not in probing.decisions for m in probing.measures)]
    within = [pair for pair in open_ if len({dataset(probing.systems[key]) for key in pair}) == 1]
    across = [pair for pair in open_ if pair not in within]
    return [
        *([_primary(probing)] if probing.decisions else []),
        *(
            _differences(probing, f"Differences between {kind}", pairs, "Difference", ("Points", _ALONE), measures)
            for kind, pairs in (("methods", within), ("datasets", across))
            if pairs
        ),
    ]


def gains(probing: Results) -> list[Table]:
    """Every system against its control; none if none has one."""
    if not probing.gains:
        return []
    caption = (
        "Points above each row's own control",
        "Methods with different controls are compared in the next tables.",
    )
    return [_differences(probing, "Gain over the control", probing.gains, "Gain", caption)]


def _primary(probing: Results) -> Table:
    """The primary comparisons with their verdicts."""
    name, contrasts = " and ".join(map(probing.name, probing.claimed_measures)), probing.claims()
    several = len(probing.claimed_measures) > 1
    intervals = words.intervals(probing.job.statistics, probing.job.seeds)
    return claims(
        f"Primary comparisons on {name}, {probing.scale_text}",
        f"Differences in points on {name}, paired. {intervals}",
        probing.job.statistics,
        ("Dataset", "Backbone", "Comparison", *(["On"] if several else [])),
        [
            ((*_minus(probing, pair), *([probing.name(measure)] if several else [])), contrast)
            for (pair, measure), contrast in zip(probing.decisions, contrasts, strict=True)
        ],
    )


def claims(
    title: str,
    description: str,
    statistics: Statistics,
    heads: tuple[str, ...],
    contrasts: Sequence[tuple[tuple[str, ...], Contrast]],
) -> Table:
    """One row for each claim: its labels under ``heads``, the prediction, the difference, its corrected p, direction and size.
    ``description``: the differences and their intervals in words."""
    body = []
    for labels, contrast in contrasts:
        decision = contrast.decision
        assert decision is not None
        value, _, interval = words.shown(contrast.estimate).partition(" ")
        found = contrast.predicted, value, interval or "–", words.corrected_p(decision, contrast.estimate)
        direction = words.direction(decision, contrast.estimate) + words.asides(contrast.rates, contrast.seen)
        body.append(Row((*labels, *found, direction, words.size(decision), words.detectable(decision)), ()))
    interval = f"{words.percent(statistics.level)} interval"
    return Table(
        title=title,
        caption=(description, *words.claims(statistics)),
        labels=(*heads, "Predicted", "Difference", interval, "Corrected p", "Direction", "Size", "Detectable"),
        columns=(),
        rows=tuple(body),
    )


def _differences(
    probing: Results,
    title: str,
    pairs: Sequence[Pair],
    group: str,
    caption: Sequence[str],
    measures: Sequence[str] | None = None,
) -> Table:
    """``pairs`` on every measure, the first minus the second, with intervals and no verdict."""
    shown = probing.measures if measures is None else measures
    gain = group == "Gain"
    estimates = [[probing.differences[pair, measure] for measure in shown] for pair in pairs]
    body = []
    for pair, line in zip(pairs, estimates, strict=True):
        labels = names(probing.systems[pair[0]]) if gain else _minus(probing, pair)
        body.append(Row(labels, tuple(map(estimate_cell, line)), "/".join(labels[:2])))
    subject, *more = caption
    return Table(
        title=f"{title}, {probing.scale_text}",
        caption=(f"{subject}, paired. {probing.level_words}", *more),
        labels=("Dataset", "Backbone", "Method" if gain else "Comparison"),
        columns=columns(probing, group, shown),
        rows=tuple(body),
        signed=True,
    )


def names(system: System) -> tuple[str, str, str]:
    """The leading labels of a system's row."""
    return dataset(system), system.backbone.label, words.method(system)


def columns(probing: Results, group: str, measures: Sequence[str]) -> tuple[Column, ...]:
    """One column for each measure: those of the average under one heading, then the average, then the others."""
    apart = "not in the average" if AVERAGE in measures else ""
    separate = f"{group}, {apart}" if group and apart else group or apart.capitalize()
    groups = dict.fromkeys(probing.job.reported_separately, separate) | {AVERAGE: ""}
    named = ((m, probing.name(m), probing.metric[m]) for m in measures)
    return tuple(Column(name, groups.get(m, group), "" if metric == name else metric) for m, name, metric in named)


def _minus(probing: Results, pair: Pair) -> tuple[str, str, str]:
    """The labels of a difference, label by label."""
    data, backbone, method = map(words.minus, *(names(probing.systems[key]) for key in pair))
    return data, backbone, method


def write(
    results: Results,
    shown: Sequence[Table],
    out: Path,
    everything: Table | None = None,
    numbers: Sequence[Number] | None = None,
    /,
    **more: Sequence[Any],
) -> None:
    """Write the files of a table: the pages with the warnings below the first of ``shown``, ``everything`` in the paper's layout
    (by default that first table), the levels or other ``numbers`` with the columns of ``more``, and the differences."""
    name = results.job.artefact
    write_csv(everything or shown[0], out / f"{name}.csv", {"scale": results.job.scale})
    write_levels(out / f"{name}_long.csv", results.job, results.numbers if numbers is None else numbers, **more)
    write_contrasts(out / f"{name}_contrasts.csv", results.job, results.contrasts())
    first = replace(
        shown[0],
        warnings=tuple(warnings(results.job, results.manifests)),
        footnotes=(*shown[0].footnotes, *seen.unknown(results.job)),
    )
    write_pages([first, *shown[1:]], out, name)
