"""Probe accuracy over the samples that a run has seen: repeated pairs or fresh ones.

The corpora with the fewest pairs are one corpus seen several times, each run with a cosine of its own. Those with more pairs are
fresh: each pair is seen as often as in the shortest run. Both lines start at that run. The claims are differences between methods
at one number of samples.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from mdc.plan.config.probe_tables import MethodTable
from mdc.plan.config.references import Methods
from mdc.plan.jobs.shown import ArtefactJob

if TYPE_CHECKING:
    from mdc.plan.jobs.context import Context
    from mdc.report.frame import Number
    from mdc.report.manifests import Manifests

SHOWN = {
    "artefacts": {"figure_repetition": {"title": "Many passes over few pairs"}},
    "files": ".png .svg .pdf .csv _contrasts.csv _runs.csv",
    "caption": "Linear-probe accuracy at scale {scale} over the samples that a run has seen: the same pairs again and again, "
    "each number of passes a run of its own, or (dashed) fresh pairs; with intervals, and the differences between methods that "
    "the scale claims.",
    "config": "Block",
}


class Block(MethodTable):
    """Corpora of the same pairs repeated more often, and of more pairs; the numbers of samples seen are read from their runs."""

    corpora: Annotated[Methods, Field(min_length=2)]


def rows(plan: Context, name: str, block: Block) -> dict[str, Any]:
    """As every table of probes, and the logs of the runs, which say which of many passes overfitted."""
    from mdc.plan.jobs.probe_rows import probing

    values = probing(plan, name, block)
    logs = {job.job: job for job in map(plan.pretrain, plan.runs_of(block))}
    return {**values, "jobs": values["jobs"] | logs}


def make(job: ArtefactJob, manifests: Manifests, out: Path) -> None:
    """Write the figure, its numbers and comparisons into ``out``; errors as of Table 1.

    UserError besides if the runs of a corpus have seen different numbers of pairs or samples, or two corpora the same.
    """
    from mdc.report.figures.accuracy_panels import check_counts_differ, count_words, draw
    from mdc.report.frame import write_contrasts, write_levels
    from mdc.report.results import Results

    results = Results(job, manifests)
    pairs, samples = (
        {corpus: results.training_of_corpus(corpus, key, name) for corpus in results.corpora}
        for key, name in (("pairs", "pairs"), ("samples_seen", "samples"))
    )
    fewest = min(pairs.values())
    check_counts_differ(results, {c: (samples[c], pairs[c] > fewest) for c in pairs}, "samples")
    seen = {n.system.key: samples[n.system.corpus.key] for n in results.numbers if n.system.corpus}
    counts = [seen.get(n.system.key) for n in results.numbers]
    passes = [count and n.pairs and count / n.pairs for n, count in zip(results.numbers, counts, strict=True)]
    write_levels(out / "figure_repetition.csv", job, results.numbers, passes=passes, samples_seen=counts)
    write_contrasts(out / "figure_repetition_contrasts.csv", job, results.contrasts())
    repeated = sorted((n for n in results.numbers if n.pairs == fewest), key=lambda n: -seen[n.system.key])
    shortest = {n.method_key: n.system.key for n in repeated}

    def lines(number: Number) -> list[tuple[str, str]]:
        """A method's fresh pairs are a line of its own, which starts at its shortest run on the same pairs."""
        method, fresh = number.method_key, number.pairs != fewest
        return (
            [(method, "--")]
            if fresh
            else [(method, "-"), (method, "--")][: 1 + (shortest[method] == number.system.key)]
        )

    label = f"samples seen (×: passes over {count_words(fewest)} pairs)\nline: the same pairs, dashes: fresh pairs"
    draw(
        results,
        out,
        "Repeated pairs, or fresh ones:" if len({*pairs.values()}) > 1 else "Repeated pairs:",
        label,
        at=lambda n: seen[n.system.key],
        tick=lambda count: f"{count_words(int(count))}\n{times(count / fewest)}×",
        lines=lines,
        log=True,
    )


def times(passes: float) -> str:
    """A number of passes as configured: dropping each pass's last batch makes 4.99 of 5."""
    whole = round(passes)
    return str(whole) if abs(passes - whole) <= 0.02 * passes else f"{passes:.3g}"
