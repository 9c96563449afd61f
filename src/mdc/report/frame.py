"""The frame of results: the csv files of levels and of differences, one schema each for all tables and figures (docs/results.md).

A level (:class:`Number`) is one system on one column; a difference (:class:`Contrast`) is anything that is 0 where two
sides are alike. Both hold an :class:`Estimate`, whose cells are called the same everywhere."""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from mdc.plan.jobs.shown import ArtefactJob, PositionSystem, ScoredSystem, Statistics, System
from mdc.report.csv_file import names, write_csv
from mdc.report.statistics.claims import Claim, Decision, decide
from mdc.report.statistics.estimate import Estimate

AVERAGE = "Average"
POOLINGS = {"patch_mean": "mean of patches", "cls": "[CLS]"}

Cells = dict[str, Any]
#: what a difference is of: two systems (a ``gain`` is over a system's own control); a least-squares ``slope``; curves
#: at equal x; what is ``kept`` of a quality; the last third of a caption minus the first; the logarithm of a ``ratio``;
#: the mean over splits
Kind = Literal["difference", "gain", "slope", "curves", "kept", "fall", "ratio", "splits"]

#: ends of the names of files of differences
CLAIM_FILES = ("_contrasts.csv", "_over.csv")
#: the unit of a ratio, which is 0 where both sides are alike
LOG_RATIO = "log of a ratio"
ESTIMATE = names("value low high interval scope se se_seeds se_items df n groups seeds draws")
LEVELS = (
    *names("scale artefact system dataset backbone method pooling estimator column label metric unit"),
    *ESTIMATE,
    *names("chance shortcut ceiling gain gain_low gain_high control pairs steps published run records control_records"),
)
#: of these what the fields of a level, of a claim and of its decision hold
_OF_LEVEL = names("column label metric unit chance shortcut ceiling pairs steps published")
_OF_CLAIM = names("kind condition column label metric unit records")
_OF_DECISION = names("p p_holm direction margin p_size p_size_holm size detectable")
CLAIMS = (
    *names("scale artefact kind first second dataset second_dataset backbone second_backbone method second_method"),
    *names("condition column label metric unit"),
    *ESTIMATE,
    *("primary", *_OF_DECISION, "records"),
)


def job_cells(job: ArtefactJob) -> Cells:
    """What all lines of a table's or figure's files begin with."""
    return {"scale": job.scale, "artefact": job.artefact}


def system_cells(system: System) -> Cells:
    """What tells a system from others, and the records that its number is of."""
    return {
        "system": system.key,
        "dataset": dataset(system),
        "backbone": system.backbone.label,
        "method": system.method.label,
        "pooling": system.pooling,
        "estimator": system.estimator,
        "records": records_of(system),
    }


def estimate_cells(found: Estimate) -> Cells:
    """Of an estimate, with ``se_seeds`` and ``se_items`` as the two parts of its standard error."""
    parts = (None if part is None else math.sqrt(part.variance) for part in (found.of_seeds, found.of_items))
    cells = (found.value, found.low, found.high, found.kind.replace(" ", "_"), found.scope, found.se, *parts)
    return dict(zip(ESTIMATE, (*cells, found.df, found.n, found.groups, found.seeds, found.draws), strict=True))


@dataclass(frozen=True)
class Number:
    """A level of ``system`` on a ``column`` (its key; ``label``: as it is shown). ``pairs``, ``steps``: what it was
    trained on, and for how long. ``published``: the value that the paper prints, at scale ``paper`` alone."""

    system: System
    column: str
    label: str
    metric: str
    unit: str
    found: Estimate
    chance: float | None = None
    shortcut: float | None = None
    ceiling: float | None = None
    gain: Estimate | None = None
    control: System | None = None
    pairs: int | None = None
    steps: int | None = None
    published: float | None = None

    @property
    def value(self) -> float:
        return self.found.value

    @property
    def ends(self) -> tuple[float, float]:
        """The ends of its interval, as a figure draws them: the value itself where there is none."""
        return self.found.ends

    @property
    def dataset(self) -> str:
        """What its system was trained on."""
        return dataset(self.system)

    @property
    def method_key(self) -> str:
        """What gives a method its colour in every figure."""
        return self.system.method.key

    def cells(self) -> Cells:
        """Its line of the csv file."""
        system, gain = self.system, self.gain
        return {
            **{name: getattr(self, name) for name in _OF_LEVEL},
            **system_cells(system),
            **estimate_cells(self.found),
            "gain": gain and gain.value,
            "gain_low": gain and gain.low,
            "gain_high": gain and gain.high,
            "control": self.control and self.control.key,
            "run": " ".join(system.runs),
            "control_records": records_of(self.control) if self.control else None,
        }


@dataclass(frozen=True)
class Side:
    """One side of a difference: its key, and the labels that tell it from the other."""

    key: str
    dataset: str
    backbone: str
    method: str

    @classmethod
    def of(cls, system: System) -> Side:
        return cls(system.key, dataset(system), system.backbone.label, system.method.label)


@dataclass(frozen=True)
class Contrast:
    """``first`` minus ``second`` on a ``column``, under a ``condition`` where there are several. ``decision``: of a
    claim that was named beforehand. ``second`` is None where the first alone is held against 0."""

    kind: Kind
    first: Side
    second: Side | None
    column: str
    label: str
    metric: str
    unit: str
    found: Estimate
    records: str
    decision: Decision | None = None
    condition: str = ""

    @property
    def what(self) -> str:
        """Both sides, and what they have in common, as a page says it."""
        return what(self.cells())

    def cells(self) -> Cells:
        """Its line of the csv file."""
        cells = {name: getattr(self, name) for name in _OF_CLAIM} | estimate_cells(self.found)
        for side, key, prefix in ((self.first, "first", ""), (self.second, "second", "second_")):
            cells[key] = side and side.key
            cells |= {f"{prefix}{name}": side and getattr(side, name) for name in ("dataset", "backbone", "method")}
        decided = {name: self.decision and getattr(self.decision, name) for name in _OF_DECISION}
        return {**cells, "primary": self.decision is not None, **decided}


def decided(lines: Sequence[Contrast], claims: Sequence[Claim | None], how: Statistics) -> list[Contrast]:
    """``lines``, each with what was found of its claim if it has one; these claims are tested together."""
    found = iter(decide([one for one in claims if one is not None], how.level, how.power, how.order))
    pairs = zip(lines, claims, strict=True)
    return [line if one is None else replace(line, decision=next(found)) for line, one in pairs]


def what(claim: Mapping[str, Any]) -> str:
    """The sides of a difference, of which ``claim`` is the line of a csv file, and what they have in common: ``MDC −
    ARC, Dense``."""
    unlike = [key for key in ("dataset", "backbone") if claim["second"] and claim[key] != claim[f"second_{key}"]]
    sides = []
    for prefix in ("", "second_") if claim["second"] else ("",):
        where = ", ".join(claim[prefix + key] for key in unlike if claim[prefix + key])
        sides.append(f"{claim[f'{prefix}method']} ({where})" if where else claim[f"{prefix}method"])
    shared = claim["dataset"] if "dataset" not in unlike and claim["dataset"] not in ("", "none") else ""
    return ", ".join([" − ".join(sides), *([shared] if shared else [])])


def read_claims(folder: Path, files: Sequence[str]) -> list[dict[str, str]]:
    """The lines of what was claimed in those of the ``files`` of a table's or figure's ``folder`` that hold any, in
    their order."""
    found: list[dict[str, str]] = []
    for path in (folder / name for name in files if name.endswith(CLAIM_FILES)):
        if path.is_file():
            with path.open(encoding="utf-8", newline="") as file:
                found += [row for row in csv.DictReader(file) if row.get("primary") == "True"]
    return found


def dataset(system: System) -> str:
    """What a system was trained on."""
    return "none" if system.corpus is None else system.corpus.label


def records_of(*systems: System | PositionSystem) -> str:
    """The jobs whose results a line of a csv file was computed from."""
    # a language prior is subtracted with a weight that was chosen on held-out pairs
    chosen_on = [record for system in systems if isinstance(system, ScoredSystem) for record in system.held_out]
    return " ".join([*(record for system in systems for record in system.records), *chosen_on])


def write_levels(path: Path, job: ArtefactJob, numbers: Sequence[Number], **more: Sequence[Any]) -> None:
    """The csv file of ``numbers``, with the columns of ``more`` behind those of the schema."""
    write_csv(path, _rows(job, numbers, more), (*LEVELS, *more))


def write_contrasts(path: Path, job: ArtefactJob, contrasts: Sequence[Contrast], **more: Sequence[Any]) -> None:
    """The csv file of ``contrasts``: what was claimed first."""
    rows = sorted(_rows(job, contrasts, more), key=lambda row: not row["primary"])
    write_csv(path, rows, (*CLAIMS, *more))


def _rows(job: ArtefactJob, lines: Sequence[Number | Contrast], more: Mapping[str, Sequence[Any]]) -> list[Cells]:
    return [
        {**job_cells(job), **line.cells(), **{key: values[place] for key, values in more.items()}}
        for place, line in enumerate(lines)
    ]
