"""The input manifests of a table or figure, read and checked against its job.

A manifest that is missing, of another job, of another scale or stale is a UserError here.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from mdc.plan.jobs.folder import ScaleFolder
from mdc.plan.jobs.shown import ArtefactJob, ShownRun
from mdc.plan.outputs import checked
from mdc.plan.records import UserError, read_json, read_json_lines
from mdc.plan.verbs import verb_of

Manifests = Mapping[str, Path]
#: a table of per-item results: column → list of cells
Table = dict[str, list[Any]]
Read = TypeVar("Read")


def title(artefact: str) -> str:
    """``table1`` as "table 1"."""
    return re.sub(r"(?<=[a-z])(?=\d)", " ", artefact).replace("_", " ")


def path_of(job: ArtefactJob, manifests: Manifests, name: str) -> Path:
    """The path of the manifest of the input job ``name``; UserError if there is none."""
    if name not in manifests:
        raise UserError(f"{title(job.artefact)}: no manifest of {name} was given; make it first")
    return Path(manifests[name])


def record_of(job: ArtefactJob, manifests: Manifests, name: str) -> dict[str, Any]:
    """The record of the run or evaluation ``name``; UserError if it is missing, of another job or scale, or stale."""
    path = path_of(job, manifests, name)
    record = read_json(path)
    if record.get("id") != name:
        raise UserError(
            f"{path}: {title(job.artefact)} needs the record of {name}, this is of {str(record.get('id'))[:100]}"
        )
    config = record.get("config")
    scale = config.get("scale") if isinstance(config, dict) else None
    if scale != job.scale:
        raise UserError(f"{path}: the record of {name} is of scale {str(scale)[:100]}; needed: {job.scale}")
    if name not in job.expected:
        raise UserError(f"{title(job.artefact)}: its configuration expects no record of {name}, though it needs one")
    config_sha256 = str(record.get("config_sha256"))
    if config_sha256 != job.expected[name]:
        raise UserError(
            f"{path}: the record of {name} is stale: made with configuration {config_sha256[:12]}, expected "
            f"{job.expected[name][:12]}; make it again"
        )
    return record


def data_of(job: ArtefactJob, manifests: Manifests, name: str) -> dict[str, Any]:
    """The index or vocabulary that the job ``name`` made; UserError unless the record beside it is of that job and names it by
    sha256. Its configuration is not compared: equal data that other code wrote gives the same table."""
    path = path_of(job, manifests, name)
    record_path = path.with_name(ScaleFolder(path.parent).record(name, verb_of(name)).name)
    record = read_json(record_path)
    if record.get("id") != name:
        raise UserError(f"{record_path}: {title(job.artefact)} needs {name}, this is {str(record.get('id'))[:100]}")
    return read_json(checked(path, record.get("outputs", {}).get(path.name), record_path))


def file_of(job: ArtefactJob, manifests: Manifests, name: str, file: str) -> Path:
    """A file beside the record of the job ``name``; UserError if the record does not name it, or its sha256 differs."""
    record, path = record_of(job, manifests, name), path_of(job, manifests, name).parent / file
    sha256 = record.get("outputs", {}).get(file)
    if sha256 is None:
        raise UserError(f"{path_of(job, manifests, name)}: the record of {name} names no {file}; make it again")
    return checked(path, sha256, path_of(job, manifests, name))


def table_of(job: ArtefactJob, manifests: Manifests, name: str, file: str, columns: Sequence[str]) -> Table:
    """The table of per-item results ``file`` beside the record of the job ``name``.

    UserError besides (see :func:`file_of`) if it cannot be read, or lacks one of ``columns``.
    """
    import pyarrow
    import pyarrow.parquet as parquet

    path = file_of(job, manifests, name, file)
    try:
        table = parquet.ParquetFile(path).read()  # read_table would import pandas
        cells = {column: table.column(column).to_pylist() for column in table.column_names}
    except (OSError, pyarrow.ArrowException, ValueError) as error:
        raise UserError(f"{path}: cannot be read ({str(error)[:200]}); make it again") from None
    missing = [column for column in columns if column not in cells]
    if missing or not table.num_rows:
        raise UserError(f"{path}: {f'no column {missing[0]}' if missing else 'holds no row'}; make it again")
    return cells


def as_rows(table: Table) -> list[dict[str, Any]]:
    """A table row by row."""
    return [dict(zip(table, row, strict=True)) for row in zip(*table.values(), strict=True)]


def read_table(
    job: ArtefactJob, manifests: Manifests, name: str, file: str, columns: Sequence[str], read: Callable[[Table], Read]
) -> Read:
    """The result of ``read`` on a table (see :func:`table_of`); a UserError for a bad cell names the file."""
    table = table_of(job, manifests, name, file, columns)
    with reading(path_of(job, manifests, name).with_name(file)):
        return read(table)


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Errors of the block, which turns a table into arrays, become a UserError that names the file."""
    try:
        yield
    except (UserError, ValueError, TypeError, LookupError) as error:
        raise UserError(f"{path}: {str(error)[:200]}; make it again") from None


def run_log(job: ArtefactJob, manifests: Manifests, name: str) -> tuple[Path, list[dict[str, Any]]]:
    """The path of the log beside the manifest of the run ``name``, and its lines with a step.

    UserError besides (see :func:`record_of`) if the log has no loss, or a step or loss that is not a number.
    """
    record_of(job, manifests, name)
    log = path_of(job, manifests, name).with_name("log.jsonl")
    lines = read_json_lines(log)
    for line in lines:
        if not all(
            isinstance(line.get(key, 0), int | float) for key in ("step", "loss", "validation_loss", "grad_norm")
        ):
            raise UserError(f"{log}: a step, a loss or a gradient norm is no number; retrain the run")
    kept = [line for line in lines if "step" in line]
    if not any("loss" in line for line in kept):
        raise UserError(f"{log}: it holds no loss; retrain the run")
    return log, kept


def run_place(run: ShownRun) -> str:
    """The keys of a run's corpus and backbone, which several methods share."""
    return f"{run.corpus.key}/{run.backbone.key}"


def run_key(run: ShownRun) -> str:
    """As a :class:`System`'s key: all seeds of a run share it."""
    return f"{run_place(run)}/{run.method.key}"
