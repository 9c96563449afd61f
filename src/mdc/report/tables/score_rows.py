"""What Table 2, the retrieval table and the zero-shot table share: notes and output files."""

from collections.abc import Sequence
from pathlib import Path

from mdc.plan.estimators import ESTIMATORS
from mdc.report.results import Results
from mdc.report.scores import Choices, Retrieval
from mdc.report.tables import comparisons
from mdc.report.tables.table import Row, Table


def estimator_notes(samples: int) -> str:
    """What every estimator is, by its name in the csv files."""
    drawn = f", by {samples} masks a caption"
    each = (f"{name.replace('_', ' ')}: {one.text}{drawn * one.sampled}" for name, one in ESTIMATORS.items())
    return f"Estimators (`estimator` in the csv files): {'; '.join(each)}."


def alpha_notes(results: Choices | Retrieval) -> str:
    """How α is chosen, and the α of each row of sums, one for each seed."""
    weights = ", ".join(f"{alpha:g}" for alpha in results.job.more["language_prior_weights"])
    chosen = [
        f"{system.method.label.partition(' · own')[0]} {' '.join(f'{alpha:g}' for alpha in results.alpha[system.key])}"
        for system in results.job.systems
        if system.more["shown"] == "prior_subtracted" and not system.more["per_token"]
    ]
    rule = (
        f"for each seed, estimator and unit (caption or token) it is the value of {weights} with the highest image-to-text R@1 "
        "on these pairs, of equal ones the smallest"
    )
    return f"{rule}: {'; '.join(chosen) or 'no row'}"


def write(results: Results, shown: Sequence[Table], out: Path) -> None:
    """Write the files of a table: all rows in the paper's layout and tidy, the comparisons, and the pages."""
    systems = results.job.systems
    labels = {s.key: (s.weights or "", "token" if s.more["per_token"] else "caption", s.more["shown"]) for s in systems}
    rows = zip(systems, comparisons.rows(results, systems), strict=True)
    everything = Table(
        title=shown[0].title,
        caption=(),
        labels=("Dataset", "Backbone", "Method", "Estimator", "Weights", "Per", "Shown"),
        columns=shown[0].columns,
        rows=tuple(Row((*row.labels, system.estimator, *labels[system.key]), row.cells) for system, row in rows),
    )
    more = {
        head: [labels[n.system.key][place] for n in results.numbers]
        for place, head in enumerate(("weights", "per", "shown"))
    }
    comparisons.write(results, shown, out, everything, **more)
