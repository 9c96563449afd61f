"""Probe records (``probe.json``), read and checked for what tables take from them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from mdc.config import first_problem
from mdc.records import UserError, read_json


class _Part(BaseModel):
    """Of a record, what tables read; there is more."""

    model_config = ConfigDict(strict=True, allow_inf_nan=False)


class _Encoder(_Part):
    id: str


class _Result(_Part):
    metric: str
    n: Annotated[int, Field(gt=0)]
    value: float
    chance: float


class _Items(_Part):
    file: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-][A-Za-z0-9_.-]*$")]  # beside the record
    sha256: str


class _Training(_Part):
    pairs: Annotated[int, Field(gt=0)]
    steps: Annotated[int, Field(gt=0)]
    samples_seen: Annotated[int, Field(gt=0)]


class _Record(_Part):
    kind: Literal["probe"]
    id: str
    scale: str
    encoder: _Encoder
    config_sha256: str
    training: _Training | None = None
    probes: dict[str, _Result]
    items: _Items


def read_record(path: str | Path) -> dict[str, Any]:
    """A probe record; UserError naming the file and the first problem if it is none."""
    record = read_json(path)
    try:
        _Record.model_validate(record)
    except ValidationError as error:
        raise UserError(f"{path}: not a probe record: {first_problem(error)}; probe this encoder again") from None
    return record
