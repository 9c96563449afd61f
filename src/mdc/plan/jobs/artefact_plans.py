"""The jobs of tables and figures: which records each is made from, and how it calls them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

from mdc.plan.artefacts import ARTEFACTS
from mdc.plan.config.data import Corpus, TextSet
from mdc.plan.config.pretrain import Method
from mdc.plan.config.tables import PairsFigure, ProbeTable, RatioFigure, RepetitionFigure, ScheduleTable
from mdc.plan.jobs import caption_plans, score_plans
from mdc.plan.jobs.context import Context, Encoder
from mdc.plan.jobs.ids import Frozen, Run, Untrained
from mdc.plan.jobs.read import as_job
from mdc.plan.jobs.shown import ArtefactJob, Licence
from mdc.plan.registry.datasets import REGISTRY

_FROZEN = (
    "Frozen: an encoder that was not trained for this table, on other data than its rows; it stands here for orientation and is "
    "not ranked."
)
_UNTRAINED = "Untrained: the initial weights of the same backbone, seed and pooling."


def _artefact(plan: Context, name: str, inputs: list[str], expected: dict[str, str], **values: Any) -> ArtefactJob:
    artefact = ARTEFACTS[name]
    told = {
        **plan.head("make", name, inputs, [artefact.module]),
        "artefact": name,
        "files": list(artefact.files),
        "plan": artefact.plan,
        "scale_label": plan.scale.label,
        "expected": expected,
    }
    found: ArtefactJob = as_job({**told, **values}, "make", f"params.yaml: {name}")
    return found


def _labelled(key: str, label: str) -> dict[str, str]:
    return {"key": key, "label": label}


def probing(plan: Context, name: str) -> ArtefactJob:
    """A table or figure of linear probes: its systems are methods, each with all its seeds, and their controls."""
    scale = plan.scale
    table: ProbeTable = scale.tables.probing()[name]
    systems = _systems(plan, name, table)
    records = {record: plan.probe(encoder) for encoder in _encoders(plan, table) for record in [f"probe/{encoder.id}"]}
    named = {system["key"] for system in systems}
    contrasts = [pair for pair in _pairs(table) if set(pair) <= named]
    first = table.backbones[0]
    primary = [[_system(a, first), _system(b, first)] for a, b in table.primary]
    contrasts += [pair for pair in primary if pair not in contrasts]
    # the held-out losses of runs stand in their own records
    runs = [plan.pretrain(run) for run in plan.runs_of(table)] if isinstance(table, RepetitionFigure) else []
    averaged = not isinstance(table, RatioFigure | PairsFigure) and (name == "table1" or len(table.probes) > 1)
    alone = scale.data.primary_probe if scale.data.primary_probe in table.probes else table.probes[0]
    return _artefact(
        plan,
        name,
        [*records, *(run.job for run in runs)],
        {**{record: job.sha256 for record, job in records.items()}, **{run.job: run.sha256 for run in runs}},
        systems=systems,
        columns=[_labelled(key, scale.data.probes[key].label) for key in table.probes],
        contrasts=contrasts,
        primary=primary,
        primary_column="average" if averaged else alone,
        trends=table.trends if isinstance(table, PairsFigure) else [],
        seeds=scale.training.seeds,
        statistics=plan.params.protocol.statistics.model_dump(mode="json"),
    )


def _encoders(plan: Context, table: ProbeTable) -> list[Encoder]:
    runs = plan.runs_of(table)
    return [*runs, *dict.fromkeys(plan.control(run) for run in runs), *map(Frozen, table.encoders)]


def _systems(plan: Context, name: str, table: ProbeTable) -> list[dict[str, Any]]:
    """In the order of rows: by backbone its controls, then corpus by corpus; encoders of others stand last."""
    grouped: dict[str, list[Encoder]] = {}
    for encoder in _encoders(plan, table):
        grouped.setdefault(encoder.system, []).append(encoder)
    firsts = [group[0] for group in grouped.values()]
    ordered: list[Encoder] = [
        encoder
        for backbone in table.backbones
        for kind in (Untrained, Run)
        for encoder in firsts
        if isinstance(encoder, kind) and encoder.backbone == backbone
    ]
    ordered += [encoder for encoder in firsts if isinstance(encoder, Frozen)]
    return [_row(plan, name, encoder, [one.id for one in grouped[encoder.system]]) for encoder in ordered]


def _row(plan: Context, name: str, encoder: Encoder, runs: list[str]) -> dict[str, Any]:
    scale = plan.scale
    if isinstance(encoder, Frozen):
        return _frozen_row(plan, encoder)
    common = {
        "key": encoder.system,
        "backbone": _labelled(encoder.backbone, scale.training.backbones[encoder.backbone].label),
        "runs": runs,
        "records": [f"probe/{run}" for run in runs],
    }
    if isinstance(encoder, Untrained):
        method = _labelled("untrained", "untrained")
        told = {"corpus": None, "method": method, "pooling": encoder.pooling, "reference": True, "note": _UNTRAINED}
        return {**common, **told}
    entry = plan.params.methods[encoder.method]
    return {
        **common,
        "corpus": _labelled(encoder.corpus, scale.data.corpora[encoder.corpus].label),
        "method": _labelled(encoder.method, _label(scale.tables.probing()[name], entry)),
        "pooling": entry.pooling,
        "control": plan.control(encoder).system,
        "ranked": entry.ranked,
        "t_range": None if entry.t_range is None else list(entry.t_range),
    }


def _frozen_row(plan: Context, encoder: Frozen) -> dict[str, Any]:
    """An encoder of others is the same whatever the seed, so its one record stands for each."""
    seeds = len(plan.scale.training.seeds)
    return {
        "key": encoder.system,
        "backbone": _labelled(encoder.name, plan.scale.encoders[encoder.name].label),
        "corpus": None,
        "method": _labelled("frozen", "frozen"),
        "pooling": "its own feature",
        "runs": [encoder.id] * seeds,
        "records": [f"probe/{encoder.id}"] * seeds,
        "reference": True,
        "note": _FROZEN,
    }


def _label(table: ProbeTable, method: Method) -> str:
    """What a method is called: in Table 5 MDC by its range of t, as the paper has it; others by their names."""
    by_range = isinstance(table, ScheduleTable) and method.t_range is not None and method.weight == "inverse_t"
    return str(list(method.t_range or ())) if by_range else method.label


def _system(side: str, backbone: str) -> str:
    """The key of ``corpus/method`` on a backbone."""
    corpus, _, method = side.rpartition("/")
    return f"{corpus}/{backbone}/{method}"


def _pairs(table: ProbeTable) -> list[list[str]]:
    """The comparisons that ``contrasts`` asks for, whether both sides stand in the table or not."""
    within = [
        [_system(f"{corpus}/{first}", backbone), _system(f"{corpus}/{second}", backbone)]
        for backbone in table.backbones
        for corpus in table.corpora
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


def _shown_run(plan: Context, run: Run) -> dict[str, Any]:
    scale, method, recipe = plan.scale, plan.params.methods[run.method], plan.recipe(run)
    return {
        "job": f"runs/{run.id}",
        "corpus": _labelled(run.corpus, scale.data.corpora[run.corpus].label),
        "backbone": _labelled(run.backbone, scale.training.backbones[run.backbone].label),
        "method": _labelled(run.method, method.label),
        "objective": method.objective,
        "seed": run.seed,
        "t_range": None if method.t_range is None else list(method.t_range),
        "warmup_steps": recipe.warmup_steps,
        "clip_norm": recipe.clip_norm,
    }


def _logs(plan: Context, name: str, runs: list[Run], **values: Any) -> ArtefactJob:
    """What is read from runs' logs, which lie beside their manifests."""
    jobs = [plan.pretrain(run) for run in runs]
    expected = {job.job: job.sha256 for job in jobs}
    return _artefact(plan, name, list(expected), expected, runs=[_shown_run(plan, run) for run in runs], **values)


def losses(plan: Context, name: str) -> ArtefactJob:
    # a finetuning's loss is of another corpus than its run's
    return _logs(plan, name, [run for run in plan.runs if not run.finetune])


def schedules(plan: Context, name: str) -> ArtefactJob:
    """The runs of Table 5, whose steadiness is compared."""
    table, figure = plan.scale.tables.table5, plan.scale.tables.figure_schedules
    assert table is not None and figure is not None  # the schema sees to it
    statistics = plan.params.protocol.statistics.model_dump(mode="json")
    claims = {"reference": table.reference, "primary": figure.primary}
    return _logs(plan, name, plan.runs_of(table), **claims, statistics=statistics)


def lengths(plan: Context, name: str) -> ArtefactJob:
    """Nothing is expected of the sets' configurations: an equal set that other code wrote gives the same figure."""
    shown, data = plan.scale.tables.figure3, plan.scale.data
    assert shown is not None
    corpora = [{"split": "train", "job": f"data/corpora/{key}", **_of(key, data.corpora)} for key in shown.corpora]
    texts = [{"split": "all", "job": f"data/texts/{key}", **_of(key, data.texts)} for key in shown.texts]
    sets = [*corpora, *texts]
    context_length = plan.params.protocol.data.context_length
    return _artefact(plan, name, [one["job"] for one in sets], {}, sets=sets, context_length=context_length)


def _of(key: str, entries: Mapping[str, Corpus] | Mapping[str, TextSet]) -> dict[str, str]:
    return _labelled(key, entries[key].label)


def licences(plan: Context, name: str) -> ArtefactJob:
    entries = [asdict(entry) for entry in REGISTRY.values()]
    told = [{key: _plain(entry[key]) for key in Licence.model_fields} for entry in entries]
    return _artefact(plan, name, [], {}, entries=told)


def _plain(value: Any) -> Any:
    """As JSON has it, and in an order that a file of sorted keys keeps: a mapping as its pairs."""
    if isinstance(value, Mapping):
        return [[key, inner] for key, inner in value.items()]
    return list(value) if isinstance(value, tuple) else value


_SHOWN_OF_A_RECIPE = ["lr", "warmup_steps", "weight_decay", "beta1", "beta2", "batch_size", "epochs", "clip_norm"]


def recipes(plan: Context, name: str) -> ArtefactJob:
    """How Table 1's runs of one backbone are trained, from their own configurations."""
    scale, table1 = plan.scale, plan.scale.tables.table1
    backbone = getattr(scale.tables, name).backbone
    assert table1 is not None  # the schema sees to it
    seed = scale.training.seeds[0]

    def run_of(corpus: str, key: str) -> dict[str, Any]:
        job, method = plan.pretrain(Run(corpus, backbone, key, seed)), plan.params.methods[key]
        protocol, recipe = job.protocol.pretrain, job.recipe
        shown = {key: getattr(recipe, key) for key in _SHOWN_OF_A_RECIPE}
        shown |= {"optimizer": protocol.optimizer, "lr_schedule": recipe.lr_schedule or protocol.lr_schedule}
        return {"label": method.label, "objective": method.objective, "ranked": method.ranked, "recipe": shown}

    corpora = [
        {"label": scale.data.corpora[corpus].label, "runs": [run_of(corpus, key) for key in methods]}
        for corpus, methods in table1.corpora.items()
    ]
    return _artefact(plan, name, [], {}, backbone=scale.training.backbones[backbone].label, corpora=corpora)


def _of_scores(values: Callable[[Context, str], dict[str, Any]]) -> Callable[[Context, str], ArtefactJob]:
    """A table or figure whose values and records ``values`` names."""

    def made(plan: Context, name: str) -> ArtefactJob:
        told = values(plan, name)
        jobs = told.pop("jobs")
        # nothing is expected of a set's configuration: an equal set that other code wrote gives the same table
        expected = {job.job: job.sha256 for job in jobs.values() if job.verb != "corpus"}
        return _artefact(plan, name, list(jobs), expected, **told)

    return made


_PLANS: dict[str, Callable[[Context, str], ArtefactJob]] = {
    "probing": probing,
    "choices": _of_scores(score_plans.choices),
    "retrieval": _of_scores(score_plans.retrieval),
    "positions": _of_scores(score_plans.positions),
    "captions": _of_scores(caption_plans.table),
    "caption_view": _of_scores(caption_plans.view),
    "caption_examples": _of_scores(caption_plans.examples),
    "caption_examples_of": _of_scores(caption_plans.examples_of),
    "guidance": _of_scores(caption_plans.guidance),
    "robustness": _of_scores(caption_plans.robustness),
    "losses": losses,
    "schedules": schedules,
    "lengths": lengths,
    "licences": licences,
    "recipes": recipes,
}

#: table or figure → how its job follows from params.yaml
ARTEFACT_PLANS = {name: _PLANS[artefact.plan] for name, artefact in ARTEFACTS.items()}
