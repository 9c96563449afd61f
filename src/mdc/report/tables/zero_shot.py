"""The table of zero-shot classification: an image's class is the one whose caption scores highest."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mdc.plan.jobs.shown import ArtefactJob
from mdc.report.manifests import Manifests
from mdc.report.tables import comparisons, score_rows
from mdc.report.zero_shot import ZeroShot

SHOWN = {
    "artefacts": {"table_zero_shot": {"title": "Zero-shot classification by caption score"}},
    "files": ".csv _long.csv _contrasts.csv _runs.csv .html .md .tex",
    "caption": "Top-1 at scale {scale}, in per cent, where an image's class is the one whose caption scores highest, by every "
    "model and estimator, also with what the caption's words alone say taken off.",
    "config": "score_tables.ZeroShotTable",
    "plan": "score_plans.zero_shot",
}


def make(job: ArtefactJob, manifests: Manifests, out: Path) -> None:
    """Write the table's files into ``out``; errors as of Table 2."""
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
