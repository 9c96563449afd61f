"""The inputs of a table or figure: checked once, before any is read, and then read as they are."""

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from mdc.plan.jobs.shown import ArtefactJob
from mdc.plan.outputs import again, checked
from mdc.plan.records import NOT_OURS, UserError, read_json, read_json_lines
from mdc.plan.verbs import VERBS, verb_of

Manifests = Mapping[str, Path]
#: a table of per-item results: column → list of cells
Table = dict[str, list[Any]]
Read = TypeVar("Read")


def title(artefact: str) -> str:
    """``table1`` as "table 1"."""
    return re.sub(r"(?<=[a-z])(?=\d)", " ", artefact).replace("_", " ")


def check_inputs(job: ArtefactJob, manifests: Manifests) -> None:
    """Check every input of ``job``: its record is of that job, scale and configuration, and its files have the sha256 that the
    record names. UserError at the first that is not so.

    The configuration of data is not compared: equal data that other code wrote gives the same table. No table reads a checkpoint.
    """
    for name in job.inputs:
        if name not in manifests:
            raise UserError(f"{title(job.artefact)}: no manifest of {name} was given; make it first")
        manifest, verb = Path(manifests[name]), VERBS[verb_of(name)]
        path = manifest.with_name(verb.record)
        record = read_json(path)
        config, sha256, outputs = (record.get(key) for key in ("config", "config_sha256", "outputs"))
        if record.get("id") != name or not isinstance(outputs, dict):
            raise UserError(f"{path}: is no record of {name}, which {title(job.artefact)} needs; {again(path)}")
        if verb.stage == "data":
            checked(manifest, outputs.get(manifest.name), path)
            continue
        scale = config.get("scale") if isinstance(config, dict) else None
        if scale != job.scale:
            raise UserError(f"{path}: the record of {name} is of scale {scale}; needed: {job.scale}")
        if sha256 != job.expected.get(name):
            raise UserError(f"{path}: the record of {name} is stale: it has another configuration; {again(path)}")
        if verb.stage != "trainings":
            for file, sha256 in {**dict.fromkeys(verb.outputs), **outputs}.items():
                checked(path.with_name(file), sha256, path)


def table_of(manifests: Manifests, name: str, file: str) -> Table:
    """The table of per-item results ``file`` beside the record of the job ``name``."""
    from pyarrow.parquet import ParquetFile

    # read_table would import pandas
    return dict(ParquetFile(Path(manifests[name]).with_name(file)).read().to_pydict())


def as_rows(table: Table) -> list[dict[str, Any]]:
    """A table row by row."""
    return [dict(zip(table, row, strict=True)) for row in zip(*table.values(), strict=True)]


def read_table(manifests: Manifests, name: str, file: str, read: Callable[[Table], Read]) -> Read:
    """The result of ``read`` on a table (see :func:`table_of`); an error for a bad cell names the file."""
    with reading(Path(manifests[name]).with_name(file)):
        return read(table_of(manifests, name, file))


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Errors of the block, which reads ``path`` or what lies beside it, become a UserError that names it."""
    try:
        yield
    except UserError as error:
        raise UserError(f"{path}: {error}; {again(path)}") from None
    except (*NOT_OURS, OSError, NotImplementedError) as error:  # pyarrow raises all of these
        raise UserError(f"{path}: cannot be read ({error!r:.200}); {again(path)}") from error


def run_log(manifests: Manifests, name: str) -> list[dict[str, Any]]:
    """The lines with a step in the log of the run ``name``; UserError if they hold no loss, or a loss that is no number."""
    log = Path(manifests[name]).with_name("log.jsonl")
    lines = [line for line in read_json_lines(log) if "step" in line]
    values = [line[key] for line in lines for key in ("step", "loss", "validation_loss", "grad_norm") if key in line]
    if not any("loss" in line for line in lines) or not all(isinstance(value, int | float) for value in values):
        raise UserError(f"{log}: it holds no loss, or one that is no number; {again(log)}")
    return lines
