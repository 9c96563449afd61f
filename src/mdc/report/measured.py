"""The records of probes that a table or figure was handed, with their per-item results, held to what its job asks for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, ValidationError

from mdc.plan.config.problems import first_problem
from mdc.plan.jobs.shown import SystemsJob
from mdc.plan.records import UserError
from mdc.report.estimates import Estimator
from mdc.report.given import Given, path_of, record_of, title
from mdc.report.items import ProbeItems, read_items

_ITEMS = "items.parquet"


class _Result(BaseModel):
    metric: str
    n: Annotated[int, Field(gt=0)]
    value: float
    chance: float


class _Training(BaseModel):
    pairs: Annotated[int, Field(gt=0)]
    steps: Annotated[int, Field(gt=0)]
    samples_seen: Annotated[int, Field(gt=0)]


class _Probed(BaseModel):
    """Of a probe's record, what tables read; there is more."""

    kind: Literal["probe"]
    training: _Training | None = None
    probes: dict[str, _Result]
    outputs: dict[str, str]


@dataclass(frozen=True)
class Measured:
    """One record: the results of its probes, its items by probe, and what its encoder was trained on."""

    name: str
    probes: Mapping[str, Mapping[str, Any]]
    items: Mapping[str, ProbeItems]
    training: Mapping[str, int] | None


def measured(job: SystemsJob, given: Given, estimator: Estimator) -> dict[str, Measured]:
    """All records of the job's systems, by their jobs' names.

    UserError besides (see :func:`record_of`) if a record lacks a column, its items are not those that it names, its
    values are not those of its items, or two records were measured with other chance levels.
    """
    names = dict.fromkeys(name for system in job.systems for name in system.records)
    found = {name: _measured(job, given, name, estimator) for name in names}
    for column in job.columns:
        chances = {round(float(one.probes[column.key]["chance"]), 6): name for name, one in found.items()}
        if len(chances) > 1:
            told = ", ".join(f"{name} with {chance:g}" for chance, name in chances.items())
            raise UserError(f"{title(job.artefact)}: {column.key} has other chance levels: {told}; measure them again")
    return found


def _measured(job: SystemsJob, given: Given, name: str, estimator: Estimator) -> Measured:
    record, path = record_of(job, given, name), path_of(job, given, name)
    try:
        _Probed.model_validate(record)
    except ValidationError as error:
        raise UserError(
            f"{path}: not a probe record: {first_problem(error, record)}; probe this encoder again"
        ) from None
    missing = [column.key for column in job.columns if column.key not in record["probes"]]
    if missing:
        raise UserError(f"{path}: the record of {name} lacks {', '.join(missing)}; probe this encoder again")
    if _ITEMS not in record["outputs"]:
        raise UserError(f"{path}: the record of {name} names no {_ITEMS}; probe this encoder again")
    items = read_items(path.parent / _ITEMS, record["outputs"][_ITEMS])
    for column in job.columns:
        _check(name, column.key, record["probes"][column.key], items, estimator)
    return Measured(name, record["probes"], items, record.get("training"))


def _check(
    name: str, column: str, told: Mapping[str, Any], items: Mapping[str, ProbeItems], estimator: Estimator
) -> None:
    """A record's values must be those of its items: two files that belong to different runs are caught here."""
    if column not in items:
        raise UserError(f"the items of {name} lack {column}; probe this encoder again")
    value = 100 * estimator.value(items[column])
    if told["n"] != items[column].n or abs(told["value"] - value) > 1e-3:
        raise UserError(
            f"{name} on {column}: the record says {told['value']:.3f} over {told['n']} items, its items give "
            f"{value:.3f} over {items[column].n}; probe this encoder again"
        )
