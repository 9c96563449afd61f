"""The plans of Table 3, Figure 6 and other tables and figures of captions: their inputs and rows."""

from typing import Any

from mdc.plan.artefacts import read_shown
from mdc.plan.config.caption import Diffusing
from mdc.plan.config.caption_table import (
    MOST_FREQUENT,
    CaptionExamplesOf,
    CaptionFigure,
    CaptionTable,
    CaptionView,
    GuidanceFigure,
    RobustnessFigure,
    RunClip,
)
from mdc.plan.config.distortion import LABELS, STRENGTHS
from mdc.plan.config.judge import ByEndpoint
from mdc.plan.config.systems import CaptionSystem, distorted, mismatched_key
from mdc.plan.config.tables import CostTable
from mdc.plan.jobs import caption_jobs
from mdc.plan.jobs.context import Context, compared
from mdc.plan.jobs.ids import Run
from mdc.plan.jobs.shown import Labelled, ShownColumn, System
from mdc.plan.records import UserError

#: part of Table 3 → its metrics and their labels: the paper's in its order; for the built-in world the precision of the
#: stated facts, and their recall
_KINDS = ("objects", "attributes", "counts", "relations")
_OF_STATEMENTS = ("precision", "recall")
_COLUMNS: dict[str, dict[str, str]] = {
    "paper": {"BLEU-4": "B@4", "METEOR": "METEOR", "CIDEr": "CIDEr", "SPICE": "SPICE", "ROUGE-L": "ROUGE-L"},
    "more": {
        "BLEU-1": "B@1",
        "BLEU-2": "B@2",
        "BLEU-3": "B@3",
        "CLIPScore": "CLIPScore",
        "RefCLIPScore": "RefCLIPScore",
    },
    "truth": {
        **{what: what for what in _OF_STATEMENTS},
        **{f"{what}_{kind}": f"{kind} {what}" for what in _OF_STATEMENTS for kind in _KINDS},
        **{f"word_{kind}": f"{kind} words true" for kind in ("colour", "shape", "count")},
    },
    "words": read_shown("evaluation/metrics/each.py") or {},
}

_MOST_FREQUENT_NOTE = (
    "Most frequent training caption: the same for every image, so it is the score without looking at the image."
)
_MISMATCHED_NOTE = (
    "Mismatched image: the same captioner on another image of the set; the score of a caption that does not fit."
)


_OF_OTHERS = (
    "an external model (open_clip), trained on other data; it is shown for reference. {num_beams} plain beams write captions of "
    "five to {max_tokens} tokens with start and end, as open_clip 4 searches (3.3: three groups of beams)."
)


def captions(plan: Context, name: str, table: CaptionTable) -> dict[str, Any]:
    """The values of Table 3's job, and the jobs that it is made from (``jobs``)."""
    return _table(plan, table, plan.scale.training.seeds)


def caption_view(plan: Context, name: str, view: CaptionView) -> dict[str, Any]:
    """The same for a table of a part of a section of captions."""
    whole = plan.scale.captioning()[view.datasets[0]]
    seeds = plan.scale.training.seeds[:1] if view.first_seed else plan.scale.training.seeds
    values = _table(plan, whole.view(view), seeds)
    if view.over:
        values |= _over(plan, whole, view, values)
    if view.select_on is None:
        return values
    captioning = whole.systems_of(view.select_on)
    among = [key for key in whole.members(view.systems) if key in captioning and captioning[key].images == "own"]
    measured = _Measured(plan, view.select_on, seeds)
    systems = {key: measured.records(key, values["jobs"]) for key in among}
    return {**values, "choose": {"label": whole.datasets[view.select_on].label, "systems": systems}}


class _Measured:
    """The captions of a dataset, and their metrics, by system and seed."""

    def __init__(self, plan: Context, dataset: str, seeds: list[int]) -> None:
        self.plan, self.by_seed = plan, [caption_jobs.of_seed(plan, dataset, seed) for seed in seeds]

    def records(self, system: str, jobs: dict[str, Any]) -> list[str]:
        """The names of a system's jobs of metrics, one per seed, added to ``jobs``; a baseline has one for all seeds."""
        made = [caption_jobs.metrics(self.plan, requests[system]) for requests in self.by_seed]
        jobs |= {job.job: job for job in made}
        return [job.job for job in made]

    def runs(self, system: str) -> list[str]:
        """The names of its runs."""
        return [run.id for requests in self.by_seed if (run := requests[system].run) is not None]


def _over(plan: Context, whole: CaptionTable, view: CaptionView, values: dict[str, Any]) -> dict[str, Any]:
    """The comparisons over datasets: the differences within each, and the corpora, which hold the numbers of training images."""
    pairs = [[f"{name}/{first}", f"{name}/{second}"] for name in view.datasets for first, second in view.over]
    corpora = {name: plan.corpus(plan.scale.corpus_of(whole.datasets[name].pretrained)) for name in view.datasets}
    entries = {
        name: {
            "key": name,
            "label": whole.datasets[name].label,
            "trained_on": job.job,
            "images": whole.datasets[name].images,
        }
        for name, job in corpora.items()
    }
    return {
        "jobs": values["jobs"] | {job.job: job for job in corpora.values()},
        "contrasts": compared(values["contrasts"], pairs)["contrasts"],
        "over": {
            "pairs": view.over,
            "datasets": [entry for name, entry in entries.items() if name not in view.beside],
            "beside": [entries[name] for name in view.beside],
        },
    }


def _table(plan: Context, shown: CaptionTable, seeds: list[int]) -> dict[str, Any]:
    jobs: dict[str, Any] = {}
    rows: list[System] = []
    lengths = _lengths(shown)
    for dataset in shown.datasets:
        measured = _Measured(plan, dataset, seeds)
        baselines = {MOST_FREQUENT: ("most frequent training caption", MOST_FREQUENT, _MOST_FREQUENT_NOTE)}
        for key, coca in shown.coca_of(dataset).items():
            baselines[key] = (coca.label, f"coca/{key}", f"{coca.label}: {_OF_OTHERS.format_map(vars(coca))}")
        for key, (label, place, note) in baselines.items():
            rows.append(
                System(
                    **_common(plan, shown, dataset, key, label),
                    runs=[f"captions/{place}/{dataset}"] * len(seeds),
                    records=measured.records(key, jobs),
                    role="control" if key == MOST_FREQUENT else "reference",
                    note=note,
                    more={"length": "–", "decoding": "–", "tuned": ""},
                )
            )
        for key, system in shown.systems_of(dataset).items():
            records = measured.records(key, jobs)
            rows.append(_row(plan, shown, dataset, key, system, lengths, measured.runs(key), records))
    contests, judged = [], dict[str, list[str]]()
    for dataset in shown.datasets:
        here = shown.contests_of(dataset)
        choices = {job.job: job for job in (caption_jobs.judge(plan, dataset, seed) for seed in seeds if here)}
        jobs |= choices
        for name, contest in here.items():
            named = {"name": name, "label": contest.label, "dataset": dataset}
            contests.append({**named, "systems": contest.systems, "records": list(choices)})
            for key in contest.systems:
                judged.setdefault(f"{dataset}/{key}", []).extend(choices)
    rows = [row.but(more={**row.more, "judged": judged[row.key]}) if row.key in judged else row for row in rows]
    return {
        "jobs": jobs,
        "systems": rows,
        "columns": [
            ShownColumn(key=key, label=label, more={"part": part})
            for part, columns in _COLUMNS.items()
            for key, label in columns.items()
        ],
        **compared(shown.contrasts, shown.primary),
        "primary_metric": shown.primary_metric,
        "seeds": seeds,
        "statistics": plan.statistics(shown),
        "clip": _clip(plan, shown),
        "judge": _judge(shown),
        "contests": contests,
    }


def caption_examples(plan: Context, name: str, figure: CaptionFigure) -> dict[str, Any]:
    """The values of Figure 6's job, and the jobs that it is made from (``jobs``): captions by each system's first seed."""
    return _examples(plan, plan.scale.tables["table3"], figure.omit)


def caption_examples_of(plan: Context, name: str, figure: CaptionExamplesOf) -> dict[str, Any]:
    """The same for captions of a section of the scale."""
    whole = plan.scale.captioning()[figure.dataset]
    return _examples(plan, whole.view(CaptionView(datasets=[figure.dataset], systems=figure.systems)), [])


def guidance(plan: Context, name: str, figure: GuidanceFigure) -> dict[str, Any]:
    """The values of the job of a figure of guidance scales, and the jobs that it is made from (``jobs``)."""
    whole = plan.scale.captioning()[figure.dataset]
    members = {key: whole.members(curve.systems) for key, curve in figure.curves.items()}
    systems = list(dict.fromkeys(system for listed in members.values() for system in listed))
    view = CaptionView(datasets=[figure.dataset], systems=systems, order=figure.order)
    values = _table(plan, whole.view(view), plan.scale.training.seeds)
    curves = [
        {
            "key": key,
            "label": curve.label,
            "method": whole.systems[members[key][0]].method,
            "systems": [f"{figure.dataset}/{system}" for system in members[key]],
            "scales": [_scale(whole, system) for system in members[key]],
        }
        for key, curve in figure.curves.items()
    ]
    return {**values, "curves": curves, "between": figure.primary}


def robustness(plan: Context, name: str, figure: RobustnessFigure) -> dict[str, Any]:
    """The values of the job of a figure of robustness, and the jobs that it is made from (``jobs``)."""
    whole = plan.scale.captioning()[figure.dataset]
    for key in dict.fromkeys(system for pair in figure.primary for system in pair):
        if mismatched_key(key) not in whole.systems:
            raise UserError(
                f"{plan.file}: tables.{name}.primary: {key} has no mismatched-image control, above which its quality counts; "
                f"give {key} mismatched: true"
            )
    lengths = _lengths(whole.view(CaptionView(datasets=[figure.dataset], systems=figure.systems)))
    place = f"{figure.dataset}/"
    curves: list[dict[str, Any]] = [
        {
            "key": key,
            "label": _label(whole.systems[key], lengths),
            "kind": kind,
            "kind_label": LABELS[kind],
            "method": whole.systems[key].method,
            "backbone": whole.backbone_of(figure.dataset, key),
            "systems": [place + key, *(place + distorted(key, kind, step) for step in range(1, STRENGTHS + 1))],
            "control": place + mismatched_key(key) if mismatched_key(key) in whole.systems else None,
        }
        for kind in figure.kinds
        for key in figure.systems
    ]
    controls = [curve["control"] for curve in curves if curve["control"] is not None]
    drawn = [key for curve in curves for key in curve["systems"]]
    shown = dict.fromkeys(key.removeprefix(place) for key in [*drawn, *controls])
    view = CaptionView(datasets=[figure.dataset], systems=list(shown), order=figure.order)
    values = _table(plan, whole.view(view), plan.scale.training.seeds)
    return {**values, "curves": curves, "between": figure.primary, "claimed": figure.primary_kinds_or_all}


def cost(plan: Context, name: str, table: CostTable) -> dict[str, Any]:
    """The values of the job of the table of costs, and the jobs that it is made from (``jobs``). UserError for a dataset that the
    scale does not caption."""
    jobs: dict[str, Any] = {}
    modules: dict[str, None] = {}
    by_system: dict[str, list[Run]] = {}
    for run in plan.runs_of(table):
        job = plan.pretrain(run)
        jobs |= {job.job: job, f"data/corpora/{job.corpus}": None, f"data/vocabularies/{job.vocabulary}": None}
        modules[job.method.abilities["train"]] = None
        by_system.setdefault(run.system, []).append(run)
    systems = [
        System(
            key=key,
            **plan.labels(runs[0]),
            runs=[run.id for run in runs],
            records=[f"runs/{run.id}" for run in runs],
            estimator="training",
        )
        for key, runs in by_system.items()
    ]
    written: list[System] = []
    tables = plan.scale.captioning()
    for dataset in table.datasets:
        if dataset not in tables:
            where, allowed = f"{plan.file}: tables.{name}.datasets", ", ".join(tables) or "there is none"
            raise UserError(f"{where}: {dataset} is not captioned; allowed: {allowed}")
        shown = tables[dataset]
        by_seed = [caption_jobs.of_seed(plan, dataset, seed) for seed in plan.scale.training.seeds]
        for key, system in shown.systems_of(dataset).items():
            wanted = [requests[key] for requests in by_seed if key in requests]
            made = [caption_jobs.captions(plan, request) for request in wanted]
            jobs |= {job.job: job for job in made}
            if system.images == "own":
                runs = [request.run.id for request in wanted if request.run is not None]
                row = _row(plan, shown, dataset, key, system, _lengths(shown), runs, [job.job for job in made])
                written.append(row.but(control=None, note=""))
    seeds = plan.scale.training.seeds
    return {"jobs": jobs, "modules": list(modules), "systems": [*systems, *written], "seeds": seeds}


def _scale(whole: CaptionTable, system: str) -> float:
    decode = whole.systems[system].decode
    assert isinstance(decode, Diffusing)  # checked by the schema
    return decode.guidance


def _examples(plan: Context, shown: CaptionTable, omit: list[str]) -> dict[str, Any]:
    jobs: dict[str, Any] = {}
    datasets, lengths = [], _lengths(shown)
    for name, dataset in shown.datasets.items():
        requests = caption_jobs.of_seed(plan, name, plan.scale.training.seeds[0])
        own = shown.systems_of(name)
        labels = {key: _label(system, lengths) for key, system in own.items()}
        labels |= {key: other.label for key, other in shown.coca_of(name).items()}
        systems = []
        for key, label in labels.items():
            job = caption_jobs.captions(plan, requests[key])
            jobs[job.job] = job
            reveals = key in own and own[key].decode.kind != "beam"
            pictured = key not in omit
            more = {"reveals": reveals, "pictured": pictured}
            systems.append({"key": key, "label": label, "record": job.job, **more})
        corpus = plan.corpus(dataset.corpus)
        jobs[corpus.job] = corpus
        datasets.append({"label": dataset.label, "corpus": corpus.job, "split": dataset.split, "systems": systems})
    return {"jobs": jobs, "datasets": datasets, "examples": shown.examples, "seed": shown.seed}


def _lengths(shown: CaptionTable) -> set[str]:
    """The lengths of all shown systems; labels name the length only if there are several."""
    return {system.length for name in shown.datasets for system in shown.systems_of(name).values()}


def _label(system: CaptionSystem, lengths: set[str]) -> str:
    """A system's label, with its length unless all ``lengths`` are the same."""
    return system.label if lengths == {system.length} or system.length == "–" else f"{system.label} · {system.length}"


def _row(
    plan: Context,
    shown: CaptionTable,
    dataset: str,
    key: str,
    system: CaptionSystem,
    lengths: set[str],
    runs: list[str],
    records: list[str],
) -> System:
    mismatched = system.images == "other"
    return System(
        **_common(plan, shown, dataset, key, _label(system, lengths)),
        runs=runs,
        records=records,
        # the same captioner on mismatched images, if the table shows it
        control=f"{dataset}/{mismatched_key(key)}" if mismatched_key(key) in shown.systems_of(dataset) else None,
        role="control" if mismatched else "ranked" if system.ranked else "grey",
        note=_note(plan, shown, system),
        weights=system.weights,
        more={
            "length": system.length,
            "decoding": system.decoding,
            "tuned": shown.datasets[dataset].tuned_as(system) or "",
        },
    )


def _note(plan: Context, shown: CaptionTable, system: CaptionSystem) -> str:
    if system.guided:
        assert shown.guide is not None
        return f"Guided: a CLIP, {own_clip(plan, shown.guide)}, scores the candidates for every token."
    return _MISMATCHED_NOTE if system.images == "other" else ""


def _common(plan: Context, shown: CaptionTable, dataset: str, key: str, label: str) -> dict[str, Any]:
    backbone = shown.backbone_of(dataset, key if key in shown.systems else None)
    return {
        "key": f"{dataset}/{key}",
        "method": Labelled(key=key, label=label),
        "corpus": Labelled(key=dataset, label=shown.datasets[dataset].label),
        "backbone": plan.backbone(backbone),
        "estimator": "captions",
    }


def _clip(plan: Context, shown: CaptionTable) -> str:
    if shown.clip_score is None:
        return ""
    if isinstance(shown.clip_score, RunClip):
        return own_clip(plan, shown.clip_score)
    return shown.clip_score.label


def own_clip(plan: Context, clip: RunClip) -> str:
    """The description of a CLIP run of the scale."""
    backbone = f" on {plan.scale.training.backbones[clip.backbone].label}" if clip.backbone is not None else ""
    return (
        f"the scale's own {plan.params.methods[clip.method].label}{backbone}, seed {clip.of(plan.scale.training.seeds)}"
    )


def _judge(shown: CaptionTable) -> str:
    if shown.judge is None:
        return ""
    return shown.judge.by.model if isinstance(shown.judge.by, ByEndpoint) else "CLIPScore, which is no language model"
