"""The rows of tables and figures of probes, and what their jobs are made from."""

from typing import Any, Literal

from mdc.plan.config.kinds.encoders import RANDOM, shown_label
from mdc.plan.config.probe_tables import ProbeTable
from mdc.plan.jobs.context import Context, Encoder, compared
from mdc.plan.jobs.ids import Frozen, Run, Snapshot, Untrained, probe_of
from mdc.plan.jobs.shown import Labelled, ShownColumn, System

_FROZEN = (
    "Frozen: an encoder that was not trained for this table, on other data than its rows; it is shown for reference and not "
    "ranked."
)
_DRAWN = "Random weights: an external architecture without training; it is shown for reference and not ranked."
_LINEAR = "linear probe"
_UNTRAINED = "Untrained: the initial weights of the same backbone, seed and pooling."


def probing(plan: Context, name: str, table: ProbeTable) -> dict[str, Any]:
    """A table or figure of probes: its systems are methods, each with all its seeds, and their untrained controls."""
    scale = plan.scale
    systems = _systems(plan, table)
    if table.by_head:
        systems = [_by(plan, head, row) for head in table.head_names for row in systems]
    probes = [plan.probe(encoder, head) for head in table.head_names for encoder in plan.encoders_of(table)]
    named = {system.key for system in systems}
    contrasts = [pair for pair in _pairs(table) if set(pair) <= named]
    first = table.backbones[0]
    primary = [[_system(a, first), _system(b, first)] for a, b in table.primary]
    single = scale.data.primary_probe if scale.data.primary_probe in table.probes else table.probes[0]
    metrics = {key: scale.data.probes[key].source.probe_metric for key in table.shown}
    averaged = table.averaged and len(table.probes) > 1 and len({metrics[key] for key in table.probes}) == 1
    claimed, *also = [table.primary_metric] if isinstance(table.primary_metric, str) else table.primary_metric or [""]
    return {
        "jobs": {job.job: job for job in probes},
        "systems": systems,
        "columns": [
            ShownColumn(key=key, label=scale.data.probes[key].label, metric=metrics[key]) for key in table.shown
        ],
        "reported_separately": table.reported_separately,
        "notes": [*_heads(plan, table), *(note for key in table.shown if (note := scale.data.probes[key].note))],
        **compared(contrasts, primary),
        "primary_metric": claimed or ("average" if averaged else single),
        "also_claimed": also,
        "seeds": scale.training.seeds,
        "statistics": plan.statistics(table),
    }


def _heads(plan: Context, table: ProbeTable) -> list[str]:
    """A sentence for each head but the linear one."""
    assert plan.scale.probe is not None  # checked by the schema
    every = [plan.scale.probe.every[name] for name in table.head_names]
    return [f"{head.label[0].upper()}{head.label[1:]}: {head.sentence()}." for head in every if head]


def _by(plan: Context, name: str, row: System) -> System:
    """The row of a system in a table of several heads, for the head ``name``."""
    assert plan.scale.probe is not None
    head = plan.scale.probe.every[name]
    estimator = head.label if head else _LINEAR
    return row.but(
        key=f"{row.key}/{name}",
        method=row.method.but(label=f"{row.method.label} · {estimator}"),
        records=[probe_of(run, name) for run in row.runs],
        estimator=estimator,
        control=row.control and f"{row.control}/{name}",
    )


def _systems(plan: Context, table: ProbeTable) -> list[System]:
    """The rows in order: by backbone its controls, then corpus by corpus; external encoders come last."""
    grouped: dict[str, list[Encoder]] = {}
    for encoder in plan.encoders_of(table):
        grouped.setdefault(encoder.system, []).append(encoder)
    firsts = [group[0] for group in grouped.values()]
    ordered: list[Encoder] = [
        encoder
        for backbone in table.backbones
        for kind in (Untrained, Run | Snapshot)
        for encoder in firsts
        if isinstance(encoder, kind) and encoder.backbone == backbone
    ]
    ordered += [encoder for encoder in firsts if isinstance(encoder, Frozen)]
    return [_row(plan, table, encoder, [seed.id for seed in grouped[encoder.system]]) for encoder in ordered]


def _row(plan: Context, table: ProbeTable, encoder: Encoder, runs: list[str]) -> System:
    if isinstance(encoder, Frozen):
        # one record for all seeds
        tower = plan.scale.encoders[encoder.name]
        return _reference(
            encoder.system,
            Labelled(key=encoder.name, label=shown_label(tower)),
            "frozen",
            "its own feature",
            [encoder.id] * len(plan.scale.training.seeds),
            _DRAWN if getattr(tower, "weights", None) == RANDOM else _FROZEN,
            "reference",
        )
    if isinstance(encoder, Snapshot):
        row = _row(plan, table, encoder.run, runs)
        return row.but(
            key=encoder.system, method=row.method.but(label=f"{row.method.label} · {100 * encoder.share:g} %")
        )
    if isinstance(encoder, Untrained):
        backbone = plan.backbone(encoder.backbone)
        return _reference(encoder.system, backbone, "untrained", encoder.pooling, runs, _UNTRAINED, "control")
    entry = plan.params.methods[encoder.method]
    return System(
        key=encoder.system,
        **plan.labels(encoder, table.label_of(entry)),
        runs=runs,
        records=_probes(runs),
        pooling=entry.pooling,
        estimator=_LINEAR,
        control=plan.control(encoder).system,
        role="ranked" if entry.ranked else "grey",
        more={"t_range": entry.masked_share and list(entry.masked_share)},
    )


def _reference(
    key: str,
    backbone: Labelled,
    method: str,
    pooling: str,
    runs: list[str],
    note: str,
    role: Literal["reference", "control"],
) -> System:
    """A row of an encoder without a corpus."""
    return System(
        key=key,
        corpus=None,
        backbone=backbone,
        method=Labelled(key=method, label=method),
        runs=runs,
        records=_probes(runs),
        pooling=pooling,
        estimator=_LINEAR,
        role=role,
        note=note,
    )


def _probes(runs: list[str]) -> list[str]:
    return [f"probe/{run}" for run in runs]


def _system(side: str, backbone: str) -> str:
    """The key of ``corpus/method`` or ``corpus/method/head`` on a backbone."""
    corpus, *rest = side.split("/")
    return "/".join((corpus, backbone, *rest))


def _pairs(table: ProbeTable) -> list[list[str]]:
    """All comparisons in ``contrasts``, whether the table has both sides or not."""
    within = [
        [_system(f"{corpus}/{first}{head}", backbone), _system(f"{corpus}/{second}{head}", backbone)]
        for backbone in table.backbones
        for corpus in table.corpora
        for head in ([f"/{head}" for head in table.head_names] if table.by_head else [""])
        for first, second in table.contrasts
        if "/" not in first
    ]
    across = [
        [_system(first, backbone), _system(second, backbone)]
        for backbone in table.backbones
        for first, second in table.contrasts
        if "/" in first
    ]
    return [list(pair) for pair in dict.fromkeys(map(tuple, within + across))]
