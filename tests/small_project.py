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

ROOT = Path(__file__).resolve().parent.parent
SCALE = "small"


def values(seeds: tuple[int, ...] = (0,)) -> dict[str, Any]:
    """The project's params.yaml with one more scale: one backbone and corpus, two methods, two probes."""
    found = read_yaml(ROOT / "params.yaml")
    scale = copy.deepcopy(found["scales"]["mini"])
    scale["label"] = "small"
    data = scale["data"]
    data["samples_per_shard"] = 40
    data["corpora"] = {"alt": data["corpora"]["alt"]}
    data["corpora"]["alt"]["source"] |= {"train": 64, "val": 16}
    data["probes"] = {name: data["probes"][name] for name in ("shape", "colour")}
    for probe in data["probes"].values():
        probe["source"] |= {"train": 48, "test": 32}
    backbone = {**scale["pretrain"]["backbones"]["ViT-T-12"], "width": 32, "layers": 1, "heads": 2, "embed_dim": 16}
    backbone["decoder"] = {"width": 32, "layers": 1, "heads": 2}
    scale["pretrain"]["backbones"] = {"ViT-T-12": backbone}
    scale["pretrain"]["seeds"] = list(seeds)
    scale["pretrain"]["recipe"] |= {"epochs": 1, "batch_size": 16, "warmup_steps": 1, "validate_every": 4}
    scale["probe"] |= {"epochs": 1, "bootstrap": 200}
    table = {"corpora": {"alt": ["mdc", "clip"]}, "backbones": ["ViT-T-12"], "probes": ["shape", "colour"]}
    scale["tables"]["table1"] = table
    scale["tables"]["table4"] = {"corpora": {"alt": ["mdc"]}, "backbones": ["ViT-T-12"], "probes": ["shape"]}
    scale["tables"]["figure3"] = {"corpora": ["alt"]}
    scale["tables"]["recipes"] = {"table6": "ViT-T-12"}
    return {**found, "scale": SCALE, "scales": {**found["scales"], SCALE: scale}}


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

    run("data/corpora/alt", "corpus", "--out", f"{r}/data/corpora/alt")
    sets = []
    for name in ("shape", "colour"):
        run(f"data/probes/{name}", "probe-set", "--out", f"{r}/data/probes/{name}")
        sets.append(f"{r}/data/probes/{name}/index.json")
    index, vocabulary = f"{r}/data/corpora/alt/index.json", f"{r}/data/vocabulary.json"
    run("data/vocabulary", "vocabulary", "--corpora", index, "--out", vocabulary)
    records, manifests = [], []
    for encoder in [*jobs.runs(params), *jobs.untrained(params)]:
        out, trained = f"{r}/probe/{encoder.id}", isinstance(encoder, jobs.Run)
        if trained:
            job = f"runs/{encoder.id}"
            inputs = ["--shards", index, "--vocabulary", vocabulary, "--runtime", "runtime.json"]
            run(job, "pretrain", *inputs, "--out", f"{r}/{job}", "--state", f".state/{job}")
            manifests.append(f"{r}/{job}/run.json")
        given = ["--run", manifests[-1]] if trained else []
        run(f"probe/{encoder.id}", "probe", "--sets", *sets, *given, "--cache", ".state/features", "--out", out)
        records.append(f"{out}/probe.json")
    run("table1", "table1", "--records", *records, "--out", str(r))
    fourth = [f"{r}/probe/{id_}/probe.json" for id_ in jobs.configs(params)["table4"]["expected"]]
    run("table4", "method-table", "--records", *fourth, "--out", str(r))
    run("figure_loss", "loss-curves", "--runs", *manifests, "--out", str(r))
    run("figure3", "caption-lengths", "--indexes", index, "--out", str(r))
    run("table9", "table9", "--out", str(r))
    run("recipes", "recipes", "--out", str(r / "recipes"))
    publish(r)


def publish(r: Path) -> None:
    """The copies at ``results/``, as the workflow's publish rules make them."""
    for record in (
        "table1.json",
        "table4.json",
        "figure_loss.json",
        "figure3.json",
        "table9.json",
        "recipes/recipes.json",
    ):
        for name in [*read_json(r / record)["outputs"], Path(record).name]:
            shutil.copy((r / record).parent / name, r.parent / name)
