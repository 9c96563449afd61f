"""The jobs of captioning: captions by each run that Table 3 shows, and what is measured of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from mdc.plan import parts
from mdc.plan.config.caption_table import FLOOR, CaptionedImages, CaptionTable, RunClip
from mdc.plan.config.judge import ByClipScore
from mdc.plan.jobs import encoder_jobs
from mdc.plan.jobs.context import Context, once
from mdc.plan.jobs.ids import Run
from mdc.plan.jobs.job import Job
from mdc.plan.jobs.model import CaptionMetricsJob, CaptionsJob, ClipRun, CocaModel, JudgeJob


@dataclass(frozen=True)
class Asked:
    """Captions of one dataset by one run under its ``weights`` (both None of the floor and of a model of others, whose key
    ``coca`` is), for the ``systems`` of the table."""

    dataset: str
    run: Run | None
    weights: str | None
    systems: tuple[str, ...]
    coca: str = ""


def asked(plan: Context) -> Iterator[Asked]:
    """By dataset the floor, then every run; systems that need the same run and weights are captioned by one job."""
    for table in plan.scale.captioned().values():
        for name in table.datasets:
            yield from _of_dataset(plan, table, name)


def _of_dataset(plan: Context, table: CaptionTable, name: str) -> Iterator[Asked]:
    dataset, seeds = table.datasets[name], plan.scale.training.seeds
    yield Asked(name, None, None, (FLOOR,))
    for key in table.coca_of(name):
        yield Asked(name, None, None, (key,), key)
    for seed in seeds:
        together: dict[tuple[Run, str], list[str]] = {}
        for key, system in table.systems_of(name).items():
            if system.first_seed and seed != seeds[0]:
                continue
            tuned = dataset.tuned_as(system) or ""
            run = Run(dataset.pretrained, table.backbone_of(name, key), system.method, seed, tuned)
            together.setdefault((run, system.weights), []).append(key)
        for (run, weights), systems in together.items():
            yield Asked(name, run, weights, tuple(systems))


def table_of(plan: Context, dataset: str) -> CaptionTable:
    """What captions a dataset, whose name no other has."""
    return next(table for table in plan.scale.captioned().values() if dataset in table.datasets)


def runs(plan: Context) -> list[Run]:
    """Every run that captions, one that is finetuned after what it goes on from."""
    found: dict[Run, None] = {}
    for one in asked(plan):
        if one.run is not None:
            found |= {one.run.pretrained: None, one.run: None}
    for table in plan.scale.captioned().values():
        for name in table.datasets:
            guided = any(system.guided for system in table.systems_of(name).values())
            clips = (table.clip_score, table.guide if guided else None)
            found |= dict.fromkeys(_clip_run(plan, table, c, name) for c in clips if isinstance(c, RunClip))
    return list(found)


def captioned(plan: Context) -> list[Job]:
    """Every job of captions, then those of metrics."""
    written: list[Job] = [captions(plan, one) for one in asked(plan)]
    datasets = [(table, name) for table in plan.scale.captioned().values() for name in table.datasets]
    shown = [(table, name, seed) for table, name in datasets for seed in plan.scale.training.seeds]
    measured: list[Job] = [metrics(plan, one) for one in asked(plan)]
    judged: list[Job] = [judge(plan, name, seed) for table, name, seed in shown if table.contests_of(name)]
    return list({job.job: job for job in [*written, *measured, *judged]}.values())


def of_seed(plan: Context, dataset: str, seed: int) -> dict[str, Asked]:
    """What captions each system of a dataset with one seed; the floor, which has no seed, stands beside every one."""
    return {
        system: one
        for one in asked(plan)
        if one.dataset == dataset and (one.run is None or one.run.seed == seed)
        for system in one.systems
    }


@once
def captions(plan: Context, one: Asked) -> CaptionsJob:
    """The captions that ``one`` asks for."""
    table, scale = table_of(plan, one.dataset), plan.scale
    assert scale.caption is not None  # the schema sees to it
    dataset = table.datasets[one.dataset]
    trained = plan.pretrain(one.run) if one.run is not None else None
    inputs, more = [f"data/corpora/{dataset.corpus}"], dict[str, Any]()
    modules, policies = list[str](), dict[str, Any]()
    coca: CocaModel | None = None
    if trained is not None:
        inputs += [trained.job, f"data/vocabularies/{trained.vocabulary}", *encoder_jobs.behind(trained)]
        modules = encoder_jobs.modules(plan, trained, "generate")
        systems = {key: system for key, system in table.systems_of(one.dataset).items() if key in one.systems}
        policies = {key: system.policy() for key, system in systems.items()}
        if table.guide is not None and any(system.guided for system in systems.values()):
            more["guide"], read, loaded = _clip(plan, table, table.guide, one.dataset)
            inputs, modules = inputs + read, modules + loaded
    elif one.coca:
        modules = [parts.OTHERS["coca"]]
        told = table.coca[one.coca].model_dump(include={"model", "weights", "beams", "most"}, context="complete")
        coca = CocaModel(system=one.coca, **told)
    else:
        inputs.append(f"data/corpora/{dataset.training}")
    return plan.make(
        CaptionsJob,
        f"captions/{_place(one)}",
        list(dict.fromkeys(inputs)),
        modules,
        **_images(dataset),
        run=trained.job if trained else None,
        run_config_sha256=trained.sha256 if trained else None,
        weights=one.weights,
        policies=policies,
        floor=None if trained or one.coca else {"system": FLOOR, "corpus": dataset.training},
        coca=coca,
        captioning=scale.caption,
        seed=table.seed,
        **more,
    )


@once
def metrics(plan: Context, one: Asked) -> CaptionMetricsJob:
    """What is measured of the captions of ``one``."""
    table, scale = table_of(plan, one.dataset), plan.scale
    assert scale.caption is not None
    dataset, written = table.datasets[one.dataset], captions(plan, one)
    inputs = [written.job, f"data/corpora/{dataset.corpus}", f"data/corpora/{dataset.training}"]
    modules: list[str] = []
    clip: dict[str, Any] = {"clip": None, "open_clip": None}
    if isinstance(table.clip_score, RunClip):
        clip["clip"], read, modules = _clip(plan, table, table.clip_score, one.dataset)
        inputs += read
    elif table.clip_score is not None:
        modules = [parts.ABILITIES["score_open_clip"]]
        clip["open_clip"] = table.clip_score
    return plan.make(
        CaptionMetricsJob,
        f"metrics/{_place(one)}",
        list(dict.fromkeys(inputs)),
        modules,
        captions={written.job: written.sha256},
        **_images(dataset),
        training=dataset.training,
        left_out=table.left_out,
        instances=dataset.instances,
        context_length=plan.params.protocol.data.context_length,
        captioning=scale.caption,
        **clip,
    )


@once
def judge(plan: Context, name: str, seed: int) -> JudgeJob:
    """All contests between captions of the dataset ``name`` with one seed."""
    table = table_of(plan, name)
    assert table.judge is not None
    dataset, asked = table.datasets[name], of_seed(plan, name, seed)
    contests = {key: contest.systems for key, contest in table.contests_of(name).items()}
    written = {one.job: one.sha256 for s in contests.values() for key in s for one in [captions(plan, asked[key])]}
    shown = dict.fromkeys(asked[key] for systems in contests.values() for key in systems)
    measured = [metrics(plan, one) for one in shown if isinstance(table.judge.by, ByClipScore)]
    return plan.make(
        JudgeJob,
        f"judged/{name}/s{seed}",
        [*written, f"data/corpora/{dataset.corpus}", *(job.job for job in measured)],
        seed=seed,
        captions=written,
        **_images(dataset),
        contests=contests,
        by=table.judge.by,
        metrics={job.job: job.sha256 for job in measured},
        order_seed=table.judge.seed,
    )


def _images(dataset: CaptionedImages) -> dict[str, Any]:
    return dataset.model_dump(include={"corpus", "split", "images"}, context="complete")


def _place(one: Asked) -> str:
    if one.run is not None:
        return f"{one.run.id}/{one.weights}/{one.dataset}"
    return f"coca/{one.coca}/{one.dataset}" if one.coca else f"floor/{one.dataset}"


def _clip(plan: Context, table: CaptionTable, clip: RunClip, dataset: str) -> tuple[ClipRun, list[str], list[str]]:
    """A CLIP run as a job asks for it, what is then read, and what is loaded by name."""
    trained = plan.pretrain(_clip_run(plan, table, clip, dataset))
    asked, read = ClipRun(run=trained.job, config_sha256=trained.sha256), [trained.job]
    return asked, [*read, f"data/vocabularies/{trained.vocabulary}"], encoder_jobs.modules(plan, trained, "score")


def _clip_run(plan: Context, table: CaptionTable, clip: RunClip, dataset: str) -> Run:
    return Run(table.datasets[dataset].pretrained, clip.on(table), clip.method, clip.of(plan.scale.training.seeds))
