"""The losses of every run of a scale: the numbers behind the figure, and the figure (:mod:`mdc.report.figures.loss_panels`).

A run's log holds clocks, so no hash of it can stand in a record; ``figure_loss.csv`` holds every loss of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from mdc.plan.jobs.shown import LossesJob
from mdc.plan.records import write_text
from mdc.report.figures.loss_panels import Curve, draw
from mdc.report.given import Given, run_log

SHOWN = {
    "artefacts": {"figure_loss": {"title": "Figure: losses"}},
    "files": ".png .svg .csv",
    "caption": "Training and held-out loss of every run at scale {scale}, in nats. Levels of different methods do not compare, "
    "since they are losses of different things.",
    "config": "tables.LossFigure",
    "plan": "artefact_plans.losses",
    "job": "shown.LossesJob",
}


def make(job: LossesJob, given: Given, out: Path) -> None:
    """Write the figure and its csv into ``out``; UserError if a run's manifest or log does not serve."""
    curves = [Curve.of(run, run_log(job, given, run.job).lines) for run in job.runs]
    write_text(out / "figure_loss.csv", csv_text(curves, job.scale))
    figures = [out / "figure_loss.png", out / "figure_loss.svg"]
    draw(curves, figures, title=f"Pretraining loss, scale {job.scale_label}")


def csv_text(curves: Sequence[Curve], scale: str) -> str:
    """One line a loss, under the labels of corpus, backbone and method; a loss has all its digits."""
    import pandas as pd  # here: it takes half a second to import

    rows = [
        (run.corpus.label, run.backbone.label, run.method.label, run.seed, split, step, loss, scale, run.job)
        for curve in curves
        for run in [curve.run]
        for split, series in (("train", curve.train), ("validation", curve.validation))
        for step, loss in series.items()
    ]
    columns = ["corpus", "backbone", "method", "seed", "split", "step", "loss", "scale", "records"]
    return str(pd.DataFrame(rows, columns=columns).to_csv(index=False, lineterminator="\n"))
