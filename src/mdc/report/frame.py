"""The csv files of levels and of differences: one schema each for all tables and figures (docs/results.md).

A level (:class:`Number`) is the result of one system on one column. A difference (:class:`Contrast`) is 0 where its two sides are
equal. Both hold an :class:`Estimate`, whose cells have the same names everywhere."""

import csv
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import cycle
from pathlib import Path
from typing import Any, Literal

from mdc.plan.jobs.shown import ArtefactJob, Statistics, System
from mdc.plan.outputs import checked
from mdc.plan.records import UserError
from mdc.report.csv_file import names, write_csv
from mdc.report.statistics.claims import Claim, Decision, decide
from mdc.report.statistics.estimate import NOT_COMPARED, Estimate

AVERAGE = "Average"
POOLINGS = {"patch_mean": "mean of patches", "cls": "[CLS]"}

Cells = dict[str, Any]
#: what is compared: two systems (``gain``: a system and its own control); a least-squares ``slope`` and 0; two curves at equal x;
#: the share of quality ``kept``; the last third of a caption and the first; two systems over splits
Kind = Literal["difference", "gain", "slope", "curves", "kept", "fall", "splits"]

#: kinds whose sides are systems; in others a side is a curve, a trend, or a system on several datasets
OF_SYSTEMS = ("difference", "gain", "fall")
#: suffixes of the files of differences
CLAIM_FILES = ("_contrasts.csv", "_over.csv")
ESTIMATE = names("value low high interval scope se se_seeds se_items df n groups seeds draws")
LEVELS = (
    *names("scale artefact system dataset backbone method pooling estimator column label metric unit"),
    *ESTIMATE,
    *names("chance shortcut ceiling gain gain_low gain_high control pairs steps published"),
)
#: those that are fields of a level, of a difference and of its decision
_OF_LEVEL = names("column label metric unit chance shortcut ceiling pairs steps published")
_OF_CLAIM = names("kind condition column label metric unit")
_OF_DECISION = names("p p_holm direction margin p_size p_size_holm size detectable")
CLAIMS = (
    *names("scale artefact kind first second dataset second_dataset backbone second_backbone method second_method"),
    *names("condition column label metric unit"),
    *ESTIMATE,
    *("primary", "predicted", *_OF_DECISION, "seen", "rates"),
)
#: of ``NAME_runs.csv``
RUNS = names("scale artefact system role seed run record")


def job_cells(job: ArtefactJob) -> Cells:
    """The first cells of every line of a table's or figure's files."""
    return {"scale": job.scale, "artefact": job.artefact}


def system_cells(system: System) -> Cells:
    """The key and the labels of a system."""
    return {
        "system": system.key,
        "dataset": dataset(system),
        "backbone": system.backbone.label,
        "method": system.method.label,
        "pooling": system.pooling,
        "estimator": system.estimator,
    }


def estimate_cells(estimate: Estimate) -> Cells:
    """The cells of an estimate; ``se_seeds``, ``se_items``: the two parts of its standard error."""
    if estimate is NOT_COMPARED:
        return dict.fromkeys(ESTIMATE)
    parts = {"se_seeds": estimate.of_seeds, "se_items": estimate.of_items}
    cells: Cells = {name: part and math.sqrt(part.variance) for name, part in parts.items()}
    cells["value"] = round(estimate.value, 12)  # equal sums may differ in the last bits
    cells["interval"] = None if estimate.low is None else estimate.kind.replace(" ", "_")
    return {name: cells[name] if name in cells else getattr(estimate, name) for name in ESTIMATE}


@dataclass(frozen=True)
class Number:
    """A level of ``system`` on a ``column`` (its key; ``label``: as shown). ``pairs``, ``steps``: of its training.
    ``published``: the value printed in the paper, at scale ``paper`` only."""

    system: System
    column: str
    label: str
    metric: str
    unit: str
    estimate: Estimate
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
        return self.estimate.value

    @property
    def ends(self) -> tuple[float, float]:
        """The ends of its interval; the value itself where there is none."""
        return self.estimate.ends

    @property
    def dataset(self) -> str:
        """The label of its system's corpus."""
        return dataset(self.system)

    @property
    def method_key(self) -> str:
        """The key that decides a method's colour in every figure."""
        return self.system.method.key

    def cells(self) -> Cells:
        """Its line of the csv file."""
        system, gain = self.system, self.gain
        return {
            **{name: getattr(self, name) for name in _OF_LEVEL},
            **system_cells(system),
            **estimate_cells(self.estimate),
            "gain": gain and gain.value,
            "gain_low": gain and gain.low,
            "gain_high": gain and gain.high,
            "control": self.control and self.control.key,
        }


@dataclass(frozen=True)
class Side:
    """One side of a difference: its key and labels. ``trained``: its method's key and learning rate, if it was trained."""

    key: str
    dataset: str
    backbone: str
    method: str
    trained: tuple[str, float | Literal["selected"]] | None = None

    @classmethod
    def of(cls, system: System) -> "Side":
        trained = None if system.lr is None else (system.method.key, system.lr)
        return cls(system.key, dataset(system), system.backbone.label, system.method.label, trained)


@dataclass(frozen=True)
class Contrast:
    """``first`` minus ``second`` on a ``column``, under a ``condition`` where there are several. ``second`` is None where the
    first is compared with 0. ``decision``: of a claim that was named beforehand, which ``predicted`` that the first is higher, or
    lower. ``seen``: the test images that a side was trained on (:func:`mdc.report.seen.mark`)."""

    kind: Kind
    first: Side
    second: Side | None
    column: str
    label: str
    metric: str
    unit: str
    estimate: Estimate
    decision: Decision | None = None
    predicted: Literal["higher", "lower"] = "higher"
    condition: str = ""
    seen: str = ""

    @property
    def name(self) -> str:
        return comparison_name(self.cells())

    @property
    def rates(self) -> str:
        """How the learning rates of two methods were chosen; "" for one method, or one that was not trained."""
        sides = [side.trained for side in (self.first, self.second) if side is not None and side.trained is not None]
        if len({method for method, _ in sides}) < 2:
            return ""
        chosen = {lr for _, lr in sides}
        return (
            "rates selected" if chosen == {"selected"} else "one rate for all" if len(chosen) == 1 else "rates by hand"
        )

    def cells(self) -> Cells:
        """Its line of the csv file."""
        cells = {name: getattr(self, name) for name in _OF_CLAIM} | estimate_cells(self.estimate)
        for side, key, prefix in ((self.first, "first", ""), (self.second, "second", "second_")):
            cells[key] = side and side.key
            cells |= {f"{prefix}{name}": side and getattr(side, name) for name in ("dataset", "backbone", "method")}
        decided = {name: self.decision and getattr(self.decision, name) for name in _OF_DECISION}
        claimed = self.decision is not None
        return {
            **cells,
            "primary": claimed,
            "predicted": self.predicted if claimed else None,
            **decided,
            "seen": self.seen,
            "rates": self.rates if claimed else "",
        }


def decided(lines: Sequence[Contrast], claims: Sequence[Claim | None], statistics: Statistics) -> list[Contrast]:
    """``lines``, those with a claim with its decision; the claims are tested together."""
    tested = [claim for claim in claims if claim is not None]
    decisions = iter(decide(tested, statistics.level, statistics.power, statistics.order))
    pairs = zip(lines, claims, strict=True)
    return [line if claim is None else replace(line, decision=next(decisions)) for line, claim in pairs]


def comparison_name(claim: Mapping[str, Any]) -> str:
    """Both sides of ``claim``, a line of a csv file of differences, and their common dataset: ``MDC − ARC, Dense``."""
    unlike = [key for key in ("dataset", "backbone") if claim["second"] and claim[key] != claim[f"second_{key}"]]
    sides = []
    for prefix in ("", "second_") if claim["second"] else ("",):
        place = ", ".join(claim[prefix + key] for key in unlike if claim[prefix + key])
        sides.append(f"{claim[f'{prefix}method']} ({place})" if place else claim[f"{prefix}method"])
    shared = claim["dataset"] if "dataset" not in unlike and claim["dataset"] not in ("", "none") else ""
    return ", ".join([" − ".join(sides), *([shared] if shared else [])])


class OtherVersion(UserError):
    """A file lacks columns, since another version of the code wrote it."""


def read_rows(path: Path, outputs: Mapping[str, str], columns: Sequence[str]) -> list[dict[str, str]]:
    """The lines of a csv file. ``outputs``: file name → sha256, as the record of its table or figure names them; UserError if
    the file is missing or another, or lacks one of ``columns``."""
    checked(path, outputs.get(path.name), path.with_name(f"{path.parent.name}.json"))
    with path.open(encoding="utf-8", newline="") as file:
        lines = csv.DictReader(file)
        if not set(columns) <= set(lines.fieldnames or ()):
            raise OtherVersion(f"{path}: written by another version; make it again")
        return list(lines)


def read_claims(folder: Path, outputs: Mapping[str, str]) -> list[dict[str, str]]:
    """The lines of claims in a table's or figure's ``folder`` (:func:`read_rows`)."""
    files = [folder / name for name in sorted(outputs) if name.endswith(CLAIM_FILES)]
    return [row for path in files for row in read_rows(path, outputs, CLAIMS) if row["primary"] == "True"]


def dataset(system: System) -> str:
    """The label of the corpus that a system was trained on."""
    return "none" if system.corpus is None else system.corpus.label


def write_runs(path: Path, job: ArtefactJob) -> None:
    """Write the runs of every system of ``job`` as csv, with the job whose record holds the result of each. ``role``: ``result``,
    ``held_out`` (pairs that the weight of a subtracted language prior is chosen on) or ``judge`` (of a contest)."""
    rows: list[Cells] = []
    for system in systems_of(job):
        # an external encoder or a constant caption has one record for all seeds
        seeds = [None] if len(set(system.records)) < len(system.records) else job.seeds
        results = zip(seeds, system.runs, system.records, strict=False)
        named: list[tuple[Any, ...]] = [("result", *result) for result in results]
        named += [
            ("held_out", seed, None, record)
            for seed, record in zip(seeds, system.more.get("held_out", ()), strict=False)
        ]
        named += [
            ("judge", seed, None, record) for seed, record in zip(cycle(job.seeds), system.more.get("judged", ()))
        ]
        rows += [dict(zip(RUNS, (job.scale, job.artefact, system.key, *cells), strict=True)) for cells in named]
    write_csv(path, rows, RUNS)


def systems_of(job: ArtefactJob) -> list[System]:
    """Every system of a table or figure."""
    return [*job.systems, *(job.beside.systems if job.beside else ())]


def write_levels(path: Path, job: ArtefactJob, numbers: Sequence[Number], **more: Sequence[Any]) -> None:
    """Write ``numbers`` as csv, the columns of ``more`` after those of the schema; and the runs behind them."""
    write_runs(path.with_name(f"{job.artefact}_runs.csv"), job)
    write_csv(path, _rows(job, numbers, more), (*LEVELS, *more))


def write_contrasts(path: Path, job: ArtefactJob, contrasts: Sequence[Contrast], **more: Sequence[Any]) -> None:
    """Write ``contrasts`` as csv, claims first."""
    rows = sorted(_rows(job, contrasts, more), key=lambda row: not row["primary"])
    write_csv(path, rows, (*CLAIMS, *more))


def _rows(job: ArtefactJob, lines: Sequence[Number | Contrast], more: Mapping[str, Sequence[Any]]) -> list[Cells]:
    return [
        {**job_cells(job), **line.cells(), **{key: values[place] for key, values in more.items()}}
        for place, line in enumerate(lines)
    ]
