"""The jobs of captioning: the captions of each run, their metrics, and the judge's choices."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from mdc.plan import parts
from mdc.plan.config.caption_table import MOST_FREQUENT, CaptionedImages, CaptionTable, RunClip
from mdc.plan.config.judge import ByClipScore
from mdc.plan.jobs import encoder_jobs
from mdc.plan.jobs.context import Context, once
from mdc.plan.jobs.ids import Run
from mdc.plan.jobs.model import CaptionMetricsJob, CaptionsJob, ClipRun, CocaModel, JudgeJob


@dataclass(frozen=True)
class Request:
    """Captions of one dataset by one run with its ``weights``, for the ``systems`` of the table. Without a run they are those of
    the most-frequent-caption baseline, or of the external model ``coca``."""

    dataset: str
    run: Run | None
    weights: str | None
    systems: tuple[str, ...]
    coca: str = ""


def requests(plan: Context) -> Iterator[Request]:
    """By dataset the baseline, then every run; systems with the same run and weights are captioned by one job."""
    for name, table in plan.scale.captioning().items():
        yield from _of_dataset(plan, table, name)


def _of_dataset(plan: Context, table: CaptionTable, name: str) -> Iterator[Request]:
    dataset, seeds = table.datasets[name], plan.scale.training.seeds
    yield Request(name, None, None, (MOST_FREQUENT,))
    for key in table.coca_of(name):
        yield Request(name, None, None, (key,), key)
    for seed in seeds:
        together: dict[tuple[Run, str], list[str]] = {}
        for key, system in table.systems_of(name).items():
            if system.first_seed and seed != seeds[0]:
                continue
            tuned = dataset.tuned_as(system) or ""
            run = Run(dataset.pretrained, table.backbone_of(name, key), system.method, seed, tuned)
            together.setdefault((run, system.weights), []).append(key)
        for (run, weights), systems in together.items():
            yield Request(name, run, weights, tuple(systems))


def runs(plan: Context) -> list[Run]:
    """Every run that captions or guides or scores captions; a finetuned one comes after its pretrained one."""
    runs_needed: dict[Run, None] = {}
    for request in requests(plan):
        if request.run is not None:
            runs_needed |= {request.run.pretrained: None, request.run: None}
    for name, table in plan.scale.captioning().items():
        guided = any(system.guided for system in table.systems_of(name).values())
        clips = (table.clip_score, table.guide if guided else None)
        runs_needed |= dict.fromkeys(_clip_run(plan, table, c, name) for c in clips if isinstance(c, RunClip))
    return list(runs_needed)


def of_seed(plan: Context, dataset: str, seed: int) -> dict[str, Request]:
    """System → its request, for one dataset and seed; the baseline and external models have no seed and are always included."""
    return {
        system: request
        for request in _of_dataset(plan, plan.scale.captioning()[dataset], dataset)
        if request.run is None or request.run.seed == seed
        for system in request.systems
    }


@once
def captions(plan: Context, request: Request) -> CaptionsJob:
    """The job of the captions of ``request``."""
    table, scale = plan.scale.captioning()[request.dataset], plan.scale
    assert scale.caption is not None  # checked by the schema
    dataset = table.datasets[request.dataset]
    trained = plan.pretrain(request.run) if request.run is not None else None
    inputs, more = [f"data/corpora/{dataset.corpus}"], dict[str, Any]()
    modules, policies = list[str](), dict[str, Any]()
    coca: CocaModel | None = None
    if trained is not None:
        inputs += [trained.job, f"data/vocabularies/{trained.vocabulary}", *encoder_jobs.behind(trained)]
        modules = encoder_jobs.modules(plan, trained, "generate")
        systems = {key: system for key, system in table.systems_of(request.dataset).items() if key in request.systems}
        policies = {key: system.policy() for key, system in systems.items()}
        if table.guide is not None and any(system.guided for system in systems.values()):
            more["guide"], read, loaded = _clip(plan, table, table.guide, request.dataset)
            inputs, modules = inputs + read, modules + loaded
    elif request.coca:
        modules = [parts.ABILITIES["score_open_clip"]]
        model_values = table.coca[request.coca].model_dump(
            include={"model", "weights", "num_beams", "max_tokens"}, context="complete"
        )
        coca = CocaModel(system=request.coca, **model_values)
    else:
        inputs.append(f"data/corpora/{dataset.training}")
    return plan.make(
        CaptionsJob,
        f"captions/{_place(request)}",
        list(dict.fromkeys(inputs)),
        modules,
        **_images(dataset),
        run=trained.job if trained else None,
        run_config_sha256=trained.sha256 if trained else None,
        weights=request.weights,
        policies=policies,
        most_frequent=None if trained or request.coca else {"system": MOST_FREQUENT, "corpus": dataset.training},
        coca=coca,
        captioning=scale.caption,
        seed=table.seed,
        **more,
    )


@once
def metrics(plan: Context, request: Request) -> CaptionMetricsJob:
    """The job of the metrics of the captions of ``request``."""
    table, scale = plan.scale.captioning()[request.dataset], plan.scale
    assert scale.caption is not None
    dataset, written = table.datasets[request.dataset], captions(plan, request)
    inputs = [written.job, f"data/corpora/{dataset.corpus}", f"data/corpora/{dataset.training}"]
    modules: list[str] = []
    clip: dict[str, Any] = {"clip": None, "open_clip": None}
    if isinstance(table.clip_score, RunClip):
        clip["clip"], read, modules = _clip(plan, table, table.clip_score, request.dataset)
        inputs += read
    elif table.clip_score is not None:
        modules = [parts.ABILITIES["score_open_clip"]]
        clip["open_clip"] = table.clip_score
    return plan.make(
        CaptionMetricsJob,
        f"metrics/{_place(request)}",
        list(dict.fromkeys(inputs)),
        modules,
        captions=written.job,
        captions_config_sha256=written.sha256,
        **_images(dataset),
        training=dataset.training,
        skip_metrics=table.skip_metrics,
        instances=dataset.instances,
        context_length=plan.params.protocol.data.context_length,
        captioning=scale.caption,
        **clip,
    )


@once
def judge(plan: Context, name: str, seed: int) -> JudgeJob:
    """The job of all contests between captions of the dataset ``name`` with one seed."""
    table = plan.scale.captioning()[name]
    assert table.judge is not None
    dataset, requests = table.datasets[name], of_seed(plan, name, seed)
    contests = {key: contest.systems for key, contest in table.contests_of(name).items()}
    shown = list(dict.fromkeys(requests[key] for systems in contests.values() for key in systems))
    written = {job.job: job.sha256 for job in (captions(plan, request) for request in shown)}
    measured = [metrics(plan, request) for request in shown if isinstance(table.judge.by, ByClipScore)]
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


def _place(request: Request) -> str:
    if request.run is not None:
        return f"{request.run.id}/{request.weights}/{request.dataset}"
    return f"coca/{request.coca}/{request.dataset}" if request.coca else f"{MOST_FREQUENT}/{request.dataset}"


def _clip(plan: Context, table: CaptionTable, clip: RunClip, dataset: str) -> tuple[ClipRun, list[str], list[str]]:
    """(a CLIP run as a job holds it, the inputs that it adds, the modules that it loads by name)."""
    trained = plan.pretrain(_clip_run(plan, table, clip, dataset))
    clip_run, read = ClipRun(run=trained.job, config_sha256=trained.sha256), [trained.job]
    return clip_run, [*read, f"data/vocabularies/{trained.vocabulary}"], encoder_jobs.modules(plan, trained, "score")


def _clip_run(plan: Context, table: CaptionTable, clip: RunClip, dataset: str) -> Run:
    return Run(table.datasets[dataset].pretrained, clip.on(table), clip.method, clip.of(plan.scale.training.seeds))
