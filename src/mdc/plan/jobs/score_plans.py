"""The jobs of tables and figures that are made from scores: which records each is made from, and what its rows are."""

from __future__ import annotations

from typing import Any

from mdc.plan.config.choice_sources import mean_over
from mdc.plan.config.score_tables import ChoiceTable, PositionFigure, RetrievalTable, ZeroShotTable
from mdc.plan.estimators import ESTIMATORS
from mdc.plan.jobs import score_jobs
from mdc.plan.jobs.context import Context
from mdc.plan.jobs.ids import Run
from mdc.plan.parts import family_of
from mdc.plan.records import UserError

#: what a row is scored against or decided by → what its method is called then
SHOWN = {
    "own": "",
    "less_blind": "own − α other images",
    "mismatched": "other images",
    "mismatched_mean": "mean over other images",
    "constant": "no image",
}
_RECALL = (1, 5, 10)
Row = dict[str, Any]


def labelled(key: str, label: str) -> dict[str, str]:
    return {"key": key, "label": label}


def choices(plan: Context, name: str) -> dict[str, Any]:
    """The values of Table 2's job, and the jobs that it is made from (``jobs``)."""
    table = plan.scale.tables.at(name, ChoiceTable)
    retrieval = plan.scale.tables.the(RetrievalTable)
    sets = plan.scale.data.choices
    jobs: dict[str, Any] = {}
    rows: list[Row] = []
    for weights in table.weights:
        for runs in _systems(plan, table):
            scores = [score_jobs.choices(plan, run, weights) for run in runs]
            held_out = [score_jobs.retrieval(plan, run, weights) for run in runs] if retrieval is not None else []
            jobs |= {job.job: job for job in (*scores, *held_out)}
            for estimator in score_jobs.estimators(plan, runs[0]):
                told = {
                    "records": [job.job for job in scores],
                    "held_out": [job.job for job in held_out],
                    "weights": weights,
                }
                rows += _rows(plan, runs, estimator, told)
    for name, model in table.open_clip.items():
        job = score_jobs.choices_open_clip(plan, name)
        jobs[job.job] = job
        rows += _open_clip_rows(plan, name, model.label, job.job)
    return {"jobs": jobs, **_common(plan, table, [*rows, _shorter(plan, rows[0])])} | {
        "columns": [
            {"key": key, **column.complete(), **mean_over([sets[one].source for one in column.sets]).complete()}
            for key, column in table.columns.items()
        ],
        "reported_separately": [key for key, column in table.columns.items() if column.score is not None],
        "alphas": table.alphas,
        "others": plan.scale.score.mismatched if plan.scale.score else 1,
        "sets": [labelled(name, sets[name].label) for name in table.sets],
    }


def retrieval(plan: Context, name: str) -> dict[str, Any]:
    """The values of the retrieval table's job, and the jobs that it is made from (``jobs``)."""
    table = plan.scale.tables.at(name, RetrievalTable)
    jobs: dict[str, Any] = {}
    rows: list[Row] = []
    for weights in table.weights:
        for runs in _systems(plan, table):
            matrices = [score_jobs.retrieval(plan, run, weights) for run in runs]
            jobs |= {job.job: job for job in matrices}
            for estimator in score_jobs.estimators(plan, runs[0]):
                names = [job.job for job in matrices]
                told = {"records": names, "held_out": names, "weights": weights}
                # an image's captions against other images than its own are what retrieval is of; so only what is taken off
                rows += [row for row in _rows(plan, runs, estimator, told) if row["shown"] in ("own", "less_blind")]
    rows = [{**row, "control": None} for row in rows]
    columns = [
        labelled(f"{side}_{count}", f"{words} R@{count}")
        for side, words in (("text", "Image to text"), ("image", "Text to image"))
        for count in _RECALL
        if count < table.pairs
    ]
    table2 = plan.scale.tables.the(ChoiceTable)
    alphas = table2.alphas if table2 else [0.0, 0.5, 1.0]
    return {"jobs": jobs, **_common(plan, table, rows), "columns": columns, "alphas": alphas, "pairs": table.pairs}


def zero_shot(plan: Context, name: str) -> dict[str, Any]:
    """The values of the job of zero-shot classification's table, and the jobs that it is made from (``jobs``)."""
    table = plan.scale.tables.at(name, ZeroShotTable)
    jobs: dict[str, Any] = {}
    rows: list[Row] = []
    for weights in table.weights:
        for runs in _systems(plan, table):
            made = [score_jobs.zero_shot(plan, run, weights) for run in runs]
            jobs |= {job.job: job for job in made}
            told = {"records": [job.job for job in made], "held_out": [], "weights": weights}
            for estimator in score_jobs.estimators(plan, runs[0]):
                own = next(
                    row for row in _rows(plan, runs, estimator, told) if row["shown"] == "own" and not row["per_token"]
                )
                own |= {"control": None}
                rows.append(own)
                if ESTIMATORS[estimator].nats:
                    rows.append(
                        own
                        | {
                            "key": _key(runs[0].system, weights, estimator, False, "debiased"),
                            "method": labelled(own["method"]["key"], f"{own['method']['label']} · debiased"),
                            "shown": "debiased",
                        }
                    )
    columns = [labelled(key, plan.scale.data.probes[key].label) for key in table.probes]
    return {"jobs": jobs, **_common(plan, table, rows), "columns": columns} | (
        {"samples": table.samples} if table.samples else {}
    )


def positions(plan: Context, name: str) -> dict[str, Any]:
    """The values of the position figure's job, and the jobs that it is made from (``jobs``)."""
    figure, scale = plan.scale.tables.at(name, PositionFigure), plan.scale
    assert scale.score is not None
    for side in (figure.reference, *figure.primary):
        if plan.params.methods[side.rpartition("/")[2]].direction is not None:
            raise UserError(
                f"scales/{plan.params.scale}.yaml: tables.figure_position: {side} reads from right to left, which is a control; "
                "nothing is claimed of it (reference, primary)"
            )
    for corpus in dict.fromkeys(side.rpartition("/")[0] for pair in figure.function_words for side in pair):
        if scale.data.corpora[scale.corpus_of(corpus)].source.kind != "scenes":
            raise UserError(
                f"scales/{plan.params.scale}.yaml: tables.figure_position.function_words: the kinds of words of {corpus} are not "
                "known; those of a corpus of the built-in world are (source.kind: scenes)"
            )
    jobs: dict[str, Any] = {}
    systems: list[Row] = []
    for corpus, methods in figure.corpora.items():
        for method in methods:
            entry = plan.params.methods[method]
            runs = [Run(corpus, figure.backbones[0], method, seed) for seed in scale.training.seeds]
            made = [score_jobs.positions(plan, run) for run in runs]
            jobs |= {job.job: job for job in made}
            systems.append(
                {
                    "key": f"{corpus}/{method}",
                    "corpus": labelled(corpus, scale.label_of(corpus)),
                    "method": labelled(method, entry.label),
                    "t_range": entry.t_range if family_of(entry.objective) == "masked" else None,
                    "reverse": entry.direction is not None,
                    "records": [job.job for job in made],
                }
            )
    return {
        "jobs": jobs,
        "backbone": scale.training.backbones[figure.backbones[0]].label,
        "systems": systems,
        "reference": figure.reference,
        "primary": figure.primary,
        "function_words": [list(pair) for pair in figure.function_words],
        "seeds": scale.training.seeds,
        "bins": figure.bins,
        "margin": figure.margin,
        "samples": scale.score.samples,
        "others": scale.score.mismatched,
        "statistics": plan.statistics(figure),
    }


def _systems(plan: Context, table: ChoiceTable | RetrievalTable | ZeroShotTable) -> list[list[Run]]:
    """The runs of each row, one a seed."""
    found: dict[str, list[Run]] = {}
    for run in plan.runs_of(table):
        found.setdefault(run.system, []).append(run)
    return list(found.values())


def _key(system: str, weights: str | None, estimator: str, per_token: bool, shown: str) -> str:
    return "/".join(filter(None, (system, weights, estimator, "mean" if per_token else "sum", shown)))


def _rows(plan: Context, runs: list[Run], estimator: str, told: dict[str, Any]) -> list[Row]:
    """Every way in which a run's scores by one estimator stand in a table: sums first, then means a token."""
    run, scale = runs[0], plan.scale
    method, how = plan.params.methods[run.method], ESTIMATORS[estimator]
    name = f"{method.label} ({how.label})" if how.label else method.label
    name += " · best on held-out pairs" if told["weights"] == "best" else ""
    shown = [one for one in SHOWN if one != "less_blind" or (told["held_out"] and how.nats)]
    shown = shown if how.nats else [one for one in shown if one != "mismatched_mean"]
    found = []
    for per_token in (False, True) if how.nats else (False,):
        for one in shown:
            label = name + (" · mean a token" if per_token else "") + (f" · {SHOWN[one]}" if SHOWN[one] else "")
            found.append(
                {
                    **told,
                    "key": _key(run.system, told["weights"], estimator, per_token, one),
                    "corpus": labelled(run.corpus, scale.label_of(run.corpus)),
                    "backbone": labelled(run.backbone, scale.training.backbones[run.backbone].label),
                    "method": labelled(run.method, label),
                    "pooling": "",
                    "runs": [one.id for one in runs],
                    "estimator": estimator,
                    "control": _key(run.system, told["weights"], estimator, per_token, "mismatched")
                    if one in ("own", "less_blind")
                    else None,
                    "ranked": method.ranked and one == "own",
                    "reference": one not in ("own", "less_blind"),
                    "per_token": per_token,
                    "shown": one,
                }
            )
    return found


def _open_clip_rows(plan: Context, name: str, label: str, record: str) -> list[Row]:
    seeds = len(plan.scale.training.seeds)
    common = {
        "corpus": labelled("open_clip", "data of others"),
        "backbone": labelled(name, "open_clip"),
        "pooling": "",
        "runs": [record] * seeds,
        "records": [record] * seeds,
        "estimator": "cosine",
        "ranked": False,
        "weights": None,
        "per_token": False,
        "note": "A model of others (open_clip) was trained on other data; it stands here for orientation and is not ranked.",
    }
    return [
        {
            **common,
            "key": _key(f"open_clip/{name}", None, "cosine", False, one),
            "method": labelled(f"open_clip_{name}", label + (f" · {SHOWN[one]}" if SHOWN[one] else "")),
            "control": _key(f"open_clip/{name}", None, "cosine", False, "mismatched") if one == "own" else None,
            "reference": one != "own",
            "shown": one,
        }
        for one in ("own", "mismatched", "constant")
    ]


def _shorter(plan: Context, first: Row) -> Row:
    """The row in which the caption with fewer BPE tokens wins. It needs a record for the captions, but no score."""
    return {
        **first,
        "key": "shorter",
        "corpus": labelled("none", "none"),
        "backbone": labelled("none", "none"),
        "method": labelled("shorter", "fewer BPE tokens"),
        "held_out": [],
        "control": None,
        "ranked": False,
        "reference": True,
        "shown": "shorter",
    }


def _common(plan: Context, table: ChoiceTable | RetrievalTable | ZeroShotTable, rows: list[Row]) -> dict[str, Any]:
    """What these tables' jobs have."""
    assert plan.scale.score is not None
    keys = {row["key"] for row in rows}
    first, weights = table.backbones[0], table.weights[0]

    def pair(sides: list[str]) -> list[str]:
        found = []
        for side in sides:
            corpus, method, estimator = side.split("/")
            found.append(_key(f"{corpus}/{first}/{method}", weights, estimator, False, "own"))
        assert set(found) <= keys  # the schema sees to it
        return found

    primary = [pair(sides) for sides in table.primary]
    contrasts = [pair(sides) for sides in table.contrasts]
    return {
        "systems": rows,
        "contrasts": contrasts + [one for one in primary if one not in contrasts],
        "primary": primary,
        "primary_column": "average",
        "seeds": plan.scale.training.seeds,
        "samples": plan.scale.score.samples,
        "statistics": plan.statistics(table),
    }
