"""Probe accuracy after shares of a training's steps: how fast methods converge.

The paper says that parallel decoding converges slowly. A snapshot's learning rate is still high, where a shorter run would have
ended its schedule: its accuracy is below that of such a run. Methods are comparable at equal shares only.
"""

import itertools
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mdc.plan.jobs.shown import ConvergenceJob
from mdc.report.figures.accuracy_panels import NARROW, WIDTH, AccuracyPanels, count_words
from mdc.report.figures.drawing import Axes, drawing
from mdc.report.frame import Number, write_contrasts, write_levels
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
    "job": "shown.ConvergenceJob",
}

_APART = 1.6  # per cent of the steps: from a method's marker to the next one's


def make(job: ConvergenceJob, manifests: Manifests, out: Path) -> None:
    """Write the figure, its numbers and its comparisons into ``out``; errors as of Table 1."""
    results = Results(job, manifests)
    more: dict[str, list[Any]] = {
        "share": [job.shares.get(n.system.key) for n in results.numbers],
        "samples_seen": [results.training(n.system, "samples_seen") for n in results.numbers],
    }
    write_levels(out / "figure_convergence.csv", job, results.numbers, **more)
    write_contrasts(out / "figure_convergence_contrasts.csv", job, results.contrasts())
    draw(results, job.shares, [out / f"figure_convergence.{ending}" for ending in ("png", "svg", "pdf")])


def draw(results: Results, shares: Mapping[str, float], paths: Sequence[Path]) -> None:
    """A panel for each measure and corpus, a row for each measure if there are several corpora: accuracy over the share of
    steps."""
    shown, corpora = AccuracyPanels(results), list(results.corpora.items())
    shown.methods = {n.method_key: n.system.method.label for n in shown.trained if shares[n.system.key] == 1}
    across = len(corpora) if len(corpora) > 1 else min(2, len(results.measures))
    places = list(itertools.product(results.measures, corpora))
    rows, ticks = math.ceil(len(places) / across), sorted({100 * share for share in shares.values()})
    with drawing(WIDTH if across > 1 else NARROW, 2.4 * rows + 1.6, paths) as figure:
        axes = figure.subplots(rows, across, squeeze=False, sharey="row" if len(corpora) > 1 else "none").ravel()
        for panel, (measure, (corpus, label)) in zip(axes, places, strict=False):
            here = shown.axis(panel, results.name(measure), first=(corpus, label) == corpora[0])
            _lines(panel, shown, [n for n in here if n.system.corpus and n.system.corpus.key == corpus], shares)
            if measure == results.measures[0] and len(corpora) > 1:
                panel.set_title(label)
            panel.set_xlim(0, 100 + 3 * _APART)
            panel.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
            panel.set_xlabel("share of the steps done (%)")
        for panel in axes[len(places) :]:
            panel.set_visible(False)
        last = {results.training(n.system, "steps") for n in shown.trained if shares[n.system.key] == 1}
        note = f" All steps: {' or '.join(count_words(n) for n in sorted(filter(None, last)))}."
        title = "Convergence:" if len(corpora) > 1 else f"Convergence on {corpora[0][1]}:"
        shown.finish(figure, title, shown.handles(1.3), "Bars:", note)


def _lines(panel: Axes, shown: AccuracyPanels, numbers: Sequence[Number], shares: Mapping[str, float]) -> None:
    methods = list(dict.fromkeys(n.method_key for n in numbers))
    for place, method in enumerate(methods):
        line = sorted((n for n in numbers if n.method_key == method), key=lambda n: shares[n.system.key])
        off = (place - (len(methods) - 1) / 2) * _APART
        at = [100 * shares[n.system.key] + off for n in line]
        panel.plot(at, [n.value for n in line], color=shown.styles[method][0], linewidth=1.3, zorder=2)
        for x, number in zip(at, line, strict=True):
            shown.point(panel, x, number)
