"""What tables and figures are asked, made from and leave: their jobs without a plan, manifests, logs of runs, csv files."""

import csv
import json
import re
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pyarrow as pa
import pyarrow.parquet as parquet
from pydantic import BaseModel

from mdc.plan.config.read import load
from mdc.plan.jobs.plan import Plan
from mdc.plan.jobs.read import as_job
from mdc.plan.jobs.shown import ArtefactJob, ShownColumn, System
from mdc.plan.records import sha256_file, sha256_text
from mdc.report.make import make as make_files
from mdc.report.statistics.estimate import Estimate

STATISTICS = {"level": 0.95, "margins": {"top-1": 2.0, "mAP": 2.0}, "power": 0.8, "bootstrap": 500}
UNMASKED = {"clip": "contrastive", "clip_lb": "contrastive", "arc": "captioning"}


def shown_job(artefact: str, made_from: Iterable[str], **fields: Any) -> Any:
    """The job of an artefact of the registry on the jobs ``made_from``; at scale mini unless ``fields`` say otherwise."""
    names = list(made_from)
    config = {"job": artefact, "verb": "make", "scale": "mini", "fingerprint": "f", "artefact": artefact}
    config["scale_label"] = f"{fields.get('scale', 'mini')} (made up)"
    config |= {"inputs": names, "expected": {name: sha256_text(name) for name in names}}
    for key, kind in (("systems", System), ("columns", ShownColumn)):
        fields[key] = [flat(one, kind) for one in fields.get(key, ())]
    config |= flat(fields, ArtefactJob)
    return as_job(config, "make", "a test")


def flat(values: Mapping[str, Any], kind: type[BaseModel]) -> dict[str, Any]:
    """``values`` with those that ``kind`` does not have under its key ``more``."""
    known = {field.alias or name for name, field in kind.model_fields.items()}
    more = {key: value for key, value in values.items() if key not in known}
    return {key: value for key, value in values.items() if key in known} | {"more": more}


@cache
def planned(scale: str) -> dict[str, Any]:
    """The jobs of a scale of params.yaml, by name; not to be changed."""
    return dict(Plan(load(Path(__file__).resolve().parents[2] / "params.yaml", scale)).jobs)


def write_manifest(
    folder: Path,
    name: str,
    file: str = "run.json",
    config: Mapping[str, Any] | None = None,
    tables: Mapping[str, list[dict[str, Any]]] | None = None,
    **more: Any,
) -> Path:
    """The manifest of the job ``name``, in a folder of its own, as :func:`shown_job` expects it.

    ``tables``: the rows of parquet files beside it, which it names.
    """
    path = folder / name / file
    path.parent.mkdir(parents=True, exist_ok=True)
    told = {"id": name, "config": {"scale": "mini", **(config or {})}, "config_sha256": sha256_text(name)}
    told |= {"outputs": {}, **more}
    for table, rows in (tables or {}).items():
        parquet.write_table(pa.Table.from_pylist(rows), path.with_name(table))
        told["outputs"][table] = sha256_file(path.with_name(table))
    path.write_text(json.dumps(told))
    return path


def runs_of(out: Path, artefact: str) -> dict[str, list[str]]:
    """System → its runs, as the artefact's own file of runs has them."""
    runs: dict[str, list[str]] = {}
    for row in read_rows(out / f"{artefact}_runs.csv"):
        runs.setdefault(row["system"], []).append(row["run"])
    return runs


def write_made(path: Path, name: str) -> Path:
    """The record of the data job ``name`` beside its file ``path``, which it names as it is now."""
    told = {"id": name, "outputs": {path.name: sha256_file(path)}}
    path.with_name("made.json").write_text(json.dumps(told))
    return path


def make(job: Any, given: Mapping[str, Path], out: Path) -> Path:
    """What `mdc make` writes into ``out``, without its record."""
    make_files(job, given, out)
    return out


def read_rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def ends(found: Estimate) -> tuple[float, float]:
    """Of an interval that is known."""
    assert found.low is not None and found.high is not None
    return found.low, found.high


def page(path: Path) -> ElementTree.Element:
    """An HTML page that is complete: all that opens closes."""
    text = re.sub(r"<!doctype html>|<(meta|img|br)\b[^>]*>", "", path.read_text(encoding="utf-8"))
    return ElementTree.fromstring(text)


def shown_run(corpus: str, method: str, seed: int, /, **more: Any) -> dict[str, Any]:
    """A run as figures of logs name it."""
    ratio = 1.0 if method == "parallel" else int(method[5:7]) / 100 if method.startswith("bert_") else None
    found = {
        "job": f"runs/{corpus}/B/{method}/s{seed}",
        "corpus": {"key": corpus, "label": f"Corpus {corpus}"},
        "backbone": {"key": "B", "label": "ViT-B"},
        "method": {"key": method, "label": f"Method {method} by its name"},
        "family": UNMASKED.get(method, "captioning"),
        "per": "pair" if UNMASKED.get(method) == "contrastive" else "token",
        "seed": seed,
        "t_range": None if method in UNMASKED else [ratio or 0.5, ratio or 1.0],
    }
    return found | more


def systems_of(runs: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The rows of ``runs``, whose seeds share one."""
    rows: dict[str, dict[str, Any]] = {}
    for run in runs:
        key = "/".join(run[name]["key"] for name in ("corpus", "backbone", "method"))
        row = rows.setdefault(key, {**run, "key": key, "runs": [], "records": [], "seeds": []})
        row["runs"].append(run["job"].removeprefix("runs/"))
        row["records"].append(run["job"])
        row["seeds"].append(run["seed"])
    return [{key: value for key, value in row.items() if key not in ("job", "seed")} for row in rows.values()]


class LoggedRuns:
    """Runs with logs in ``folder``: ``runs`` as a figure's job names them, ``given`` their manifests."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.out = folder, folder / "out"
        self.given: dict[str, Path] = {}
        self.runs: list[dict[str, Any]] = []

    def add(self, run: dict[str, Any], lines: Iterable[Mapping[str, Any]], **config: Any) -> None:
        self.runs.append(run)
        self.given[run["job"]] = write_manifest(self.folder, run["job"], config={"job": run["job"], **config})
        self.log(run["job"], lines)

    def log(self, job: str, lines: Iterable[Mapping[str, Any]]) -> None:
        """Written anew."""
        self.log_of(job).write_text("".join(json.dumps(line) + "\n" for line in lines))

    def log_of(self, job: str) -> Path:
        return self.given[job].with_name("log.jsonl")

    def asked(self, artefact: str, **fields: Any) -> Any:
        """The job of a figure of these runs."""
        return shown_job(artefact, [run["job"] for run in self.runs], systems=systems_of(self.runs), **fields)
