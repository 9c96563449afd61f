"""Table 1, linear probing: one row per system, one column per benchmark and their average, with the gain over the control."""

import itertools
from collections.abc import Iterable
from pathlib import Path

from mdc.plan.jobs.shown import ArtefactJob
from mdc.plan.records import write_json
from mdc.report import words
from mdc.report.figures.drawing import table1_dots
from mdc.report.frame import Number
from mdc.report.manifests import Manifests
from mdc.report.results import Results
from mdc.report.tables import comparisons
from mdc.report.tables.table import Table

SHOWN = {
    "artefacts": {"table1": {"title": "Table 1: linear probing"}},
    "files": ".csv _long.csv _contrasts.csv _runs.csv .html .md .tex figure_table1.png figure_table1.svg _metrics.json",
    "more": {"figure_table1.png": "Figure: accuracy beside the controls"},
    "caption": "Linear-probe accuracy (or mean average precision) at scale {scale}, in per cent, of every method and backbone "
    "with intervals, beside the same encoder before training: the gains over it, and the differences between methods and "
    "between corpora that the scale claims.",
    "config": "probe_tables.ProbeTable",
    "plan": "probe_rows.probing",
}

#: decimals of a headline number; far below any interval's width
DECIMALS = 2


def make(job: ArtefactJob, manifests: Manifests, out: Path) -> None:
    """Write the table's six files, its figure and its headline numbers into ``out``.

    UserError names the record that is missing, stale, of another scale, or does not match its items.
    """
    probing = Results(job, manifests)
    shown = [main_table(probing), *comparisons.gains(probing), *comparisons.tables(probing)]
    comparisons.write(probing, shown, out)
    seeds = f"{len(job.seeds)} seeds" if len(job.seeds) > 1 else "one seed, these checkpoints only"
    table1_dots(
        probing.numbers,
        [out / "figure_table1.png", out / "figure_table1.svg"],
        title=f"Linear probing, scale {job.scale_label}, {seeds}: accuracies, those of the controls hollow",
        label=f"per cent, {words.percent(job.statistics.level)} interval",
        named=words.method,
        declared=job.styles,
    )
    write_json(out / "table1_metrics.json", headline(probing.numbers, probing.name(probing.overall)))


def main_table(probing: Results) -> Table:
    """The levels, with the control and chance beside them."""
    blocks = itertools.groupby(probing.job.systems, key=lambda s: (s.backbone.key, s.corpus and s.corpus.key))
    rows = [row for _, block in blocks for row in comparisons.rows(probing, list(block))]
    return comparisons.level_table(
        probing,
        "Table 1. Linear probing",
        (f"Per cent on each benchmark's test items. {probing.level_words}",),
        [*rows, *comparisons.levels(probing)],
        (
            "Within a dataset and backbone: best in bold, second best underlined (after rounding).",
            *probing.notes(),
        ),
        "Linear probe",
    )


def headline(numbers: Iterable[Number], label: str) -> dict[str, dict[str, float]]:
    """The numbers of `dvc metrics`: for each system with a control its Average (or single probe) in per cent and its gain in
    points."""
    return {
        number.system.key: {"average": round(number.value, DECIMALS), "gain": round(number.gain.value, DECIMALS)}
        for number in numbers
        if number.label == label and number.gain is not None
    }
