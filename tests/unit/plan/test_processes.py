"""Several processes train as one does, end together, and say in one line why."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from unittest.mock import Mock

import psutil
import pytest
import run_cases
import torch
import toy
from run_cases import CASES, STEPS
from shown import planned
from small_project import MDC, options, plan, with_data

from mdc.app.cli import main
from mdc.plan.jobs.call import Call
from mdc.plan.jobs.folder import ScaleFolder
from mdc.plan.jobs.read import read_job
from mdc.plan.processes.group import SINGLE_PROCESS
from mdc.plan.records import json_text, read_json_lines, write_json
from mdc.plan.verbs import verb_of
from mdc.training import launch
from mdc.training.state import Segment


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All cases in one process and, in one start, in two: folders ``one`` and ``two``."""
    folder = tmp_path_factory.mktemp("runs")
    torch.set_num_threads(1)
    for name, stop_at in (("resumed", 12), ("there and back", 7)):  # one process stops; two resume from its state
        with pytest.raises(run_cases.Stopped):
            run_cases.run_case("mdc", SINGLE_PROCESS, folder / "two" / name, stop_at=stop_at)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    common = {**os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": "2"}
    common |= {"GLOO_SOCKET_IFNAME": "lo", "TORCHELASTIC_RUN_ID": "none"}
    command = [sys.executable, run_cases.__file__, str(folder / "two"), "2"]
    both = [subprocess.Popen(command, env={**common, "RANK": rank}, stderr=subprocess.PIPE, text=True) for rank in "01"]
    for name in CASES:
        torch.save(
            run_cases.run_case(name, SINGLE_PROCESS, folder / "one" / name), folder / "one" / name / "weights.pt"
        )
    for process in both:
        said = process.communicate(timeout=900)[1]
        assert process.returncode == 0, said
    back = folder / "two/there and back"  # two have stopped; one resumes from their state
    segments: list[Segment] = []
    torch.save(run_cases.run_case("mdc", SINGLE_PROCESS, back, segments=segments), back / "weights.pt")
    (back / "segments.json").write_text(json.dumps(segments))
    return folder


def _compare(one: Path, two: Path) -> float:
    left, right = (torch.load(folder / "weights.pt") for folder in (one, two))
    assert left.keys() == right.keys()
    return max(float((left[name] - right[name]).abs().max()) for name in left)


@pytest.mark.parametrize("name", CASES)
def test_two_processes_equal_one(runs: Path, name: str) -> None:
    assert _compare(runs / "one" / name, runs / "two" / name) < 1e-5
    one, two = (read_json_lines(runs / side / name / "log.jsonl") for side in ("one", "two"))
    assert [line["step"] for line in one] == [line["step"] for line in two] == list(range(1, STEPS + 1))
    for left, right in zip(one, two, strict=True):
        assert left.keys() == right.keys()
        for key in left.keys() - {"images_per_second", "mfu"}:
            assert left[key] == pytest.approx(right[key], rel=1e-4, abs=1e-5), (key, left, right)


def test_what_the_cases_differ_in_shows(runs: Path) -> None:
    """So that 1e-5 means something: the weights have gone a hundred times as far, and a duplicate's mask can be seen."""
    masked = _compare(runs / "one/clip", runs / "one/clip, duplicates masked")
    normaliser = _compare(runs / "one/mdc", runs / "one/masked tokens")
    assert masked > 1e-3 and normaliser > 1e-3


@pytest.mark.parametrize("name", ["resumed", "there and back"])
def test_a_run_can_resume_in_another_number_of_processes(runs: Path, name: str) -> None:
    assert _compare(runs / "one/mdc", runs / "two" / name) < 1e-5
    steps = [line["step"] for line in read_json_lines(runs / "two" / name / "log.jsonl")]
    assert steps == list(range(1, STEPS + 1))


@pytest.mark.parametrize("name", run_cases.INTERRUPTED)
def test_a_signal_to_one_process_ends_all_with_a_state_that_resumes_to_the_bit(runs: Path, name: str) -> None:
    first, second = ((runs / "two" / name / f"left{rank}").read_text() for rank in (0, 1))
    told = re.fullmatch(rf"{signal.SIGTERM.value}: .* saved at step (\d+) of {STEPS}; .*", first)
    assert first == second and told is not None
    assert 8 <= int(told[1]) <= 8 + run_cases.INTERRUPTED[name], "it came while step 8 was under way"
    assert _compare(runs / "two/mdc", runs / "two" / name) == 0
    steps = [line["step"] for line in read_json_lines(runs / "two" / name / "log.jsonl")]
    assert steps == list(range(1, STEPS + 1))


def test_the_segments_tell_how_many_processes_there_were(runs: Path) -> None:
    segments = json.loads((runs / "two/there and back/segments.json").read_text())
    told = [(one["first_step"], one["last_step"], one["processes"]) for one in segments]
    assert told == [(1, 5, 1), (6, 10, 2), (11, STEPS, 1)]


def test_all_processes_stop_at_a_loss_that_is_none(runs: Path) -> None:
    """The NaN was one process's; both say the same, with the keys of both."""
    first, second = ((runs / f"two/spoilt{rank}").read_text() for rank in (0, 1))
    assert first == second
    assert "step 7" in first and "sample0" in first and "sample7" in first


def _config(folder: Path, **recipe: object) -> list[str]:
    """Arguments of a pretraining whose data nobody will come to read."""
    config = planned("mini")["runs/alt/ViT-T-12/mdc/s0"].config()
    config["recipe"] |= recipe
    (folder / "config.json").write_text(json_text(config))
    (folder / "runtime.json").write_text(json_text(toy.RUNTIME.model_dump(mode="json")))
    for job in config["inputs"]:
        place = ScaleFolder(folder / "scale").manifest(job, verb_of(job))
        place.parent.mkdir(parents=True)
        place.write_text("{}")
    places = {"runtime": "runtime.json", "folder": "scale", "out": "out", "state": "state"}
    options = [word for option, name in places.items() for word in (f"--{option}", str(folder / name))]
    return ["pretrain", str(folder / "config.json"), *options]


def _told(capfd: pytest.CaptureFixture[str]) -> str:
    """The one line."""
    said = capfd.readouterr().err
    assert said.count("\n") == 1 and said.startswith("mdc "), said
    return said


def test_a_batch_that_cannot_be_shared(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(_config(tmp_path, processes=3)) == 2
    assert "batch_size 64 must be a multiple of accumulation times processes (1 · 3)" in _told(capfd)


def test_torchrun_with_another_number(tmp_path: Path) -> None:
    torchrun = ["torch.distributed.run", "--standalone", "--nproc-per-node=1", "-m", "mdc.app.cli"]
    command = [sys.executable, "-m", *torchrun, *_config(tmp_path, processes=2)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert "recipe.processes is 2, but torchrun started 1" in done.stderr and done.returncode


def test_a_pods_rank_is_not_torchruns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kubeflow sets both in every pod: the job claims its GPU, trains alone, and says how long it took. Here on
    a file system that refuses every chmod, as CIFS does."""
    folder = with_data(plan(), tmp_path)
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "4")
    monkeypatch.setattr(launch, "wanted_gpus", lambda device, processes: processes)
    monkeypatch.setattr(os, "chmod", Mock(side_effect=PermissionError))
    claimed: list[int] = []
    monkeypatch.setattr(launch, "claim_gpus", lambda count, who: claimed.append(count))
    arguments = [str(folder.config(f"runs/{MDC}")), *options(folder=folder.root, out=tmp_path / "out")]
    write_json(tmp_path / "runtime.json", {"workers": 0, "log_every": 1})
    assert main(["pretrain", *arguments, *options(runtime=tmp_path / "runtime.json", state=tmp_path / "state")]) == 0
    assert claimed == [1] and (tmp_path / "out/host.json").is_file()


def test_workers_errors_are_one_line_of_ours(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both workers find no such file; torchrun's page about it is not shown."""
    for name in (launch.LAUNCHER, "OMP_NUM_THREADS", "GLOO_SOCKET_IFNAME"):
        monkeypatch.setenv(name, os.environ.get(name, ""))  # so that they are put back
    arguments = _config(tmp_path, processes=2)
    job = read_job(tmp_path / "config.json", "pretrain")
    (tmp_path / "config.json").rename(tmp_path / "read")
    with pytest.raises(launch.Failed) as failed:
        launch.enter("pretrain", Call(job, ScaleFolder(tmp_path), tmp_path, arguments=tuple(arguments)))
    assert failed.value.exit_code == 2 and str(failed.value) == f"{tmp_path}/config.json: no such file"
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_workers_end_with_their_launcher(tmp_path: Path, number: signal.Signals) -> None:
    command = [sys.executable, "-m", "mdc.app.cli", *_config(tmp_path, processes=2)]
    launcher = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    process = psutil.Process(launcher.pid)
    deadline = time.monotonic() + 600
    while len(workers := process.children()) < 2:
        assert time.monotonic() < deadline and launcher.poll() is None
        time.sleep(0.02)
    launcher.send_signal(number)
    said = launcher.communicate(timeout=300)[1]
    assert launcher.returncode == -number and said == ""
    assert not psutil.wait_procs(workers, timeout=600)[1], "orphans"
