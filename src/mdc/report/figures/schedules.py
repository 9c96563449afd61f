"""The figure of the noise schedules: how unsteady training is with each range of t, measured and drawn.

The paper leaves out small t because "loss is very unstable when pretrained on CC3M, where many captions are very short"
(its section on the noise schedule, Table 5). Here that is a number with an interval: see :mod:`mdc.report.statistics.steadiness`.

A run's log holds clocks, so no hash of it can stand in a record; ``figure_schedules_curves.csv`` holds every number that is
read from it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mdc.plan.jobs.shown import SchedulesJob, ShownRun
from mdc.plan.records import UserError, write_text
from mdc.report.csv_file import names, write_csv
from mdc.report.figures.schedule_lines import Line, Track, measure
from mdc.report.figures.schedule_panels import draw
from mdc.report.frame import ESTIMATE, LOG_RATIO, Contrast, Side, estimate_cells, write_contrasts
from mdc.report.given import Given, RunLog, run_log

SHOWN = {
    "artefacts": {"figure_schedules": {"title": "Figure: steadiness of the noise schedules"}},
    "files": ".png .svg .csv _contrasts.csv _curves.csv",
    "caption": "How steadily the runs of Table 5 train at scale {scale}: loss and gradient norm (before clipping) over steps, "
    "and how much each varies around its trend after warm-up, one noise schedule beside the other.",
    "config": "tables.ScheduleFigure",
    "plan": "artefact_plans.schedules",
    "job": "shown.SchedulesJob",
}


_LEVELS = (
    *names("scale artefact system dataset backbone method t_low t_high column logged_steps expected"),
    *(*ESTIMATE, "records"),
)


def make(job: SchedulesJob, given: Given, out: Path) -> None:
    """Write the figure, its numbers and the logged curves into ``out``.

    UserError if a run's manifest or log does not serve, or its runs cannot be compared (see :func:`measure`).
    """
    tracks = [track(run, run_log(job, given, run.job)) for run in job.runs]
    lines = measure(tracks, job)
    write_csv(out / "figure_schedules.csv", levels(lines, job), _LEVELS)
    write_contrasts(out / "figure_schedules_contrasts.csv", contrasts(lines, job))
    write_text(out / "figure_schedules_curves.csv", curves_text(tracks, job.scale))
    draw(tracks, lines, job, [out / "figure_schedules.png", out / "figure_schedules.svg"])


def track(run: ShownRun, log: RunLog) -> Track:
    """The losses and gradient norms of a log; UserError if a loss stands without its gradient norm."""
    lines = [line for line in log.lines if "loss" in line]
    for line in lines:
        if not isinstance(line.get("grad_norm"), int | float):
            raise UserError(f"{log.path}: step {line['step']} has no grad_norm; train the run again")
    return Track(
        run=run,
        steps=tuple(line["step"] for line in lines),
        loss=tuple(float(line["loss"]) for line in lines),
        norm=tuple(float(line["grad_norm"]) for line in lines),
        tokens=_tokens(log.config, lines),
        least_t=_least_t(log.config),
    )


def _tokens(config: Mapping[str, Any], lines: Sequence[Mapping[str, Any]]) -> float | None:
    """Supervised tokens of a middling batch, where the loss is equation 5 over all of them; otherwise None."""
    method = config.get("method")
    if not isinstance(method, dict) or (method.get("weight"), method.get("normaliser")) != (
        "inverse_t",
        "valid_tokens",
    ):
        return None
    counts = [count for line in lines if isinstance(count := line.get("tokens"), int | float) and count > 0]
    return float(np.median(counts)) if len(counts) == len(lines) else None


def _least_t(config: Mapping[str, Any]) -> float:
    try:
        return float(config["protocol"]["pretrain"]["least_t"])
    except (KeyError, TypeError, ValueError):
        raise UserError(f"run {config.get('job')}: its configuration names no least_t; train the run again") from None


def levels(lines: Sequence[Line], job: SchedulesJob) -> list[dict[str, Any]]:
    """The rows of ``figure_schedules.csv``: one for each number. ``expected``: from the draw of t and masks alone."""
    return [
        {
            **_named(line, job),
            "method": line.run.method.label,
            "t_low": line.run.t_range and line.run.t_range[0],
            "t_high": line.run.t_range and line.run.t_range[1],
            "column": line.statistic,
            "logged_steps": line.logged_steps,
            "expected": line.expected,
            **estimate_cells(line.value),
            "records": line.records,
        }
        for line in lines
    ]


def _named(line: Line, job: SchedulesJob) -> dict[str, Any]:
    told = {"scale": job.scale, "artefact": job.artefact, "system": line.key}
    return {**told, "dataset": line.run.corpus.label, "backbone": line.run.backbone.label}


def contrasts(lines: Sequence[Line], job: SchedulesJob) -> list[Contrast]:
    """The logarithms of ratios to the reference."""
    sides = {
        line.key: Side(line.key, line.run.corpus.label, line.run.backbone.label, line.run.method.label)
        for line in lines
    }
    return [
        Contrast(
            scale=job.scale,
            artefact=job.artefact,
            kind="ratio",
            first=sides[line.key],
            second=sides[line.key.rpartition("/")[0] + f"/{job.reference}"],
            column=line.statistic,
            label=line.statistic,
            metric=line.statistic,
            unit=LOG_RATIO,
            found=line.ratio,
            records=line.records,
            decision=line.decision,
        )
        for line in lines
        if line.ratio is not None
    ]


def curves_text(tracks: Sequence[Track], scale: str) -> str:
    """``figure_schedules_curves.csv``: one line for each logged step, run after run, the numbers as they were logged."""
    import pandas as pd

    rows = [
        (run.corpus.label, run.backbone.label, run.method.label, run.seed, step, loss, norm, scale, run.job)
        for one in tracks
        for run in [one.run]
        for step, loss, norm in zip(one.steps, one.loss, one.norm, strict=True)
    ]
    columns = ["dataset", "backbone", "method", "seed", "step", "loss", "grad_norm", "scale", "records"]
    return str(pd.DataFrame(rows, columns=columns).to_csv(index=False, lineterminator="\n"))
