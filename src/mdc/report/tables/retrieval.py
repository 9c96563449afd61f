"""The retrieval table: recall of captions by image and of images by caption, among held-out pairs."""

from pathlib import Path

from mdc.plan.jobs.shown import ArtefactJob
from mdc.report.manifests import Manifests
from mdc.report.scores import Retrieval
from mdc.report.tables import comparisons, score_rows

SHOWN = {
    "artefacts": {"table_retrieval": {"title": "Retrieval by score"}},
    "files": ".csv _long.csv _contrasts.csv _runs.csv .html .md .tex",
    "caption": "Recall at 1, 5 and 10 among held-out pairs at scale {scale}, in both directions, by every model's score.",
    "config": "score_tables.RetrievalTable",
    "plan": "score_plans.retrieval",
}


def make(job: ArtefactJob, manifests: Manifests, out: Path) -> None:
    """Write the table's files into ``out``; errors as of Table 2."""
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
