"""The jobs of Table 3 and Figure 6: which records each is made from, and what its rows are."""

from __future__ import annotations

from typing import Any

from mdc.plan import parts
from mdc.plan.artefacts import read_shown
from mdc.plan.config.caption import Diffusing
from mdc.plan.config.caption_table import (
    FLOOR,
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
from mdc.plan.config.systems import CaptionSystem, distorted, other_image
from mdc.plan.config.tables import CostTable
from mdc.plan.jobs import caption_jobs
from mdc.plan.jobs.context import Context, compared, labelled
from mdc.plan.records import UserError

#: of each part of Table 3, its metrics and what they are called: those of the paper in its order; of the built-in world the
#: true share of what is stated, and the told share of what there is to say
_KINDS = ("objects", "attributes", "counts", "relations")
_COLUMNS = {
    "paper": {"BLEU-4": "B@4", "METEOR": "METEOR", "CIDEr": "CIDEr", "SPICE": "SPICE", "ROUGE-L": "ROUGE-L"},
    "more": {
        "BLEU-1": "B@1",
        "BLEU-2": "B@2",
        "BLEU-3": "B@3",
        "CLIPScore": "CLIPScore",
        "RefCLIPScore": "RefCLIPScore",
    },
    "truth": {
        **{"true": "true", "told": "told"},
        **{f"{what}_{kind}": f"{kind} {what}" for what in ("true", "told") for kind in _KINDS},
        **{f"word_{kind}": f"{kind} words true" for kind in ("colour", "shape", "count")},
    },
    "words": read_shown("evaluation/metrics/each.py") or {},
}

_FLOOR_NOTE = (
    "Most frequent training caption: the same for every image, so it is what a caption scores that looks at none."
)
_BLIND_NOTE = "Mismatched image: the same captioner on another image of the set; what a caption scores that fits none."


#: of what no run of ours wrote
_REFERENCE = {"ranked": False, "reference": True, "length": "–", "decoding": "–", "tuned": "", "weights": ""}
_OF_OTHERS = "a model of others (open_clip), trained on other data; it stands here for orientation."


def captions(plan: Context, name: str) -> dict[str, Any]:
    """The values of Table 3's job, and the jobs that it is made from (``jobs``)."""
    return _table(plan, plan.scale.tables.at(name, CaptionTable), plan.scale.training.seeds)


def caption_view(plan: Context, name: str) -> dict[str, Any]:
    """The same of a table that shows a part of what a section of the scale asks for."""
    asked = plan.scale.tables.at(name, CaptionView)
    whole = plan.scale.section_of(asked.datasets[0])
    seeds = plan.scale.training.seeds[:1] if asked.first_seed else plan.scale.training.seeds
    found = _table(plan, whole.view(asked), seeds)
    if asked.over:
        found |= _over(plan, whole, asked, found)
    if asked.choose_on is None:
        return found
    by_seed = [caption_jobs.of_seed(plan, asked.choose_on, seed) for seed in seeds]
    there = whole.systems_of(asked.choose_on)
    among = [key for key in whole.members(asked.systems) if key in there and there[key].images == "own"]
    made = {key: [caption_jobs.metrics(plan, requests[key]) for requests in by_seed] for key in among}
    found["jobs"] |= {job.job: job for jobs in made.values() for job in jobs}
    systems = {key: [job.job for job in jobs] for key, jobs in made.items()}
    told = {"label": whole.datasets[asked.choose_on].label, "systems": systems}
    return {**found, "choose": told}


def _over(plan: Context, whole: CaptionTable, asked: CaptionView, found: dict[str, Any]) -> dict[str, Any]:
    """What is compared over datasets: the differences within each, and the corpora that tell how many images each trains on."""
    pairs = [[f"{name}/{one}", f"{name}/{other}"] for name in asked.datasets for one, other in asked.over]
    corpora = {name: plan.corpus(plan.scale.corpus_of(whole.datasets[name].pretrained)) for name in asked.datasets}
    told = {
        name: {
            **labelled(name, whole.datasets[name].label),
            "trained_on": job.job,
            "images": whole.datasets[name].images,
        }
        for name, job in corpora.items()
    }
    return {
        "jobs": found["jobs"] | {job.job: job for job in corpora.values()},
        "contrasts": compared(found["contrasts"], pairs)["contrasts"],
        "over": {
            "pairs": asked.over,
            "datasets": [one for name, one in told.items() if name not in asked.beside],
            "beside": [told[name] for name in asked.beside],
        },
    }


def _table(plan: Context, shown: CaptionTable, seeds: list[int]) -> dict[str, Any]:
    jobs: dict[str, Any] = {}
    rows: list[dict[str, Any]] = []
    lengths = _lengths(shown)
    for dataset in shown.datasets:
        by_seed = [caption_jobs.of_seed(plan, dataset, seed) for seed in seeds]
        wanted = [FLOOR, *shown.coca_of(dataset), *shown.systems_of(dataset)]
        made = {key: [caption_jobs.metrics(plan, requests[key]) for requests in by_seed] for key in wanted}
        jobs |= {job.job: job for listed in made.values() for job in listed}
        records = {key: [job.job for job in listed] for key, listed in made.items()}
        others = {FLOOR: ("most frequent training caption", "floor", _FLOOR_NOTE)}
        for key, coca in shown.coca_of(dataset).items():
            others[key] = (coca.label, f"coca/{key}", f"{coca.label}: {_OF_OTHERS}")
        for key, (label, place, note) in others.items():
            told = {"runs": [f"captions/{place}/{dataset}"] * len(seeds), "records": records[key], "note": note}
            rows.append({**_common(plan, shown, dataset, key, label), **_REFERENCE, **told, "blind": key == FLOOR})
        for key, system in shown.systems_of(dataset).items():
            ids = [run.id for found in by_seed if (run := found[key].run) is not None]
            rows.append(_row(plan, shown, dataset, key, system, lengths, ids, records[key]))
    contests = []
    for dataset in shown.datasets:
        here = shown.contests_of(dataset)
        choices = {job.job: job for job in (caption_jobs.judge(plan, dataset, seed) for seed in seeds if here)}
        jobs |= choices
        for name, one in here.items():
            told = {"name": name, "label": one.label, "dataset": dataset, "systems": one.systems}
            contests.append({**told, "records": list(choices)})
    return {
        "jobs": jobs,
        "systems": rows,
        "columns": [
            {**labelled(key, label), "part": part}
            for part, columns in _COLUMNS.items()
            for key, label in columns.items()
        ],
        **compared(shown.contrasts, shown.primary),
        "primary_column": shown.claimed,
        "seeds": seeds,
        "statistics": plan.statistics(shown),
        "clip": _clip(plan, shown),
        "judge": _judge(shown),
        "contests": contests,
        "choose": None,
    }


def caption_examples(plan: Context, name: str) -> dict[str, Any]:
    """The values of Figure 6's job, and the jobs that it is made from (``jobs``): captions by each system's first seed."""
    shown = plan.scale.tables.the(CaptionTable)
    assert shown is not None  # the schema sees to it
    return _examples(plan, shown, plan.scale.tables.at(name, CaptionFigure).leave_out)


def caption_examples_of(plan: Context, name: str) -> dict[str, Any]:
    """The same of captions that a section of the scale asks for."""
    asked = plan.scale.tables.at(name, CaptionExamplesOf)
    whole = plan.scale.section_of(asked.dataset)
    return _examples(plan, whole.view(CaptionView(datasets=[asked.dataset], systems=asked.systems)), [])


def guidance(plan: Context, name: str) -> dict[str, Any]:
    """The values of the job of a figure of scales of guidance, and the jobs that it is made from (``jobs``)."""
    asked = plan.scale.tables.at(name, GuidanceFigure)
    whole = plan.scale.section_of(asked.dataset)
    members = {key: whole.members(curve.systems) for key, curve in asked.curves.items()}
    systems = list(dict.fromkeys(one for listed in members.values() for one in listed))
    view = CaptionView(datasets=[asked.dataset], systems=systems, order=asked.order)
    found = _table(plan, whole.view(view), plan.scale.training.seeds)
    curves = [
        {
            **labelled(key, curve.label),
            "systems": [f"{asked.dataset}/{one}" for one in members[key]],
            "scales": [_scale(whole, one) for one in members[key]],
        }
        for key, curve in asked.curves.items()
    ]
    return {**found, "curves": curves, "between": asked.primary}


def robustness(plan: Context, name: str) -> dict[str, Any]:
    """The values of the job of a figure of robustness, and the jobs that it is made from (``jobs``)."""
    asked = plan.scale.tables.at(name, RobustnessFigure)
    whole = plan.scale.section_of(asked.dataset)
    for key in dict.fromkeys(one for pair in asked.primary for one in pair):
        if other_image(key) not in whole.systems:
            raise UserError(
                f"{plan.file}: tables.{name}.primary: {key} has no control on other images, above which its quality counts; give "
                f"{key} mismatched: true"
            )
    lengths = _lengths(whole.view(CaptionView(datasets=[asked.dataset], systems=asked.systems)))
    curves: list[dict[str, Any]] = [
        {
            **labelled(key, _label(whole.systems[key], lengths)),
            "kind": kind,
            "kind_label": LABELS[kind],
            "method": whole.systems[key].method,
            "backbone": whole.backbone_of(asked.dataset, key),
            "systems": [key, *(distorted(key, kind, strength) for strength in range(1, STRENGTHS + 1))],
            "control": other_image(key) if other_image(key) in whole.systems else None,
        }
        for kind in asked.kinds
        for key in asked.systems
    ]
    controls = [curve["control"] for curve in curves if curve["control"] is not None]
    systems = list(dict.fromkeys([*(key for curve in curves for key in curve["systems"]), *controls]))
    view = CaptionView(datasets=[asked.dataset], systems=systems, order=asked.order)
    found = _table(plan, whole.view(view), plan.scale.training.seeds)
    for curve in curves:
        curve["systems"] = [f"{asked.dataset}/{one}" for one in curve["systems"]]
        curve["control"] = curve["control"] and f"{asked.dataset}/{curve['control']}"
    return {**found, "curves": curves, "between": asked.primary, "claimed": asked.claimed_kinds}


def cost(plan: Context, name: str) -> dict[str, Any]:
    """The values of the job of the table of costs, and the jobs that it is made from (``jobs``). UserError for captions that
    the scale does not have."""
    asked = plan.scale.tables.at(name, CostTable)
    jobs: dict[str, Any] = {}
    modules: dict[str, None] = {}
    systems: dict[str, dict[str, Any]] = {}
    for run in plan.runs_of(asked):
        job = plan.pretrain(run)
        jobs |= {job.job: job, f"data/corpora/{job.corpus}": None, f"data/vocabularies/{job.vocabulary}": None}
        modules[parts.OBJECTIVES[job.method.objective]] = None
        row = systems.setdefault(
            run.system,
            {
                "key": run.system,
                **plan.labels(run),
                **{"pooling": "", "estimator": "training", "runs": [], "records": []},
            },
        )
        row["runs"].append(run.id)
        row["records"].append(job.job)
    written: list[dict[str, Any]] = []
    tables = {dataset: table for table in plan.scale.captioned().values() for dataset in table.datasets}
    for dataset in asked.datasets:
        if dataset not in tables:
            where, allowed = f"{plan.file}: tables.{name}.datasets", ", ".join(tables) or "there is none"
            raise UserError(f"{where}: {dataset} is not captioned; allowed: {allowed}")
        shown = tables[dataset]
        by_seed = [caption_jobs.of_seed(plan, dataset, seed) for seed in plan.scale.training.seeds]
        for key, system in shown.systems_of(dataset).items():
            made = [caption_jobs.captions(plan, found[key]) for found in by_seed if key in found]
            jobs |= {job.job: job for job in made}
            records = [job.job for job in made]
            if system.images == "own":
                row = _row(plan, shown, dataset, key, system, _lengths(shown), records, records)
                written.append({**row, "control": None, "note": ""})
    return {"jobs": jobs, "modules": list(modules), "systems": list(systems.values()), "written": written}


def _scale(whole: CaptionTable, system: str) -> float:
    write = whole.systems[system].write
    assert isinstance(write, Diffusing)  # the schema sees to it
    return write.guidance


def _examples(plan: Context, shown: CaptionTable, leave_out: list[str]) -> dict[str, Any]:
    jobs: dict[str, Any] = {}
    datasets, lengths = [], _lengths(shown)
    for name, dataset in shown.datasets.items():
        asked = caption_jobs.of_seed(plan, name, plan.scale.training.seeds[0])
        own = shown.systems_of(name)
        labels = {key: _label(system, lengths) for key, system in own.items()}
        labels |= {key: other.label for key, other in shown.coca_of(name).items()}
        systems = []
        for key, label in labels.items():
            job = caption_jobs.captions(plan, asked[key])
            jobs[job.job] = job
            reveals = key in own and own[key].write.kind != "beam"
            told = {"record": job.job, "system": key, "reveals": reveals, "pictured": key not in leave_out}
            systems.append({**labelled(key, label), **told})
        corpus = plan.corpus(dataset.corpus)
        jobs[corpus.job] = corpus
        place = {"corpus": corpus.job, "split": dataset.split}
        datasets.append({**labelled(name, dataset.label), **place, "systems": systems})
    return {"jobs": jobs, "datasets": datasets, "examples": shown.examples, "seed": shown.seed}


def _lengths(shown: CaptionTable) -> set[str]:
    """Those of all systems that are shown, by which a label says its own or not."""
    return {system.length for name in shown.datasets for system in shown.systems_of(name).values()}


def _label(system: CaptionSystem, lengths: set[str]) -> str:
    """With its length, unless all ``lengths`` are the same one."""
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
) -> dict[str, Any]:
    blind = system.images == "other"
    return {
        **_common(plan, shown, dataset, key, _label(system, lengths)),
        "runs": runs,
        "records": records,
        # the same captioner on other images, where the table shows it
        "control": f"{dataset}/{other_image(key)}" if other_image(key) in shown.systems_of(dataset) else None,
        "ranked": system.ranked and not blind,
        "reference": blind,
        "note": _note(plan, shown, system),
        "length": system.length,
        "decoding": system.decoding,
        "tuned": shown.datasets[dataset].tuned_as(system) or "",
        "weights": system.weights,
        "blind": blind,
    }


def _note(plan: Context, shown: CaptionTable, system: CaptionSystem) -> str:
    if system.guided:
        assert shown.guide is not None
        return f"Guided: a CLIP, {own_clip(plan, shown.guide)}, has a say in every piece."
    return _BLIND_NOTE if system.images == "other" else ""


def _common(plan: Context, shown: CaptionTable, dataset: str, key: str, label: str) -> dict[str, Any]:
    backbone = shown.backbone_of(dataset, key if key in shown.systems else None)
    return {
        "key": f"{dataset}/{key}",
        "system": key,
        "method": labelled(key, label),
        "corpus": labelled(dataset, shown.datasets[dataset].label),
        "backbone": labelled(backbone, plan.scale.training.backbones[backbone].label),
        "pooling": "",
        "estimator": "captions",
    }


def _clip(plan: Context, shown: CaptionTable) -> str:
    if shown.clip_score is None:
        return ""
    if isinstance(shown.clip_score, RunClip):
        return own_clip(plan, shown.clip_score)
    return shown.clip_score.label


def own_clip(plan: Context, clip: RunClip) -> str:
    """What a CLIP run of the scale is called."""
    backbone = f" on {plan.scale.training.backbones[clip.backbone].label}" if clip.backbone is not None else ""
    return (
        f"the scale's own {plan.params.methods[clip.method].label}{backbone}, seed {clip.of(plan.scale.training.seeds)}"
    )


def _judge(shown: CaptionTable) -> str:
    if shown.judge is None:
        return ""
    return shown.judge.by.model if isinstance(shown.judge.by, ByEndpoint) else "CLIPScore, which is no language model"
