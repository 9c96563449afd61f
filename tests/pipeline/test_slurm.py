"""Training through SLURM: the real Snakemake, its SLURM plugin and our profile against a stand-in for SLURM itself."""

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest
import slurm_stand_in
from small_project import with_data
from toy_project import BIN, Project

from mdc.plan.config.read import validate
from mdc.plan.jobs.plan import Plan
from mdc.plan.records import read_json_lines

pytestmark = pytest.mark.slow

RUN = "runs/alt/tiny/mdc/s0"
STEPS = 30


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A toy project whose trainings take two processes, with its data made, and SLURM's commands on PATH."""
    made = Project(tmp_path / "project")
    pretrain = made.values["pretrain"]
    pretrain["recipe"] |= {"processes": 2, "epochs": STEPS // 6}
    pretrain["runtime"] |= {"log_every": 1, "save_every": 0}
    made.write()
    profile = made.folder / "workflow/profiles/slurm/config.yaml"
    text = profile.read_text()
    for option, value in (("slurm_account", "vision"), ("slurm_partition", "a100")):
        text, found = re.subn(rf"# - {option}=NAME .*", f"- {option}={value}", text)
        assert found == 1
    profile.write_text(text)

    monkeypatch.chdir(made.folder)
    with_data(Plan(validate(made.values)))
    commands = tmp_path / "bin"
    commands.mkdir()
    for name in slurm_stand_in.COMMANDS:
        script = commands / name
        script.write_text(f'#!/bin/sh\nexec {sys.executable} -IS {slurm_stand_in.__file__} {name} "$@"\n')
        script.chmod(0o755)
    (tmp_path / "queue").mkdir()
    monkeypatch.setenv("PATH", f"{commands}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("SLURM_STAND_IN", str(tmp_path / "queue"))
    return made


def _submitted(queue: Path) -> list[dict[str, Any]]:
    return [json.loads(path.read_text()) for path in sorted(queue.glob("*.json"), key=lambda path: int(path.stem))]


def _kill_a_worker(state: Path, snakemake: subprocess.Popen[str]) -> None:
    """SIGKILL for the training's second process, once there is a state to resume from."""
    deadline = time.monotonic() + 600
    while not any(state.glob("*/state.safetensors")):
        assert time.monotonic() < deadline and snakemake.poll() is None
        time.sleep(0.01)
    first = psutil.Process(int((state / "lock").read_text()))
    workers = first.parent().children()  # type: ignore[union-attr]
    (second,) = [process for process in workers if process.environ().get("RANK") == "1"]
    second.kill()


def test_a_training_of_two_processes_survives_the_loss_of_one(project: Project, tmp_path: Path) -> None:
    target = f"results/toy/{RUN}/run.json"
    command = [str(BIN / "snakemake"), target, "--workflow-profile", "workflow/profiles/slurm", "--cores", "1"]
    command += ["--slurm-init-seconds-before-status-checks", "1", "--latency-wait", "5"]
    with (tmp_path / "said").open("w+") as said:
        snakemake = subprocess.Popen(command, stdout=said, stderr=said, text=True)
        try:
            _kill_a_worker(Path(f".state/toy/{RUN}"), snakemake)
            code = snakemake.wait(timeout=900)
        finally:
            snakemake.kill()
        said.seek(0)
        text = said.read()
    assert code == 0, text

    first, second = _submitted(tmp_path / "queue")
    for asked in (first, second):  # one task with the cores of both processes, though the submitting machine has one
        wanted = {"--cpus-per-task": "2", "--ntasks": "1", "--nodes": "1", "--time": "2880", "--mem": "128000"}
        wanted |= {"--account": "vision", "--partition": "a100", "--requeue": ""}
        assert {name: asked.get(name) for name in wanted} == wanted
        assert "--gpus" not in asked
    assert "mdc pretrain: process 1 was ended by SIGKILL" in text
    assert "Traceback" not in text and "torch/distributed" not in text
    steps = [line["step"] for line in read_json_lines(f"results/toy/{RUN}/log.jsonl") if "loss" in line]
    assert steps == list(range(1, STEPS + 1))

    # an undisturbed run of two processes, started by hand, makes the same bytes
    whole = tmp_path / "whole"
    arguments = ["pretrain", RUN, "--runtime", "results/toy/configs/pretrain.runtime.json"]
    arguments += ["--out", str(whole), "--state", str(tmp_path / "state")]
    torchrun = [str(BIN / "torchrun"), "--standalone", "--local-addr", "127.0.0.1", "--nproc-per-node", "2"]
    environment = {**os.environ, "GLOO_SOCKET_IFNAME": "lo"}
    done = subprocess.run([*torchrun, "-m", "mdc.app.cli", *arguments], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    for name in ("run.json", "checkpoint.safetensors"):
        assert (whole / name).read_bytes() == Path(f"results/toy/{RUN}/{name}").read_bytes()


def test_gpus_are_asked_for_in_one_task_on_one_node(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.values["pretrain"]["recipe"] |= {"device": "cuda", "threads": 3}
    project.write()
    monkeypatch.setenv("SLURM_STAND_IN_ONLY_QUEUES", "1")
    command = [str(BIN / "snakemake"), f"results/toy/{RUN}/run.json", "--workflow-profile", "slurm", "--cores", "1"]
    snakemake = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 600
        while not (submitted := _submitted(tmp_path / "queue")):
            assert time.monotonic() < deadline and snakemake.poll() is None
            time.sleep(0.1)
    finally:
        snakemake.kill()
        snakemake.wait()
    (asked,) = submitted
    wanted = {"--gpus": "2", "--nodes": "1", "--cpus-per-task": "6"}
    assert {name: asked.get(name) for name in wanted} == wanted
    assert not {name for name in asked if name.startswith(("--ntasks", "--cpus-per-gpu", "--gres"))}
