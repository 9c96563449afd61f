"""The jobs of captioning: the captions of each run, their metrics, and the judge's choices."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from mdc.plan import parts
from mdc.plan.config.captions import MOST_FREQUENT, CaptionedImages, Captions, RunClip
from mdc.plan.config.decoding import Captioning
from mdc.plan.config.judge import ByClipScore
from mdc.plan.jobs import encoder_jobs
from mdc.plan.jobs.context import Context, once
from mdc.plan.jobs.ids import Run
from mdc.plan.jobs.model import CaptionMetricsJob, CaptionsJob, ClipRun, CocaModel, JudgeJob


@dataclass(frozen=True)
class Request:
    """Captions of one dataset by one run with its ``weights``, for these ``systems``. Without a run they are those of the
    most-frequent-caption baseline, or of the external model ``coca``."""

    dataset: str
    run: Run | None
    weights: str | None
    systems: tuple[str, ...]
    coca: str = ""


def requests(plan: Context, dataset: str) -> Iterator[Request]:
    """The baseline, external models, then every run; systems with the same run and weights are captioned by one job."""
    captions, seeds = captions_of(plan), plan.scale.training.seeds
    images = captions.datasets[dataset]
    yield Request(dataset, None, None, (MOST_FREQUENT,))
    for key in plan.scale.external(dataset):
        yield Request(dataset, None, None, (key,), key)
    for seed in seeds:
        together: dict[tuple[Run, str], list[str]] = {}
        for key, system in plan.scale.captioned[dataset].items():
            if system.first_seed and seed != seeds[0]:
                continue
            tuned = images.tuned_as(system) or ""
            run = Run(images.pretrained, captions.backbone_of(dataset, key), system.method, seed, tuned)
            together.setdefault((run, system.weights), []).append(key)
        for (run, weights), systems in together.items():
            yield Request(dataset, run, weights, tuple(systems))


def runs(plan: Context) -> list[Run]:
    """Every run that captions or guides or scores captions; a finetuned one comes after its pretrained one."""
    if not plan.scale.tables.needing("captions"):
        return []
    captions, runs_needed = captions_of(plan), dict[Run, None]()
    for dataset in plan.scale.captioned:
        for request in requests(plan, dataset):
            if request.run is not None:
                runs_needed |= {request.run.pretrained: None, request.run: None}
    for dataset, systems in plan.scale.captioned.items():
        guided = any(system.decode.is_guided for system in systems.values())
        clips = (captions.clip_score, captions.guide if guided else None)
        runs_needed |= dict.fromkeys(_clip_run(plan, c, dataset) for c in clips if isinstance(c, RunClip))
    return list(runs_needed)


def captions_of(plan: Context) -> Captions:
    """The section of captions, of a scale that shows some."""
    assert plan.scale.captions is not None  # checked by the schema
    return plan.scale.captions


def of_seed(plan: Context, dataset: str, seed: int) -> dict[str, Request]:
    """System → its request, for one dataset and seed; the baseline and external models have no seed and are always included."""
    return {
        system: request
        for request in requests(plan, dataset)
        if request.run is None or request.run.seed == seed
        for system in request.systems
    }


@once
def captions(plan: Context, request: Request) -> CaptionsJob:
    """The job of the captions of ``request``."""
    section = captions_of(plan)
    dataset = section.datasets[request.dataset]
    trained = plan.pretrain(request.run) if request.run is not None else None
    inputs, more = [f"data/corpora/{dataset.corpus}"], dict[str, Any]()
    modules, policies = list[str](), dict[str, Any]()
    coca: CocaModel | None = None
    if trained is not None:
        inputs += [trained.job, f"data/vocabularies/{trained.vocabulary}", *encoder_jobs.behind(trained)]
        modules = encoder_jobs.modules(plan, trained, "generate")
        systems = {key: section.systems[key] for key in request.systems}
        policies = {key: system.policy() for key, system in systems.items()}
        modules += [one.distortion.module for one in systems.values() if one.distortion is not None]
        modules += [name for one in systems.values() for name in one.decode.module_names]
        if section.guide is not None and any(system.decode.is_guided for system in systems.values()):
            more["guide"], read, loaded = _clip(plan, section.guide, request.dataset)
            inputs, modules = inputs + read, modules + loaded
    elif request.coca:
        modules = [parts.ABILITIES["score_open_clip"]]
        model_values = section.coca[request.coca].model_dump(
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
        captioning=_captioning(section),
        seed=section.seed,
        **more,
    )


@once
def metrics(plan: Context, request: Request) -> CaptionMetricsJob:
    """The job of the metrics of the captions of ``request``."""
    section, written = captions_of(plan), captions(plan, request)
    dataset = section.datasets[request.dataset]
    inputs = [written.job, f"data/corpora/{dataset.corpus}", f"data/corpora/{dataset.training}"]
    modules: list[str] = []
    clip: dict[str, Any] = {"clip": None, "open_clip": None}
    if isinstance(section.clip_score, RunClip):
        clip["clip"], read, modules = _clip(plan, section.clip_score, request.dataset)
        inputs += read
    elif section.clip_score is not None:
        modules = [parts.ABILITIES["score_open_clip"]]
        clip["open_clip"] = section.clip_score
    return plan.make(
        CaptionMetricsJob,
        f"metrics/{_place(request)}",
        list(dict.fromkeys(inputs)),
        modules,
        captions=written.job,
        captions_config_sha256=written.sha256,
        **_images(dataset),
        training=dataset.training,
        skip_metrics=dataset.skip_metrics,
        instances=dataset.instances,
        context_length=plan.params.protocol.data.context_length,
        captioning=_captioning(section),
        **clip,
    )


@once
def judge(plan: Context, name: str, seed: int) -> JudgeJob:
    """The job of all contests between captions of the dataset ``name`` with one seed."""
    section = captions_of(plan)
    assert section.judge is not None
    dataset, asked = section.datasets[name], of_seed(plan, name, seed)
    here = section.contests_of(plan.scale.captioned[name], plan.scale.external(name))
    contests = {key: contest.systems for key, contest in here.items()}
    shown = list(dict.fromkeys(asked[key] for systems in contests.values() for key in systems))
    written = {job.job: job.sha256 for job in (captions(plan, request) for request in shown)}
    measured = [metrics(plan, request) for request in shown if isinstance(section.judge.by, ByClipScore)]
    return plan.make(
        JudgeJob,
        f"judged/{name}/s{seed}",
        [*written, f"data/corpora/{dataset.corpus}", *(job.job for job in measured)],
        seed=seed,
        captions=written,
        **_images(dataset),
        contests=contests,
        by=section.judge.by,
        metrics={job.job: job.sha256 for job in measured},
        order_seed=section.judge.seed,
    )


def _captioning(section: Captions) -> Captioning:
    """How captions are computed, without what is captioned."""
    return Captioning(**{key: getattr(section, key) for key in Captioning.model_fields})


def _images(dataset: CaptionedImages) -> dict[str, Any]:
    return dataset.model_dump(include={"corpus", "split", "images"}, context="complete")


def _place(request: Request) -> str:
    if request.run is not None:
        return f"{request.run.id}/{request.weights}/{request.dataset}"
    return f"coca/{request.coca}/{request.dataset}" if request.coca else f"{MOST_FREQUENT}/{request.dataset}"


def _clip(plan: Context, clip: RunClip, dataset: str) -> tuple[ClipRun, list[str], list[str]]:
    """(a CLIP run as a job holds it, the inputs that it adds, the modules that it loads by name)."""
    trained = plan.pretrain(_clip_run(plan, clip, dataset))
    clip_run, read = ClipRun(run=trained.job, config_sha256=trained.sha256), [trained.job]
    return clip_run, [*read, f"data/vocabularies/{trained.vocabulary}"], encoder_jobs.modules(plan, trained, "score")


def _clip_run(plan: Context, clip: RunClip, dataset: str) -> Run:
    section = captions_of(plan)
    backbone = clip.backbone or section.backbone
    return Run(section.datasets[dataset].pretrained, backbone, clip.method, clip.of(plan.scale.training.seeds))
