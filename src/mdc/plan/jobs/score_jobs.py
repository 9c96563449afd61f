"""The jobs of scores: of choice sets, held-out pairs, classes, and by position; one per run and its weights."""

from collections.abc import Iterable
from typing import Any, get_args

from mdc.plan import parts
from mdc.plan.jobs import encoder_jobs
from mdc.plan.jobs.context import Context, J, once
from mdc.plan.jobs.ids import Run
from mdc.plan.jobs.model import ChoicesJob, PositionsJob, RetrievalJob, ZeroShotJob
from mdc.plan.verbs import VERBS


def _of_run(plan: Context, kind: type[J], run: Run, weights: str, inputs: Iterable[str] = (), **values: Any) -> J:
    trained = plan.pretrain(run)
    abilities = values.pop("abilities", ("score",))
    values.setdefault("scoring", plan.scale.score)
    (verb,) = get_args(kind.model_fields["verb"].annotation)
    return plan.make(
        kind,
        f"{VERBS[verb].layer}/{run.id}/{weights}",
        [
            *(trained.job, f"data/vocabularies/{trained.vocabulary}", f"data/corpora/{plan.corpus_of(run)}"),
            *encoder_jobs.behind(trained),
            *inputs,
        ],
        encoder_jobs.modules(plan, trained, *abilities),
        run=trained.job,
        run_config_sha256=trained.sha256,
        weights=weights,
        **values,
    )


def estimators(plan: Context, run: Run) -> list[str]:
    """The estimators of a run's method."""
    return list(plan.params.methods[run.method].estimators)


@once
def choices(plan: Context, run: Run, weights: str) -> ChoicesJob:
    """The job that scores all of Table 2's sets by one run."""
    table = plan.scale.tables["table2"]
    return _of_run(
        plan,
        ChoicesJob,
        run,
        weights,
        [f"data/choices/{name}" for name in table.sets],
        sets=table.sets,
        estimators=estimators(plan, run),
        context_length=plan.params.protocol.data.context_length,
        open_clip=None,
    )


def choices_open_clip(plan: Context, name: str) -> ChoicesJob:
    """The same by a model of open_clip."""
    table = plan.scale.tables["table2"]
    return plan.make(
        ChoicesJob,
        f"scores/open_clip/{name}",
        [f"data/choices/{choice_set}" for choice_set in table.sets],
        [parts.ABILITIES["score_open_clip"]],
        sets=table.sets,
        estimators=["cosine"],
        context_length=plan.params.protocol.data.context_length,
        run=None,
        run_config_sha256=None,
        weights=None,
        open_clip=table.open_clip[name].model_copy(update={"label": name}),
        scoring=plan.scale.score,
    )


@once
def retrieval(plan: Context, run: Run, weights: str) -> RetrievalJob:
    """The job that scores held-out pairs by one run."""
    table = plan.scale.tables["table_retrieval"]
    return _of_run(plan, RetrievalJob, run, weights, pairs=table.pairs, estimators=estimators(plan, run))


@once
def zero_shot(plan: Context, run: Run, weights: str) -> ZeroShotJob:
    """The job of zero-shot classification of all of its table's probes by one run."""
    table, score = plan.scale.tables["table_zero_shot"], plan.scale.score
    assert score is not None
    return _of_run(
        plan,
        ZeroShotJob,
        run,
        weights,
        [f"data/probes/{name}" for name in table.probes],
        estimators=estimators(plan, run),
        probes={name: plan.scale.data.probes[name].class_captions for name in table.probes},
        images=table.images,
        scoring=score.model_copy(update={"samples": table.samples or score.samples}),
    )


@once
def positions(plan: Context, run: Run) -> PositionsJob:
    """The job of the image's information about each token, by one run's last weights."""
    figure = plan.scale.tables["figure_position"]
    return _of_run(
        plan,
        PositionsJob,
        run,
        "last",
        abilities=("score", "positions"),
        captions=figure.captions,
        gradient_captions=figure.gradient_captions,
        gradient_draws=figure.gradient_draws,
    )
