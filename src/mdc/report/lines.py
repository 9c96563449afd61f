"""What a table of probes is made of: encoders, the tidy lines of its numbers and of its contrasts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from mdc.report.tables.layout import csv_text

AVERAGE = "Average"
POOLINGS = {"patch_mean": "mean of patches", "cls": "[CLS]"}


@dataclass(frozen=True)
class Encoder:
    """One row: an encoder with all its seeds. ``corpus`` None: an untrained control."""

    corpus: str | None
    backbone: str
    method: str
    pooling: str
    seeds: tuple[int, ...]

    def ids(self) -> list[str]:
        """The encoders' ids, one a seed, as in the records."""
        if self.corpus is None:
            return [f"untrained/{self.backbone}/{self.pooling}/s{seed}" for seed in self.seeds]
        return [f"{self.corpus}/{self.backbone}/{self.method}/s{seed}" for seed in self.seeds]

    def control(self) -> Encoder:
        """Its own initial weights with its own pooling."""
        return Encoder(None, self.backbone, "untrained", self.pooling, self.seeds)


@dataclass(frozen=True)
class Number:
    """One line of ``tableN_long.csv``. Per cent; gains in points over the untrained control; 95 % intervals.

    ``pairs``: of images and captions there really were to train on; ``steps`` that followed from them.
    """

    scale: str
    table: str
    dataset: str
    backbone: str
    method: str
    method_key: str
    pooling: str
    seeds: str
    benchmark: str
    metric: str
    value: float
    low: float
    high: float
    interval: str
    n: int
    chance: float
    gain: float | None
    gain_low: float | None
    gain_high: float | None
    pairs: int | None
    steps: int | None
    run: str
    published: float | None


@dataclass(frozen=True)
class Contrast:
    """One line of ``tableN_contrasts.csv``, in points, paired: ``method`` trained on ``dataset`` minus ``against`` trained on
    ``against_dataset`` (none for an untrained encoder)."""

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
    p: float
    p_holm: float
    verdict: str
    smallest_detectable: float


def side(text: str) -> tuple[str, str]:
    """The corpus ("" for every one) and the method of one side of a named comparison, "mdc" or "dense/mdc"."""
    corpus, _, method = text.rpartition("/")
    return corpus, method


def tidy(lines: Sequence[Any], kind: type, leave_out: Sequence[str] = ()) -> str:
    columns = [field.name for field in fields(kind) if field.name not in leave_out]
    return csv_text([asdict(line) for line in lines], columns)
