"""The tidy lines of a table or figure of probes, as its csv files hold them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

from mdc.plan.jobs.shown import PositionSystem, ScoredSystem, System
from mdc.report.tidy import csv_text

AVERAGE = "Average"
METRICS = {"top1": "top-1", "map": "mAP"}
POOLINGS = {"patch_mean": "mean of patches", "cls": "[CLS]"}


@dataclass(frozen=True)
class Number:
    """One line of ``tableN_long.csv``, of one ``system``, which is no column.

    Per cent; gains in points over the system's control; intervals at the level of the job. ``pairs``: of images and
    captions there really were to train on; ``steps`` that followed from them. ``records``: see :func:`records_of`;
    ``control_records``: those of the system that the gain is over.
    """

    system: System
    scale: str
    table: str
    dataset: str
    backbone: str
    method: str
    pooling: str
    seeds: str
    benchmark: str
    metric: str
    value: float
    low: float
    high: float
    interval: str
    n: int
    chance: float | None
    gain: float | None
    gain_low: float | None
    gain_high: float | None
    pairs: int | None
    steps: int | None
    run: str
    published: float | None
    estimator: str
    records: str
    control_records: str

    @property
    def method_key(self) -> str:
        """What gives a method its colour in every figure."""
        return self.system.method.key


@dataclass(frozen=True)
class Contrast:
    """One line of ``tableN_contrasts.csv``, in points, paired: ``method`` trained on ``dataset`` minus ``against`` trained
    on ``against_dataset`` ("none" if on no corpus).

    ``primary``: "true" of a claim that was named beforehand; of all others ``p`` to ``smallest_detectable`` are empty.
    """

    scale: str
    table: str
    dataset: str
    backbone: str
    method: str
    against: str
    against_dataset: str
    benchmark: str
    metric: str
    difference: float
    low: float
    high: float
    interval: str
    n: int
    seeds: str
    p: str
    p_holm: str
    verdict: str
    smallest_detectable: float | None
    primary: str
    records: str


def records_of(*systems: System | PositionSystem) -> str:
    """The jobs whose results a line of a csv file was computed from, as its column ``records`` names them."""
    # a language prior is subtracted with a weight that was chosen on held-out pairs
    chosen_on = [record for system in systems if isinstance(system, ScoredSystem) for record in system.held_out]
    return " ".join([*(record for system in systems for record in system.records), *chosen_on])


def tidy(lines: Sequence[Any], kind: type, **more: Sequence[Any]) -> str:
    """``lines`` as csv text, a column a field of ``kind`` but ``system``, and those of ``more`` behind them."""
    names = [field.name for field in fields(kind) if field.name != "system"]
    rows = [
        {name: getattr(line, name) for name in names} | {name: values[place] for name, values in more.items()}
        for place, line in enumerate(lines)
    ]
    return csv_text(rows, [*names, *more])
