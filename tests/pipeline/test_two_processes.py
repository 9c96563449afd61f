"""Two processes train one run, and one of them fails: the run ends at once with that one's own message, and goes on later."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from small_project import MDC, longer, options, with_data

from mdc.plan.records import write_json

pytestmark = pytest.mark.slow

# Leaving the group waits for all, as under nccl; and the second process fails in its sixth step
FAILS = """
import os
if "RANK" in os.environ:
    import signal
    import torch
    torch.distributed.destroy_process_group = torch.distributed.barrier
    from mdc.plan.records import UserError
    from mdc.training import trainer
    step = trainer.optimizer_step
    def failing(training, optimizer, number, *rest):
        if training.group.rank == 1 and number == 5:
            {failure}
        return step(training, optimizer, number, *rest)
    trainer.optimizer_step = failing
"""


class Place:
    def __init__(self, folder: Path) -> None:
        self.folder, self.scale = folder, with_data(longer(epochs=4, processes=2), folder)
        write_json(folder / "runtime.json", {"workers": 0, "log_every": 1, "save_every": 0})

    def train(self, name: str, failure: str = "") -> tuple[int, list[str]]:
        """Exit code and what was said; ends before the group's own time-out of 30 minutes, or the test fails."""
        hooks = self.folder / f"hooks_{name}"
        if failure:
            hooks.mkdir(exist_ok=True)
            (hooks / "sitecustomize.py").write_text(FAILS.format(failure=failure))
        places = {"folder": self.scale.root, "runtime": self.folder / "runtime.json"}
        places |= {"out": self.folder / "out" / name, "state": self.folder / "state" / name}
        words = [str(self.scale.config(f"runs/{MDC}")), *options(**places)]
        paths = [str(hooks)] * bool(failure) + os.environ.get("PYTHONPATH", "").split(os.pathsep)
        done = subprocess.run(
            [sys.executable, "-m", "mdc.app.cli", "pretrain", *words],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))},
            capture_output=True,
            text=True,
            timeout=900,
        )
        return done.returncode, done.stderr.splitlines()


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    made = Place(tmp_path_factory.mktemp("two"))
    assert made.train("whole")[0] == 0
    return made


@pytest.mark.parametrize(
    ("failure", "code", "says"),
    [
        (
            'raise UserError("shard-000000.tar: sample 7 is damaged")',
            2,
            "mdc pretrain: shard-000000.tar: sample 7 is damaged",
        ),
        (
            'raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB")',
            2,
            "raise accumulation, or set activation_checkpointing",
        ),
        ('raise RuntimeError("its own fault")', 1, "process 1 failed with exit code 1"),
        ("os.kill(os.getpid(), signal.SIGKILL)", 137, "process 1 was ended by SIGKILL"),
    ],
)
def test_one_that_fails_ends_all_with_its_own_message_and_the_run_resumes(
    place: Place, failure: str, code: int, says: str
) -> None:
    name = f"fails{code}{len(says)}"
    found, said = place.train(name, failure)
    assert found == code, said
    assert says in said[-1], said
    assert code == 1 or not any("Traceback" in line for line in said), said
    (state,) = (place.folder / "state" / name).glob("*/state.safetensors")
    if code == 2:  # the newest state is damaged too: one process chooses the one before it for all
        data = bytearray(state.read_bytes())
        data[len(data) // 2] ^= 1
        state.write_bytes(data)
    found, said = place.train(name)
    assert found == 0, said
    assert any("damaged" in line for line in said) == (code == 2)
    weights = [place.folder / "out" / run / "checkpoint.safetensors" for run in (name, "whole")]
    assert weights[0].read_bytes() == weights[1].read_bytes()
