"""The table of zero-shot classification: an image's class is the one whose caption scores highest."""

from collections.abc import Mapping
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from mdc.plan.config.references import ProbeNames
from mdc.plan.config.score_tables import OfScores
from mdc.plan.estimators import ESTIMATORS
from mdc.plan.jobs.shown import ArtefactJob, ShownColumn, System

if TYPE_CHECKING:
    from mdc.plan.jobs.context import Context
    from mdc.report.manifests import Manifests

SHOWN = {
    "artefacts": {"table_zero_shot": {"title": "Zero-shot classification by caption score"}},
    "files": ".csv _long.csv _contrasts.csv _runs.csv .html .md .tex",
    "caption": "Top-1 at scale {scale}, in per cent, where an image's class is the one whose caption scores highest, by every "
    "model and estimator, also with what the caption's words alone say taken off.",
    "config": "Block",
}


class Block(OfScores):
    """Zero-shot classification of single-label ``probes`` by the score of each class's caption (``class_captions``).

    ``images``: number of random test images of each probe; by default all. ``samples``: masks of the Monte Carlo estimators, by
    default as in the section ``score``.
    """

    probes: ProbeNames
    images: Annotated[int, Field(ge=10)] | None = None
    samples: Annotated[int, Field(ge=16, le=2**20, multiple_of=16)] | None = None


def rows(plan: "Context", name: str, block: Block) -> dict[str, Any]:
    """The values of the job of zero-shot classification's table, and the jobs that it is made from (``jobs``)."""
    from mdc.plan.jobs import score_jobs, score_plans

    jobs: dict[str, Any] = {}
    shown: list[System] = []
    for weights, runs in product(block.weights, score_plans.runs_of_rows(plan, block)):
        made = {job.job: job for job in (score_jobs.zero_shot(plan, run, weights) for run in runs)}
        jobs |= made
        for estimator in score_jobs.estimators(plan, runs[0]):
            # the sum, against its own image
            own = score_plans.rows_of(plan, runs, estimator, weights, list(made), [])[0].but(control=None)
            shown.append(own)
            if ESTIMATORS[estimator].nats:
                key = score_plans.key_of(runs[0].system, weights, estimator, False, "debiased")
                method = own.method.but(label=f"{own.method.label} · debiased")
                shown.append(own.but(key=key, method=method, more={**own.more, "shown": "debiased"}))
    columns = [ShownColumn(key=key, label=plan.scale.data.probes[key].label) for key in block.probes]
    return {"jobs": jobs, **score_plans.common_values(plan, block, shown), "columns": columns} | (
        {"samples": block.samples} if block.samples else {}
    )


def make(job: ArtefactJob, manifests: "Manifests", out: Path) -> None:
    """Write the table's files into ``out``; errors as of Table 2."""
    from mdc.extensions.neighbours.tables.zero_shot_numbers import ZeroShot
    from mdc.report.tables import comparisons, score_rows

    results = ZeroShot(job, manifests)
    record = results.first(job.systems[0])
    captions = "; ".join(f"{label} {_caption_text(record['probes'][key])}" for key, label in results.columns.items())
    main = comparisons.level_table(
        results,
        "Zero-shot classification by caption score",
        ("Top-1 in per cent: the class whose caption scores highest; a tie among k counts 1/k.", results.level_words),
        [*comparisons.rows(results, job.systems, ""), *comparisons.levels(results)],
        (
            "Best in bold, second best underlined (after rounding).",
            score_rows.estimator_notes(job.more["samples"]),
            f"debiased: a score less the log of the caption's mean probability under {record['prior_images']} training images "
            "(all, where there are fewer).",
            f"Captions, of the first class: {captions}. Of several templates cosines are averaged as embeddings, log "
            "probabilities as they are.",
            "Most frequent class: what naming it for every image would score.",
            *results.notes(),
        ),
    )
    score_rows.write(results, [main, *comparisons.tables(results)], out)


def _caption_text(probe: Mapping[str, Any]) -> str:
    more = len(probe["templates"])
    return f"“{probe['first']}”" + (f" and {more - 1} more" if more > 1 else "")
