"""The retrieval table: recall of captions by image and of images by caption, among held-out pairs."""

from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from mdc.plan.config.score_tables import OfScores
from mdc.plan.jobs.shown import ArtefactJob, ShownColumn, System

if TYPE_CHECKING:
    from mdc.plan.jobs.context import Context
    from mdc.report.manifests import Manifests

SHOWN = {
    "artefacts": {"table_retrieval": {"title": "Retrieval by score"}},
    "files": ".csv _long.csv _contrasts.csv _runs.csv .html .md .tex",
    "caption": "Recall at 1, 5 and 10 among held-out pairs at scale {scale}, in both directions, by every model's score.",
    "config": "Block",
}
_RECALL = (1, 5, 10)


class Block(OfScores):
    """Retrieval among ``pairs`` held-out pairs of each run's own corpus, by score."""

    pairs: Annotated[int, Field(ge=10)]


def rows(plan: "Context", name: str, block: Block) -> dict[str, Any]:
    """The values of the retrieval table's job, and the jobs that it is made from (``jobs``)."""
    from mdc.plan.jobs import score_jobs, score_plans

    jobs: dict[str, Any] = {}
    shown: list[System] = []
    for weights, runs in product(block.weights, score_plans.runs_of_rows(plan, block)):
        matrices = {job.job: job for job in (score_jobs.retrieval(plan, run, weights) for run in runs)}
        jobs |= matrices
        for estimator in score_jobs.estimators(plan, runs[0]):
            every = score_plans.rows_of(plan, runs, estimator, weights, list(matrices), list(matrices))
            # retrieval itself compares with mismatched images, so only these two have rows
            shown += [row.but(control=None) for row in every if row.more["shown"] in ("own", "prior_subtracted")]
    columns = [
        ShownColumn(key=f"{side}_{count}", label=f"{words} R@{count}")
        for side, words in (("text", "Image to text"), ("image", "Text to image"))
        for count in _RECALL
        if count < block.pairs
    ]
    table2 = plan.scale.tables.get("table2")
    alphas = table2.language_prior_weights if table2 else [0.0, 0.5, 1.0]
    return {
        "jobs": jobs,
        **score_plans.common_values(plan, block, shown),
        "columns": columns,
        "language_prior_weights": alphas,
        "pairs": block.pairs,
    }


def make(job: ArtefactJob, manifests: "Manifests", out: Path) -> None:
    """Write the table's files into ``out``; errors as of Table 2."""
    from mdc.report.scores import Retrieval
    from mdc.report.tables import comparisons, score_rows

    # no average: claims are about R@1 of captions
    results = Retrieval(job.model_copy(update={"primary_metric": "text_1"}), manifests, averages=False)
    names = {s.key: s.corpus.label if s.corpus else s.method.label for s in job.systems}
    too_long = {names[s.key]: f"{names[s.key]} {results.first(s)['too_long']}" for s in job.systems}
    body = [*comparisons.rows(results, job.systems, ""), *comparisons.levels(results)]
    main = comparisons.level_table(
        results,
        f"Retrieval by score among {job.more['pairs']} held-out pairs",
        (
            "Per cent of queries whose right answer is among the first 1, 5 or 10; equal captions are all right answers.",
            results.level_words,
        ),
        body,
        (
            "Best in bold, second best underlined (after rounding).",
            "Intervals are over queries, given this gallery.",
            score_rows.estimator_notes(job.more["samples"]),
            "own − α mismatched: the score of an image and a caption less α times the log of the caption's mean probability "
            f"under all images but this one. α is chosen on these very pairs, so these rows are optimistic; "
            f"{score_rows.alpha_notes(results)}.",
            f"Pairs passed over, since they are longer than the context: {', '.join(too_long.values())}.",
            *results.notes(),
        ),
    )
    score_rows.write(results, [main, *comparisons.tables(results)], out)
