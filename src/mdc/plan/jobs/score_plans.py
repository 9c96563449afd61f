"""The plans of tables and figures that are made from scores: their inputs and rows."""

from collections.abc import Iterator
from functools import partial
from itertools import product
from typing import Any, Literal

from mdc.plan.config.score_tables import OfScores
from mdc.plan.estimators import ESTIMATORS
from mdc.plan.jobs.context import Context, compared
from mdc.plan.jobs.ids import Run
from mdc.plan.jobs.shown import System

#: the score of a row (:class:`mdc.plan.jobs.shown.System`) → the suffix of its method's label
SHOWN = {
    "own": "",
    "prior_subtracted": "own − α mismatched",
    "mismatched": "mismatched images",
    "mismatched_mean": "mean over mismatched images",
    "constant": "no image",
}
Weights = Literal["last", "best"] | None


def runs_of_rows(plan: Context, table: OfScores) -> list[list[Run]]:
    """The runs of each row, one per seed."""
    runs: dict[str, list[Run]] = {}
    for run in plan.runs_of(table):
        runs.setdefault(run.system, []).append(run)
    return list(runs.values())


def key_of(system: str, weights: str | None, estimator: str, per_token: bool, shown: str) -> str:
    return "/".join(filter(None, (system, weights, estimator, "mean" if per_token else "sum", shown)))


def variants(own: System, held_out: bool) -> Iterator[System]:
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
    return list(variants(own, bool(held_out)))


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
