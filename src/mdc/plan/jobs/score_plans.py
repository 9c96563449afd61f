"""The plans of tables and figures that are made from scores: their inputs and rows."""

from collections.abc import Iterator
from functools import partial
from itertools import product
from typing import Any, Literal

from mdc.plan.config.choice_sources import mean_over
from mdc.plan.config.score_tables import ChoiceTable, OfScores, PositionFigure
from mdc.plan.estimators import ESTIMATORS
from mdc.plan.jobs import score_jobs
from mdc.plan.jobs.context import Context, compared
from mdc.plan.jobs.ids import Run
from mdc.plan.jobs.shown import Labelled, ShownColumn, System
from mdc.plan.records import UserError

#: the score of a row (:class:`mdc.plan.jobs.shown.System`) → the suffix of its method's label
SHOWN = {
    "own": "",
    "prior_subtracted": "own − α mismatched",
    "mismatched": "mismatched images",
    "mismatched_mean": "mean over mismatched images",
    "constant": "no image",
}
Weights = Literal["last", "best"] | None


def choices(plan: Context, name: str, table: ChoiceTable) -> dict[str, Any]:
    """The values of Table 2's job, and the jobs that it is made from (``jobs``)."""
    retrieval = plan.scale.tables.get("table_retrieval")
    sets = plan.scale.data.choices
    jobs: dict[str, Any] = {}
    rows: list[System] = []
    for weights, runs in product(table.weights, runs_of_rows(plan, table)):
        scores = [score_jobs.choices(plan, run, weights) for run in runs]
        held_out = [score_jobs.retrieval(plan, run, weights) for run in runs] if retrieval is not None else []
        jobs |= {job.job: job for job in (*scores, *held_out)}
        records, pairs = [job.job for job in scores], [job.job for job in held_out]
        for estimator in score_jobs.estimators(plan, runs[0]):
            rows += rows_of(plan, runs, estimator, weights, records, pairs)
    for name, model in table.open_clip.items():
        job = score_jobs.choices_open_clip(plan, name)
        jobs[job.job] = job
        rows += _open_clip_rows(plan, name, model.label, job.job)
    # a set with two columns counts once in the average
    apart = [key for key, column in table.columns.items() if column.score is not None or column.ties != "shared"]
    averaged = [key for key in table.columns if key not in apart]
    return {"jobs": jobs, **common_values(plan, table, [*rows, _shorter(rows[0])])} | {
        "columns": [
            ShownColumn(
                key=key,
                label=column.label,
                more={
                    **column.model_dump(exclude={"label"}, context="complete"),
                    **mean_over([sets[name].source for name in column.sets]).complete(),
                },
            )
            for key, column in table.columns.items()
        ],
        "reported_separately": apart,
        "primary_metric": "average" if len(averaged) > 1 else [*averaged, *apart][0],
        "language_prior_weights": table.language_prior_weights,
        "others": plan.scale.score.mismatched if plan.scale.score else 1,
        "sets": [{"key": name, "label": sets[name].label} for name in table.sets],
    }


def positions(plan: Context, name: str, figure: PositionFigure) -> dict[str, Any]:
    """The values of the position figure's job, and the jobs that it is made from (``jobs``)."""
    scale = plan.scale
    assert scale.score is not None
    for side in (figure.reference, *figure.primary):
        if plan.params.methods[side.rpartition("/")[2]].reverse:
            raise UserError(
                f"{plan.file}: tables.{name}: {side} reads from right to left, which is a control; nothing is claimed "
                "of it (reference, primary)"
            )
    for corpus in dict.fromkeys(side.rpartition("/")[0] for pair in figure.function_words for side in pair):
        if scale.data.corpora[scale.corpus_of(corpus)].source.kind != "scenes":
            raise UserError(
                f"{plan.file}: tables.{name}.function_words: the kinds of words of {corpus} are not known; those of a "
                "corpus of the built-in world are (source.kind: scenes)"
            )
    jobs: dict[str, Any] = {}
    systems: list[System] = []
    for corpus, methods in figure.corpora.items():
        for method in methods:
            entry = plan.params.methods[method]
            runs = [Run(corpus, figure.backbones[0], method, seed) for seed in scale.training.seeds]
            made = [score_jobs.positions(plan, run) for run in runs]
            jobs |= {job.job: job for job in made}
            systems.append(
                System(
                    key=f"{corpus}/{method}",
                    **plan.labels(runs[0]),
                    runs=[run.id for run in runs],
                    records=[job.job for job in made],
                    more={
                        "t_range": entry.masked_share and list(entry.masked_share),
                        "reverse": entry.reverse,
                    },
                )
            )
    return {
        "jobs": jobs,
        "systems": systems,
        "reference": figure.reference,
        "claimed": figure.primary,
        "function_words": [list(pair) for pair in figure.function_words],
        "seeds": scale.training.seeds,
        "bins": figure.bins,
        "margin": figure.margin,
        "statistics": plan.statistics(figure),
    }


def runs_of_rows(plan: Context, table: OfScores) -> list[list[Run]]:
    """The runs of each row, one per seed."""
    runs: dict[str, list[Run]] = {}
    for run in plan.runs_of(table):
        runs.setdefault(run.system, []).append(run)
    return list(runs.values())


def key_of(system: str, weights: str | None, estimator: str, per_token: bool, shown: str) -> str:
    return "/".join(filter(None, (system, weights, estimator, "mean" if per_token else "sum", shown)))


def _variants(own: System, held_out: bool) -> Iterator[System]:
    """Every row of a model's scores by one estimator, from its first: sums first, then per-token means."""
    definition = ESTIMATORS[own.estimator]
    left_out = {"prior_subtracted": not (held_out and definition.nats), "mismatched_mean": not definition.nats}
    for per_token, (shown, suffix) in product((False, True) if definition.nats else (False,), SHOWN.items()):
        if left_out.get(shown):
            continue
        key = partial(key_of, own.key, own.weights, own.estimator, per_token)
        ranked, label = shown in ("own", "prior_subtracted"), own.method.label
        role = own.role if shown == "own" else "grey" if ranked else "control"
        label += " · per-token mean" * per_token + (f" · {suffix}" if suffix else "")
        yield own.but(
            key=key(shown),
            method=own.method.but(label=label),
            control=key("mismatched") if ranked else None,
            role=role,
            more={**own.more, "per_token": per_token, "shown": shown},
        )


def rows_of(
    plan: Context, runs: list[Run], estimator: str, weights: Weights, records: list[str], held_out: list[str]
) -> list[System]:
    """The rows of a method's ``runs``, one run per seed."""
    method, definition = plan.params.methods[runs[0].method], ESTIMATORS[estimator]
    name = f"{method.label} ({definition.label})" if definition.label else method.label
    own = System(
        key=runs[0].system,
        **plan.labels(runs[0], name + " · best on held-out pairs" * (weights == "best")),
        runs=[run.id for run in runs],
        records=records,
        estimator=estimator,
        role="ranked" if method.ranked else "grey",
        weights=weights,
        more={"held_out": held_out},
    )
    return list(_variants(own, bool(held_out)))


def _open_clip_rows(plan: Context, name: str, label: str, record: str) -> list[System]:
    records = [record] * len(plan.scale.training.seeds)
    own = System(
        key=f"open_clip/{name}",
        corpus=Labelled(key="open_clip", label="data of others"),
        backbone=Labelled(key=name, label="open_clip"),
        method=Labelled(key=f"open_clip_{name}", label=label),
        runs=records,
        records=records,
        estimator="cosine",
        role="grey",
        more={"held_out": []},
        note="An external model (open_clip), trained on other data; it is shown for reference and not ranked.",
    )
    return list(_variants(own, held_out=False))


def _shorter(first: System) -> System:
    """The row in which the caption with fewer BPE tokens wins. It uses a record's captions, but no score."""
    none = Labelled(key="none", label="none")
    method = Labelled(key="shorter", label="fewer BPE tokens")
    labels = {"key": "shorter", "corpus": none, "backbone": none, "method": method}
    once = [first.records[0]] * len(first.records)
    more = {"held_out": [], "per_token": False, "shown": "shorter"}
    return first.but(**labels, records=once, control=None, role="reference", more=more)


def common_values(plan: Context, table: OfScores, rows: list[System]) -> dict[str, Any]:
    """The common values of these tables' jobs."""
    assert plan.scale.score is not None
    keys = {row.key for row in rows}
    first, weights = table.backbones[0], table.weights[0]

    def pair(sides: list[str]) -> list[str]:
        pair_keys = []
        for side in sides:
            corpus, method, estimator = side.split("/")
            pair_keys.append(key_of(f"{corpus}/{first}/{method}", weights, estimator, False, "own"))
        assert set(pair_keys) <= keys  # checked by the schema
        return pair_keys

    return {
        "systems": rows,
        **compared(list(map(pair, table.contrasts)), list(map(pair, table.primary))),
        "primary_metric": "average",
        "seeds": plan.scale.training.seeds,
        "samples": plan.scale.score.samples,
        "statistics": plan.statistics(table),
    }
