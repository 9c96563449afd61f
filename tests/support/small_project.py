"""A whole project as small as it goes, made by the real jobs in this process, in seconds: no Snakemake, hardly a step."""

from __future__ import annotations

import copy
import os
import shutil
from pathlib import Path
from typing import Any

import yaml

from mdc import jobs
from mdc.cli import main
from mdc.config import Params, read_yaml, validate
from mdc.records import json_text, read_json, write_text_if_changed

ROOT = Path(__file__).resolve().parents[2]
SCALE = "small"


def values(seeds: tuple[int, ...] = (0,)) -> dict[str, Any]:
    """The project's params.yaml with another scale: one backbone, a corpus and its half, three methods, two probes."""
    found = read_yaml(ROOT / "params.yaml")
    scale = copy.deepcopy(found["scales"]["mini"])
    scale["label"] = "small"
    data = scale["data"]
    data["samples_per_shard"] = 40
    data["corpora"] = {"alt": data["corpora"]["alt"]}
    data["corpora"]["alt"]["source"] |= {"train": 64, "val": 16}
    data["corpora"]["half"] = {"label": "Half", "source": {**data["corpora"]["alt"]["source"], "train": 32}}
    data["probes"] = {name: data["probes"][name] for name in ("shape", "colour")}
    for probe in data["probes"].values():
        probe["source"] |= {"train": 48, "test": 32}
    backbone = {**scale["pretrain"]["backbones"]["ViT-T-12"], "width": 32, "layers": 1, "heads": 2, "embed_dim": 16}
    backbone["decoder"] = {"width": 32, "layers": 1, "heads": 2}
    scale["pretrain"]["backbones"] = {"ViT-T-12": backbone}
    scale["pretrain"]["seeds"] = list(seeds)
    scale["pretrain"]["recipe"] |= {"epochs": 1, "batch_size": 16, "warmup_steps": 1, "validate_every": 4}
    scale["probe"] |= {"epochs": 1, "bootstrap": 200}
    tables = {
        "table1": {"alt": ["mdc", "clip"], "half": ["mdc"]},
        "table4": {"alt": ["mdc"]},
        "table5": {"alt": ["parallel", "mdc"]},
        "figure4": {"alt": ["parallel", "mdc"]},
        "figure5": {"alt": ["mdc"], "half": ["mdc"]},
    }
    for name, corpora in tables.items():
        scale["tables"][name] = {"corpora": corpora, "backbones": ["ViT-T-12"], "probes": ["shape"]}
    scale["tables"]["table1"] |= {
        "probes": ["shape", "colour"],
        "contrasts": [["mdc", "clip"], ["alt/mdc", "half/mdc"]],
    }
    scale["tables"]["figure3"] = {"corpora": ["alt"]}
    scale["tables"]["recipes"] = {"table6": "ViT-T-12"}
    # no other scale: most of a `mdc verify` would be the reading of params.yaml
    return {**found, "scale": SCALE, "scales": {SCALE: scale}}


def write_params(folder: Path, found: dict[str, Any]) -> None:
    (folder / "params.yaml").write_text(yaml.safe_dump(found, sort_keys=False))


def write_configs(folder: Path, params: Params) -> None:
    """As the workflow does before its first job."""
    for job, config in jobs.configs(params).items():
        write_text_if_changed(folder / f"results/{SCALE}/configs/{job}.json", json_text(config))


def make(folder: Path, seeds: tuple[int, ...] = (0,)) -> None:
    """Everything of the scale, from data to the copies in ``results/``, with the workflow's own commands."""
    write_params(folder, values(seeds))
    params = validate(values(seeds))
    write_configs(folder, params)
    (folder / "runtime.json").write_text(json_text({"workers": 0, "log_every": 1, "checkpoint_every": 100}))
    before = Path.cwd()
    os.chdir(folder)
    try:
        _jobs(Path("results") / SCALE, params)
    finally:
        os.chdir(before)


def _jobs(r: Path, params: Params) -> None:
    def run(job: str, verb: str, *arguments: str) -> None:
        code = main([verb, f"{r}/configs/{job}.json", *arguments])
        assert code == 0, job

    configs = jobs.configs(params)

    def index(job: str) -> str:
        return f"{r}/{job}/index.json"

    for verb in ("corpus", "probe-set"):
        for job in [job for job, config in configs.items() if config["verb"] == verb]:
            run(job, verb, "--out", f"{r}/{job}")
    vocabulary = f"{r}/data/vocabulary.json"
    corpora = [index(f"data/corpora/{name}") for name in params.current().data.corpora]
    run("data/vocabulary", "vocabulary", "--corpora", *corpora, "--out", vocabulary)
    for encoder in [*jobs.runs(params), *jobs.untrained(params)]:
        job, probe, given = f"runs/{encoder.id}", f"probe/{encoder.id}", []
        if isinstance(encoder, jobs.Run):
            inputs = ["--shards", index(f"data/corpora/{encoder.corpus}"), "--vocabulary", vocabulary]
            inputs += ["--runtime", "runtime.json", "--out", f"{r}/{job}", "--state", f".state/{job}"]
            run(job, "pretrain", *inputs)
            given = ["--run", f"{r}/{job}/run.json"]
        sets = [index(f"data/probes/{name}") for name in configs[probe]["probes"]]
        run(probe, "probe", "--sets", *sets, *given, "--cache", ".state/features", "--out", f"{r}/{probe}")
    for table, verb in jobs.TABLES.items():
        records = [f"{r}/probe/{id_}/probe.json" for id_ in configs[table]["expected"]]
        run(table, verb, "--records", *records, "--out", str(r))
    for figure, verb in (("figure_loss", "loss-curves"), ("figure_schedules", "schedules")):
        manifests = [f"{r}/runs/{id_}/run.json" for id_ in configs[figure]["runs"]]
        run(figure, verb, "--runs", *manifests, "--out", str(r))
    run("figure3", "caption-lengths", "--indexes", index("data/corpora/alt"), "--out", str(r))
    run("table9", "table9", "--out", str(r))
    run("recipes", "recipes", "--out", str(r / "recipes"))
    publish(r)


#: the records of all tables and figures, below the scale's folder
RECORDS = [
    f"{name}.json" for name in (*jobs.TABLES, "figure_loss", "figure_schedules", "figure3", "table9", "recipes/recipes")
]


def publish(r: Path) -> None:
    """The copies at ``results/``, as the workflow's publish rules make them."""
    for record in RECORDS:
        for name in [*read_json(r / record)["outputs"], Path(record).name]:
            shutil.copy((r / record).parent / name, r.parent / name)
