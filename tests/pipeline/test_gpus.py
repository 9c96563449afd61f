"""Claims of GPUs, with made-up ids and real processes: no two jobs on one device, no device lost with a killed job."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from mdc.plan.config.read import load
from mdc.plan.jobs.call import Call
from mdc.plan.jobs.folder import ScaleFolder
from mdc.plan.jobs.needs import computing
from mdc.plan.jobs.plan import Plan
from mdc.plan.processes import gpus
from mdc.plan.processes.gpus import claim_gpus, gpu_ids, wanted_gpus
from mdc.plan.records import UserError
from mdc.plan.verbs import VERBS
from mdc.training import launch

HOLD = """
import os, sys
from pathlib import Path
from mdc.plan.processes.gpus import claim_gpus
claim_gpus(int(sys.argv[1]), "mdc test", Path(sys.argv[2]))
print(os.environ["CUDA_VISIBLE_DEVICES"], flush=True)
sys.stdin.read()
"""


class Jobs:
    """Processes that claim GPUs and hold them until they are told to end."""

    def __init__(self, folder: Path, visible: str) -> None:
        self.folder, self.visible = folder, visible
        self.all: list[subprocess.Popen[str]] = []

    def start(self, count: int, code: str = HOLD) -> subprocess.Popen[str]:
        job = subprocess.Popen(
            [sys.executable, "-c", code, str(count), str(self.folder)],
            env={**os.environ, "CUDA_VISIBLE_DEVICES": self.visible},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.all.append(job)
        return job

    def holding(self, job: subprocess.Popen[str]) -> list[str]:
        """The ids that a job has; waits until it has them."""
        assert job.stdout is not None
        return job.stdout.readline().strip().split(",")


@pytest.fixture
def jobs(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Jobs]:
    made = Jobs(tmp_path / "locks", getattr(request, "param", "0,1,2,3"))
    yield made
    for job in made.all:
        job.kill()
        job.communicate()


def _waits(job: subprocess.Popen[str]) -> str:
    assert job.stderr is not None
    line = job.stderr.readline()
    assert "waiting for" in line, line
    return line


@pytest.mark.parametrize(
    "jobs", ["0,1,2,3", "GPU-8932f937-d72c, GPU-1a,MIG-c7/1/0,MIG-c7/2/0", "7,5,3,1"], indirect=True
)
def test_no_two_jobs_have_one_device(jobs: Jobs) -> None:
    """Four jobs at once for four devices; two more get what the next two to end have held."""
    first = [jobs.start(1) for _ in range(4)]
    held = [jobs.holding(job)[0] for job in first]
    assert sorted(held) == sorted(name.strip() for name in jobs.visible.split(","))
    more = [jobs.start(1) for _ in range(2)]
    for job in more:
        _waits(job)
    for job in (first[2], first[0]):
        job.kill()
    assert {jobs.holding(job)[0] for job in more} == {held[2], held[0]}


def test_a_killed_job_frees_its_devices_and_a_waiting_one_says_what_for(jobs: Jobs) -> None:
    first = jobs.start(3)
    assert jobs.holding(first) == ["0", "1", "2"]
    second = jobs.start(2)
    assert _waits(second) == f"mdc test: waiting for 2 free GPUs among 0, 1, 2, 3 ({jobs.folder})\n"
    third = jobs.start(1)  # the one that waits holds nothing meanwhile
    assert jobs.holding(third) == ["3"]
    first.send_signal(signal.SIGKILL)
    first.wait()
    assert jobs.holding(second) == ["0", "1"]


def test_a_child_holds_what_its_dead_parent_claimed(jobs: Jobs) -> None:
    """As the workers of a killed loader do for a moment: a device is free when nobody is left on it."""
    code = HOLD.replace(
        "print(", "child = os.fork()\nif not child: sys.stdin.read(); os._exit(0)\nprint(child) or print("
    )
    parent = jobs.start(4, code)
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    parent.kill()
    parent.wait()
    next_job = jobs.start(1)
    _waits(next_job)
    os.kill(child, signal.SIGKILL)
    assert jobs.holding(next_job) == ["0"]


def test_which_ids_are_here(monkeypatch: pytest.MonkeyPatch) -> None:
    for text, ids in {
        "": [],
        "-1": [],
        "2, 0": ["2", "0"],
        "0,-1,1": ["0"],
        "1,1": ["1"],
        "GPU-ab,MIG-cd/1/0": ["GPU-ab", "MIG-cd/1/0"],
        "NoDevFiles": [],
        "1,void,0": ["1"],
    }.items():
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", text)
        assert gpu_ids() == ids
        assert wanted_gpus("cuda", 2) == 2 and wanted_gpus("cpu", 2) == 0
        assert wanted_gpus("auto", 2) == (2 if ids else 0)


def test_which_devices_are_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By their files: Linux has one for each, Windows' Linux one for all, which is no sign of NVIDIA's driver."""
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(gpus, "_DEVICES", tmp_path)

    def load(driver: bool, name: str) -> None:
        if not driver:
            raise OSError(name)

    for files, driver, ids in [
        ([], True, []),
        (["nvidiactl", "nvidia5", "nvidia7"], True, ["0", "1"]),
        (["dxg"], True, ["0"]),
        (["dxg"], False, []),
    ]:
        for file in files:
            (tmp_path / file).touch()
        monkeypatch.setattr(gpus.ctypes, "CDLL", partial(load, driver))
        assert gpu_ids() == ids, files
        for file in files:
            (tmp_path / file).unlink()


def test_more_than_there_are_is_an_error_not_a_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    with pytest.raises(UserError, match=r"GPUs requested: 8, available: 2 \(0, 1\); allowed: fewer recipe.processes"):
        claim_gpus(8, "mdc test", tmp_path / "locks")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    with pytest.raises(UserError, match="GPUs requested: 1, available: 0; allowed"):
        claim_gpus(1, "mdc test", tmp_path / "locks")


def test_a_folder_of_somebody_else_is_not_trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    (tmp_path / "mine").mkdir()
    (tmp_path / "locks").symlink_to(tmp_path / "mine")
    with pytest.raises(UserError, match="is not your folder"):
        claim_gpus(1, "mdc test", tmp_path / "locks")
    owner = os.getuid()
    monkeypatch.setattr(gpus.os, "getuid", lambda: owner + 1)
    with pytest.raises(UserError, match="is not your folder"):
        claim_gpus(1, "mdc test", tmp_path / "mine")


def test_a_slurm_job_claims_among_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two SLURM jobs on a node may both know their device as 0."""
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    folders = {gpus._lock_folder()}
    for number in ("17", "18"):
        monkeypatch.setenv("SLURM_JOB_ID", number)
        folders.add(gpus._lock_folder())
    assert len(folders) == 3


def test_every_job_that_computes_claims_the_devices_that_the_workflow_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    claimed: dict[str, int] = {}
    monkeypatch.setattr(launch, "wanted_gpus", lambda device, processes: processes)
    monkeypatch.setattr(launch, "claim_gpus", lambda count, who: claimed.update({who: count}))
    monkeypatch.setattr(launch, "_run_workers", lambda *arguments: None)
    plan = Plan(load(Path(__file__).parents[2] / "params.yaml", "mini"))
    jobs = {
        job.verb: job for job in plan.jobs.values() if getattr(job, "run", "") is not None and VERBS[job.verb].computes
    }
    for verb, job in jobs.items():
        launch.enter(verb, Call(job, ScaleFolder(Path("none")), Path("none")))
    assert claimed == {f"mdc {verb}": computing(job)[1] for verb, job in jobs.items()}
    assert {"mdc pretrain", "mdc probe", "mdc encode-corpus", "mdc tokenizer"} <= set(claimed)
