"""Probe accuracy after shares of a training's steps: how fast methods converge.

The paper says that parallel decoding converges slowly. A snapshot's learning rate is still high, where a shorter run would have
ended its schedule: its accuracy is below that of such a run. Methods are comparable at equal shares only.
"""

from pathlib import Path

from mdc.plan.jobs.shown import ArtefactJob
from mdc.report.figures.accuracy_panels import draw
from mdc.report.frame import write_contrasts, write_levels
from mdc.report.manifests import Manifests
from mdc.report.results import Results

SHOWN = {
    "artefacts": {"figure_convergence": {"title": "Convergence"}},
    "files": ".png .svg .pdf .csv _contrasts.csv _runs.csv",
    "caption": "Linear-probe accuracy at scale {scale} of snapshots of each run, after shares of its steps, with intervals, and "
    "the differences between methods that the scale claims. A snapshot's learning rate is still high, so it is not what a "
    "shorter run would be.",
    "config": "probe_tables.ConvergenceFigure",
    "plan": "artefact_plans.convergence",
}


def make(job: ArtefactJob, manifests: Manifests, out: Path) -> None:
    """Write the figure, its numbers and its comparisons into ``out``; errors as of Table 1."""
    results = Results(job, manifests)
    shares = [job.more["shares"].get(number.system.key) for number in results.numbers]
    seen = [results.training(number.system, "samples_seen") for number in results.numbers]
    write_levels(out / "figure_convergence.csv", job, results.numbers, share=shares, samples_seen=seen)
    write_contrasts(out / "figure_convergence_contrasts.csv", job, results.contrasts())
    label = "share of the steps done (%)"
    draw(results, out, "Convergence:", label, lambda n: 100 * job.more["shares"][n.system.key], by_corpus=True)
