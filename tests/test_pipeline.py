"""The whole way at a toy scale, through the real Snakemake: data, shards, training, probes, tables; then what reruns."""

from __future__ import annotations

import copy
import csv
import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from mdc.config import read_yaml
from mdc.fingerprint import LEFT_OUT, closure
from mdc.jobs import VERBS
from mdc.records import sha256_file

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent


def _toy(values: dict[str, Any]) -> dict[str, Any]:
    """Scale mini made as small as it goes: one backbone, one corpus, three methods, two probes."""
    scale = copy.deepcopy(values["scales"]["mini"])
    scale["label"] = "toy"
    data = scale["data"]
    data["corpora"] = {"alt": data["corpora"]["alt"]}
    data["corpora"]["alt"]["source"] |= {"train": 192, "val": 32}
    data["probes"] = {name: data["probes"][name] for name in ("shape", "digits")}
    data["probes"]["shape"]["source"] |= {"train": 96, "test": 64}
    backbone = {**scale["pretrain"]["backbones"]["ViT-T-12"], "width": 32, "layers": 1, "heads": 2, "embed_dim": 16}
    backbone["decoder"] = {"width": 32, "layers": 1, "heads": 2}
    scale["pretrain"]["backbones"] = {"tiny": backbone}
    scale["pretrain"]["recipe"] |= {"epochs": 1, "batch_size": 32, "warmup_steps": 2, "validate_every": 4}
    scale["probe"] |= {"epochs": 2, "bootstrap": 200}
    scale["tables"]["table1"] = {
        "corpora": {"alt": ["clip", "arc", "mdc"]},
        "backbones": ["tiny"],
        "probes": ["shape", "digits"],
    }
    return {**values, "scale": "toy", "scales": {**values["scales"], "toy": scale}}


class Project:
    """A copy of the workflow in a folder of its own, with the toy scale chosen."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        shutil.copy(ROOT / "Snakefile", folder)
        shutil.copytree(ROOT / "workflow", folder / "workflow")
        (folder / "results").mkdir()
        self.values = _toy(read_yaml(ROOT / "params.yaml"))
        self.write()

    def write(self) -> None:
        (self.folder / "params.yaml").write_text(yaml.safe_dump(self.values, sort_keys=False))

    def snakemake(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [str(BIN / "snakemake"), *arguments]
        return subprocess.run(command, cwd=self.folder, capture_output=True, text=True, env={**os.environ})

    def planned(self, *arguments: str) -> dict[str, int]:
        """Jobs a dry run would do, by rule."""
        done = self.snakemake("-n", "results/table1.csv", *arguments)
        assert done.returncode == 0, done.stderr
        text = done.stdout + done.stderr
        stats = re.search(r"Job stats:\njob +count\n[- ]+\n(.*?)\ntotal", text, re.S)
        if stats is None:
            assert "Nothing to be done" in text
            return {}
        return {row.split()[0]: int(row.split()[1]) for row in stats[1].splitlines()}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    made = Project(tmp_path_factory.mktemp("project"))
    done = made.snakemake("results/table1.csv", "results/figure_loss.png", "--cores", "2")
    assert done.returncode == 0, done.stdout + done.stderr
    return made


def test_table_holds_every_row(project: Project) -> None:
    with (project.folder / "results/table1.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    methods = [row["method"] for row in rows]
    for label in ("CLIP", "ARC", "MDC"):
        assert methods.count(label) == 1
    assert sum("ntrained" in m for m in methods) == 2, "one untrained row a pooling"
    for row in rows:
        if row["method"] in ("CLIP", "ARC", "MDC"):
            values = [float(row[name]) for name in ("Shape", "Digits")]
            assert all(0 <= v <= 100 for v in values)
            assert abs(float(row["Average"]) - sum(values) / 2) <= 0.1
    for name in ("table1_long.csv", "table1.html", "table1.md", "table1.tex", "table1_contrasts.csv"):
        assert (project.folder / "results" / name).stat().st_size > 0


def test_chain_of_hashes_holds(project: Project) -> None:
    scale = project.folder / "results/toy"
    run = json.loads((scale / "runs/alt/tiny/mdc/s0/run.json").read_text())
    folder = scale / "runs/alt/tiny/mdc/s0"
    assert run["checkpoint"]["sha256"] == sha256_file(folder / run["checkpoint"]["file"])
    assert run["inputs"]["shards_sha256"] == sha256_file(scale / "data/corpora/alt/index.json")
    assert run["config"] == json.loads((scale / "configs/runs/alt/tiny/mdc/s0.json").read_text())
    assert run["skipped"] == json.loads((scale / "data/corpora/alt/index.json").read_text())["skipped"]
    record = json.loads((scale / "probe/alt/tiny/mdc/s0/probe.json").read_text())
    assert all("skipped" in result for result in record["probes"].values())
    assert record["run_sha256"] == sha256_file(folder / "run.json")
    assert record["items"]["sha256"] == sha256_file(scale / "probe/alt/tiny/mdc/s0/items.parquet")


def test_again_there_is_nothing_to_do_and_edits_rerun_what_they_decide(project: Project) -> None:
    assert project.planned() == {}
    before = copy.deepcopy(project.values)
    try:
        project.values["scales"]["toy"]["probe"]["lr"] = 0.2
        project.write()
        assert project.planned() == {"probe": 3, "probe_untrained": 2, "table1": 1, "publish_table1": 1}
        project.values = copy.deepcopy(before)
        project.values["methods"]["mdc"]["t_range"] = [0.3, 0.9]
        project.write()
        assert project.planned() == {"pretrain": 1, "probe": 1, "table1": 1, "publish_table1": 1}
    finally:
        project.values = before
        project.write()
    assert project.planned() == {}
    # another scale touches only its own folder; coming back there is nothing to do
    grid = project.planned("--config", "scale=paper")
    assert grid["pretrain"] == 21
    assert project.planned() == {}


def test_a_wrong_value_stops_before_the_first_job(project: Project) -> None:
    done = project.snakemake("results/table1.csv", "--cores", "1", "--config", "scale=huge")
    assert done.returncode != 0
    assert "allowed: mini, flickr8k, paper" in done.stderr and "Traceback" not in done.stderr


def test_a_missing_dataset_fails_in_its_job_with_one_line(project: Project) -> None:
    target = "results/flickr8k/data/corpora/single/index.json"
    done = project.snakemake(target, "--cores", "1", "--config", "scale=flickr8k")
    assert done.returncode != 0
    log = (project.folder / "results/flickr8k/logs/data/corpora/single.log").read_text()
    assert "MDC_DATA" in log and "Traceback" not in log
    assert not (project.folder / target).exists()


def test_killed_training_goes_on_to_the_same_weights(project: Project, tmp_path: Path) -> None:
    """SIGKILL of the real job between two checkpoints, then the same command again."""
    scale = project.folder / "results/toy"
    runtime = tmp_path / "runtime.json"
    runtime.write_text(json.dumps({"workers": 0, "log_every": 1, "checkpoint_every": 2}))
    out, state = tmp_path / "out", tmp_path / "state"
    # many more steps than the toy run's six, so that there is a moment to kill it
    config = json.loads((scale / "configs/runs/alt/tiny/mdc/s0.json").read_text())
    config["recipe"]["epochs"] = 40
    (tmp_path / "config.json").write_text(json.dumps(config))
    command = [str(BIN / "mdc"), "pretrain", str(tmp_path / "config.json"), "--runtime", str(runtime)]
    command += ["--shards", str(scale / "data/corpora/alt/index.json")]
    command += ["--vocabulary", str(scale / "data/vocabulary.json")]

    def place(name: str) -> list[str]:
        return [*command, "--out", str(out / name), "--state", str(state / name)]

    subprocess.run(place("whole"), check=True, capture_output=True)
    victim = subprocess.Popen(place("killed"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    log = state / "killed/log.jsonl"
    deadline = time.monotonic() + 120
    while victim.poll() is None and not (log.exists() and log.read_text().count("\n") > 20):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    victim.kill()
    assert victim.wait() == -9, "it must not have finished before"
    assert not (out / "killed/run.json").exists()
    done = subprocess.run(place("killed"), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert sha256_file(out / "killed/checkpoint.safetensors") == sha256_file(out / "whole/checkpoint.safetensors")
    assert (out / "killed/run.json").read_bytes() == (out / "whole/run.json").read_bytes()


@pytest.mark.parametrize("verb", ["corpus", "probe", "table1"])
def test_fingerprints_cover_what_a_real_job_imports(project: Project, tmp_path: Path, verb: str) -> None:
    scale = Path("results/toy")
    control = "untrained/tiny/cls/s0"
    arguments = {
        "corpus": [str(scale / "configs/data/corpora/alt.json")],
        "probe": [
            str(scale / f"configs/probe/{control}.json"),
            "--sets",
            *(str(scale / f"data/probes/{name}/index.json") for name in ("shape", "digits")),
            "--cache",
            str(tmp_path / "cache"),
        ],
        "table1": [
            str(scale / "configs/table1.json"),
            "--records",
            *(str(p.relative_to(project.folder)) for p in (project.folder / scale / "probe").rglob("probe.json")),
        ],
    }[verb]
    code = (
        "import sys; from mdc.cli import main\n"
        "assert main(sys.argv[1:]) == 0\n"
        "print(*(m for m in sys.modules if (m == 'mdc' or m.startswith('mdc.')) and '._open_clip' not in m))"
    )
    command = [sys.executable, "-c", code, verb, *arguments, "--out", str(tmp_path / "out")]
    done = subprocess.run(command, cwd=project.folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    # the command line itself and what it needs to find the verb decide no result
    starting = {"mdc.cli", "mdc.jobs", "mdc.job_configs", "mdc.fingerprint"}
    assert set(done.stdout.split()) - starting - LEFT_OUT <= set(closure(VERBS[verb]))
