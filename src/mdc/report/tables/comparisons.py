"""The differences below a table of probes: the primary comparisons with their verdicts, the others with intervals alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from mdc.plan.jobs.shown import Statistics, System
from mdc.report import words
from mdc.report.frame import AVERAGE, Contrast, dataset
from mdc.report.results import Pair, Results
from mdc.report.tables.table import Cell, Column, Row, Table

_NAMED = 3  # controls that a heading names


def tables(probing: Results, measures: Sequence[str] | None = None) -> list[Table]:
    """The tables of what the job names beforehand, those without a row left out. ``measures``: those shown, by default all."""
    # what was decided on every measure has said all that there is to say
    open_ = [pair for pair in probing.named if any((pair, one) not in probing.decisions for one in probing.measures)]
    within = [pair for pair in open_ if _corpus(probing, pair[0]) == _corpus(probing, pair[1])]
    across = [pair for pair in open_ if pair not in within]
    found = [primary(probing)] if probing.decisions else []
    found += [
        differences(probing, f"Differences between {what}", pairs, measures)
        for what, pairs in (("methods", within), ("datasets", across))
        if pairs
    ]
    return found


def levels(found: Results, labels: int = 3, times: int = 1) -> list[Row]:
    """The rows of what guessing, the best known shortcut and a perfect scorer reach, below a table with so many
    ``labels`` whose columns stand there so many ``times``."""
    reached = {"chance": found.chance, "best shortcut": found.shortcut, "perfect scorer": found.ceiling}
    return [
        Row(
            (*("any",) * (labels - 1), name),
            tuple(Cell(level.get(measure)) for measure in found.measures) * times,
            "chance",
            reference=True,
        )
        for name, level in reached.items()
        if any(value is not None for value in level.values())
    ]


def primary(probing: Results) -> Table:
    """What was claimed beforehand, with what was found."""
    name = probing.name(probing.primary_measure)
    claims = probing.claims()
    return claims_table(
        f"Primary comparisons on {name}, {probing.scale_text}",
        f"Differences in points on {name}, paired. {words.intervals([one.found for one in claims], probing.job.seeds)}",
        claims,
        probing.job.statistics,
        {
            "Dataset": lambda one: _labels(probing, one)[0],
            "Backbone": lambda one: _labels(probing, one)[1],
            "Comparison": lambda one: _labels(probing, one)[2],
        },
    )


def claims_table(
    title: str,
    how: str,
    claims: Sequence[Contrast],
    statistics: Statistics,
    labels: Mapping[str, Callable[[Contrast], str]],
    decimals: int = 1,
) -> Table:
    """A row a claim, under ``labels`` that tell it from the others: the difference, its corrected p, direction and
    size. ``how``: what the differences are, and how their intervals were made."""
    rows = []
    for one in claims:
        found, decision = one.found, one.decision
        assert decision is not None
        value, _, interval = words.shown(found, decimals).partition(" ")
        told = (
            words.p_value(decision.p_holm),
            words.direction(decision, found),
            words.size(decision, decimals),
            words.detectable(decision, decimals),
        )
        rows.append(Row((*(of(one) for of in labels.values()), value, interval or "–", *told), ()))
    interval = f"{words.percent(statistics.level)} interval"
    return Table(
        title=title,
        caption=(
            how,
            *words.claims(statistics, sum(one.decision is not None and one.decision.p is not None for one in claims)),
        ),
        labels=(*labels, "Difference", interval, "Corrected p", "Direction", "Size", "Detectable"),
        columns=(),
        rows=tuple(rows),
    )


def differences(probing: Results, title: str, pairs: Sequence[Pair], measures: Sequence[str] | None = None) -> Table:
    """``pairs`` on every measure, the first minus the second, with intervals and no verdict."""
    shown = probing.measures if measures is None else measures
    found = [[probing.differences[pair, measure] for measure in shown] for pair in pairs]
    rows = []
    for pair, line in zip(pairs, found, strict=True):
        labels = _labels(probing, pair)
        rows.append(Row(labels, tuple(Cell(i.value, i.low, i.high) for i in line), "/".join(labels[:2])))
    primary = "The claims among them have their verdicts under primary comparisons. " if probing.decisions else ""
    return Table(
        title=f"{title}, {probing.scale_text}",
        caption=(
            f"Points, paired. {probing.interval_words([interval for line in found for interval in line])}",
            f"{primary}An interval here speaks of one difference alone: none is corrected for the number of differences.",
        ),
        labels=("Dataset", "Backbone", "Comparison"),
        columns=columns(probing, "Difference", measures),
        rows=tuple(rows),
        signed=True,
    )


def gains(probing: Results) -> Table | None:
    """Every system against its control, None if none has one."""
    shown = [(system, (system.key, system.control)) for system in probing.job.systems if system.control is not None]
    if not shown:
        return None
    found = [[probing.differences[pair, measure] for measure in probing.measures] for _, pair in shown]
    rows = [
        Row(names(system), tuple(Cell(i.value, i.low, i.high) for i in line), block(system))
        for (system, _), line in zip(shown, found, strict=True)
    ]
    controls = probing.controls()
    # a control a row, as of Table 2, would make a heading of all its rows
    named = f" ({', '.join(controls)})" if len(controls) <= _NAMED else ""
    return Table(
        title=f"Gain over the control{named}, {probing.scale_text}",
        caption=(
            f"Points above each row's own control, paired. "
            f"{probing.interval_words([interval for line in found for interval in line])}",
        ),
        labels=("Dataset", "Backbone", "Method"),
        columns=columns(probing, "Gain"),
        rows=tuple(rows),
        signed=True,
    )


def names(system: System) -> tuple[str, str, str]:
    """The leading labels of a system's row."""
    return dataset(system), system.backbone.label, words.method(system)


def block(system: System) -> str:
    """What its row stands together with."""
    return f"{system.backbone.key}/{system.corpus.key}" if system.corpus else system.backbone.key


def columns(probing: Results, group: str, measures: Sequence[str] | None = None) -> tuple[Column, ...]:
    """A column a measure, under one heading but for the average."""
    named = probing.measures if measures is None else measures
    shown = [Column(probing.name(measure), group, probing.metric[measure]) for measure in named]
    return tuple(replace(one, group="") if one.label == AVERAGE else one for one in shown)


def _corpus(probing: Results, key: str) -> str | None:
    corpus = probing.systems[key].corpus
    return corpus.key if corpus else None


def _labels(probing: Results, of: Pair | Contrast) -> tuple[str, str, str]:
    """What a difference is of, label by label."""
    pair = (of.first.key, of.second.key if of.second else of.first.key) if isinstance(of, Contrast) else of
    first, second = (names(probing.systems[key]) for key in pair)
    data, backbone, method = (words.minus(a, b) for a, b in zip(first, second, strict=True))
    return data, backbone, method
