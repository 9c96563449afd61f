"""The jobs of tables and figures, and the plans of those that show probes, logs of runs, or only parameters."""

from typing import Any, Literal

from mdc.plan.artefacts import ARTEFACTS
from mdc.plan.config.encoders import RANDOM, shown_label
from mdc.plan.config.method import Method
from mdc.plan.config.pretrain import Optimisation, snapshot_name
from mdc.plan.config.probe_tables import (
    ConvergenceFigure,
    HeadTable,
    PairsFigure,
    ProbeTable,
    RatioFigure,
    RepetitionFigure,
    ScheduleTable,
)
from mdc.plan.config.score_tables import ZeroShotTable
from mdc.plan.config.tables import RecipeTable
from mdc.plan.config.types import Strict
from mdc.plan.jobs import overlaps, score_plans
from mdc.plan.jobs.context import Context, Encoder, compared
from mdc.plan.jobs.ids import Frozen, Run, Snapshot, Untrained, probe_of
from mdc.plan.jobs.shown import ArtefactJob, Beside, Labelled, ShownColumn, System, plain
from mdc.plan.records import UserError

#: the values that a plan gives a job
Values = dict[str, Any]

_FROZEN = (
    "Frozen: an encoder that was not trained for this table, on other data than its rows; it is shown for reference and not "
    "ranked."
)
_DRAWN = "Random weights: an external architecture without training; it is shown for reference and not ranked."
_LINEAR = "linear probe"
_UNTRAINED = "Untrained: the initial weights of the same backbone, seed and pooling."


def artefact_job(plan: Context, name: str) -> ArtefactJob:
    """The job of a table or figure. Its plan returns its own values; under ``jobs`` its inputs, by name the job whose
    configuration must be the current one, or None; and under ``modules`` the modules that it loads by name."""
    artefact = plan.scale.tables.artefacts[name]
    values = artefact.load("plan")(plan, name, plan.scale.tables[name])
    values |= overlaps.seen(plan, values)
    jobs, modules = values.pop("jobs"), values.pop("modules", [])
    if artefact.category == "Tables" and "columns" in values:  # warnings of overfitting need their logs
        rows = [system for system in values.get("systems", ()) if system.weights != "best"]
        runs = (f"runs/{run}" for system in rows for run in system.runs)
        jobs |= {run: plan.made[run] for run in runs if run in plan.made}
    # the configurations of sets are not pinned: an equal set that other code wrote gives the same table
    expected = {key: job.sha256 for key, job in jobs.items() if job is not None and job.verb != "corpus"}
    if name not in ARTEFACTS:
        values |= {"kind": artefact.kind, "title": artefact.title}
    values |= {"artefact": name, "files": list(artefact.files), "expected": expected}
    own = values.keys() - ArtefactJob.model_fields.keys()
    values["more"] = plain({key: values.pop(key) for key in list(values) if key in own})
    return plan.make(ArtefactJob, name, list(jobs), [artefact.module, *modules], scale_label=plan.scale.label, **values)


def probing(plan: Context, name: str, table: ProbeTable) -> Values:
    """A table or figure of probes: its systems are methods, each with all its seeds, and their untrained controls."""
    scale = plan.scale
    systems = _systems(plan, table)
    if isinstance(table, HeadTable):
        systems = [_by(plan, head, row) for head in table.head_names for row in systems]
    probes = [plan.probe(encoder, head) for head in table.head_names for encoder in plan.encoders_of(table)]
    named = {system.key for system in systems}
    contrasts = [pair for pair in _pairs(table) if set(pair) <= named]
    first = table.backbones[0]
    primary = [[_system(a, first), _system(b, first)] for a, b in table.primary]
    # the logs of runs say which of many passes overfitted
    runs = [plan.pretrain(run) for run in plan.runs_of(table)] if isinstance(table, RepetitionFigure) else []
    averaged = not isinstance(table, RatioFigure | PairsFigure) and len(table.probes) > 1
    single = scale.data.primary_probe if scale.data.primary_probe in table.probes else table.probes[0]
    zero_shot = _zero_shot(plan, table) if isinstance(table, HeadTable) and table.zero_shot else {"jobs": {}}
    return {
        "jobs": {job.job: job for job in (*probes, *runs)} | zero_shot.pop("jobs"),
        **zero_shot,
        "systems": systems,
        "columns": [ShownColumn(key=key, label=scale.data.probes[key].label) for key in table.shown],
        "reported_separately": table.reported_separately,
        "notes": [*_heads(plan, table), *(note for key in table.shown if (note := scale.data.probes[key].note))],
        **compared(contrasts, primary),
        "primary_metric": table.primary_metric or ("average" if averaged else single),
        "trends": table.trends if isinstance(table, PairsFigure) else [],
        "seeds": scale.training.seeds,
        "statistics": plan.statistics(table),
    }


def _zero_shot(plan: Context, table: HeadTable) -> Values:
    """The rows of the zero-shot table whose runs are also in a table of heads, by each method's own estimator."""
    table_zero_shot = plan.scale.tables.one(ZeroShotTable)
    plan_values = score_plans.zero_shot(plan, "table_zero_shot", table_zero_shot)
    runs = {run.id for run in plan.runs_of(table)}
    rows, jobs = list[System](), dict[str, Any]()
    for row in plan_values["systems"]:
        method = plan.params.methods[row.method.key]
        if (
            row.estimator == method.estimators[0]
            and row.weights == table_zero_shot.weights[0]
            and set(row.runs) <= runs
        ):
            rows.append(row)
            jobs |= {name: plan_values["jobs"][name] for name in row.records}
    if not rows:
        raise UserError(f"{plan.file}: table_zero_shot has none of the runs of a table with zero_shot")
    return {
        "jobs": jobs,
        "beside": Beside(systems=rows, columns=plan_values["columns"], more={"samples": plan_values["samples"]}),
    }


def convergence(plan: Context, name: str, table: ConvergenceFigure) -> Values:
    """:func:`probing` of snapshots: comparisons after each share of the steps, claims after one. UserError if the runs of a
    corpus have none, or different ones."""
    values = probing(plan, name, table)
    where, last = f"{plan.file}: tables.{name}", dict[str, Run]()
    shares: dict[str, float] = {}
    for run in plan.runs_of(table):
        first = last.setdefault(run.corpus, run)
        taken, expected = plan.recipe(run).snapshots, plan.recipe(first).snapshots
        if not taken or taken != expected:
            problem = f"{run.id} keeps {taken or 'none'}" + (
                "" if run == first else f", {first.id} {expected or 'none'}"
            )
            raise UserError(f"{where}: needs the same snapshots of all runs of a corpus (recipe.snapshots): {problem}")
        if table.claimed_at not in (*taken, 1.0):
            raise UserError(f"{where}.claimed_at = {table.claimed_at:g}: no snapshot of {run.id}; it keeps {taken}")
        shares |= {Snapshot(run, share).system: share for share in taken} | {run.system: 1.0}

    def at(pair: list[str], share: float) -> list[str]:
        return [side if share == 1 else f"{side}/{snapshot_name(share)}" for side in pair]

    every = dict.fromkeys(shares.values())
    contrasts = [both for pair in values["contrasts"] for share in every if set(both := at(pair, share)) <= set(shares)]
    primary = [at(pair, table.claimed_at) for pair in values["primary"]]
    return {**values, "contrasts": contrasts, "primary": primary, "shares": shares}


def _heads(plan: Context, table: ProbeTable) -> list[str]:
    """A sentence for each head of a table of several heads."""
    assert plan.scale.probe is not None  # checked by the schema
    every = [plan.scale.probe.every[name] for name in table.head_names] if isinstance(table, HeadTable) else []
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
        **plan.labels(encoder, _label(table, entry)),
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


def _label(table: ProbeTable, method: Method) -> str:
    """A method's label: in Table 5 MDC's range of t, as in the paper; otherwise its name."""
    by_range = isinstance(table, ScheduleTable) and getattr(method, "weight", None) == "inverse_t"
    return str(list(method.masked_share or ())) if by_range else method.label


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
        for head in ([f"/{head}" for head in table.head_names] if isinstance(table, HeadTable) else [""])
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


def losses(plan: Context, name: str, table: Strict) -> Values:
    """The logs of all runs, which are beside the runs' manifests."""
    by_system: dict[str, list[Run]] = {}
    for run in plan.runs:
        if not run.finetune:  # its loss is on another corpus than its run's
            by_system.setdefault(run.system, []).append(run)
    jobs = {run.id: plan.pretrain(run) for runs in by_system.values() for run in runs}
    systems = [
        System(
            key=key,
            **plan.labels(runs[0]),
            runs=[run.id for run in runs],
            records=[jobs[run.id].job for run in runs],
            more={
                "seeds": [run.seed for run in runs],
                "objective": method.objective,
                "t_range": method.masked_share and list(method.masked_share),
            },
        )
        for key, runs in by_system.items()
        for method in [jobs[runs[0].id].method]
    ]
    return {"jobs": {job.job: job for job in jobs.values()}, "systems": systems}


def recipes(plan: Context, name: str, table: RecipeTable) -> Values:
    """How Table 1's runs of one backbone are trained, from their own configurations."""
    scale, table1 = plan.scale, plan.scale.tables.one(ProbeTable)
    backbone = table.backbone
    seed = scale.training.seeds[0]

    def run_of(corpus: str, key: str) -> dict[str, Any]:
        job, method = plan.pretrain(Run(corpus, backbone, key, seed)), plan.params.methods[key]
        protocol, recipe = job.protocol.pretrain, job.recipe
        return {
            **recipe.model_dump(include={*Optimisation.model_fields}),
            "label": method.label,
            "objective": method.objective,
            "ranked": method.ranked,
            "optimizer": protocol.optimizer,
            "lr_schedule": recipe.lr_schedule or protocol.lr_schedule,
        }

    corpora = [
        {"label": scale.label_of(corpus), "runs": [run_of(corpus, key) for key in methods]}
        for corpus, methods in table1.corpora.items()
    ]
    return {"jobs": {}, "backbone": scale.training.backbones[backbone].label, "corpora": corpora}
