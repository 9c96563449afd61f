"""SIGKILL at any moment, then the same command again: the same bytes as if nothing had happened."""

import json
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest
from small_project import MDC, longer, options, with_data

from mdc.plan.records import read_json_lines, write_json

ROOT = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.slow


class Place:
    """A scale's folder with the data of a toy run, and what the run must give."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.scale = folder, with_data(longer(), folder)
        self.runtime("often", save_every=0)
        (self.whole,) = self.carry_out("whole", {"argv": self.pretrain("whole"), "kills": [[]]})
        assert self.whole["statuses"] == [0]

    def runtime(self, name: str, **more: int) -> None:
        write_json(self.folder / f"{name}.json", {"workers": 0, "log_every": 1, **more})

    def call(self, verb: str, config: Path, **places: Path) -> list[str]:
        return [verb, str(config), *options(folder=self.scale.root, **places)]

    def pretrain(self, name: str, runtime: str = "often", config: Path | None = None) -> list[str]:
        places = {"out": self.folder / "out" / name, "state": self.folder / "state" / name}
        places["runtime"] = self.folder / f"{runtime}.json"
        return self.call("pretrain", config or self.scale.config(f"runs/{MDC}"), **places)

    def probe(self, name: str) -> list[str]:
        """Of the run where the convention has it, trained once."""
        run = self.scale.job(f"runs/{MDC}")
        if not run.exists():
            shutil.copytree(self.folder / "out/whole", run)
        places = {"out": self.folder / "probed" / name, "cache": self.folder / "cache" / name}
        return self.call("probe", self.scale.config(f"probe/{MDC}"), **places)

    def carry_out(self, name: str, case: dict[str, Any]) -> list[dict[str, Any]]:
        """tests/support/killing.py on one case; see there."""
        plan, told = self.folder / f"{name}.plan.json", self.folder / f"{name}.told.json"
        plan.write_text(json.dumps({**case, "log": str(self.folder / f"{name}.log")}))
        command = [sys.executable, str(ROOT / "tests/support/killing.py"), str(plan), str(told)]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return list(json.loads(told.read_text()))

    def assert_whole(self, name: str) -> None:
        """The run's results, byte for byte; of the log all but the clock's part; and nothing else beside them."""
        out, whole = self.folder / "out" / name, self.folder / "out/whole"
        weights = sorted(path.name for path in whole.glob("*.safetensors"))
        assert weights == ["best.safetensors", "checkpoint.safetensors", "snapshot-00000024.safetensors"]
        for file in (*weights, "run.json"):
            assert (out / file).read_bytes() == (whole / file).read_bytes(), (name, file)
        assert self.losses(out) == self.losses(whole), name
        assert {p.name for p in out.iterdir()} == {p.name for p in whole.iterdir()}, name
        assert {p.name for p in (self.folder / "state" / name).iterdir()} == {"lock"}

    @staticmethod
    def losses(out: Path) -> list[dict[str, Any]]:
        lines = read_json_lines(out / "log.jsonl")
        return [
            {key: value for key, value in line.items() if key not in ("images_per_second", "mfu")} for line in lines
        ]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    return Place(tmp_path_factory.mktemp("killing"))


def test_a_training_killed_at_random_moments(place: Place) -> None:
    rng = random.Random(20)
    seconds = place.whole["seconds"][0]
    # every other try is killed a second time while it makes up for the first
    kills = [[{"seconds": rng.uniform(0, seconds)} for _ in range(1 + n % 2)] for n in range(12)]
    told = place.carry_out("moments", {"argv": place.pretrain("moment{n}"), "kills": kills})
    # a machine that was busier while it was measured is quicker now, and some end before they can be killed
    assert sum(one["statuses"][0] == -9 for one in told) > 5, "too few were killed before their end"
    for n, one in enumerate(told):
        assert one["statuses"][-1] == 0
        place.assert_whole(f"moment{n}")


def test_a_training_killed_after_each_file_operation(place: Place) -> None:
    """Writing a state, in its middle too, fsync, both renames; the same of the results; the removal of the states."""
    # one state in the middle, one at the end
    place.runtime("twice")
    case = {"argv": place.pretrain("op{n}", "twice"), "save_at": 30, "every_operation": True}
    told = place.carry_out("operations", case)
    assert len(told) > 25, "fewer operations than a save of two states and three results takes"
    for n, one in enumerate(told, start=1):
        assert one["statuses"] == ([-9, 0] if n < len(told) else [0])
        place.assert_whole(f"op{n}")


def test_a_probe_killed_after_each_file_operation_and_at_random_moments(place: Place) -> None:
    (whole,) = place.carry_out("probe_whole", {"argv": place.probe("whole"), "kills": [[]]})
    told = place.carry_out("probe_operations", {"argv": place.probe("op{n}"), "every_operation": True})
    rng = random.Random(5)
    kills = [[{"seconds": rng.uniform(0, whole["seconds"][0])}] for _ in range(5)]
    told += place.carry_out("probe_moments", {"argv": place.probe("moment{n}"), "kills": kills})
    assert sum(one["statuses"] == [-9, 0] for one in told) > 10
    folders = sorted((place.folder / "probed").iterdir())
    assert len(folders) == 1 + len(told)
    for folder in folders:
        assert {p.name for p in folder.iterdir()} == {p.name for p in (place.folder / "probed/whole").iterdir()}
        for file in ("probe.json", "items.parquet"):
            assert (folder / file).read_bytes() == (place.folder / "probed/whole" / file).read_bytes(), folder


def test_a_full_disk_while_saving_is_one_line_and_the_last_state_stays(place: Place) -> None:
    state = place.folder / "state/full/*/state.safetensors"
    # killed after the rename of its second state, it has two to lose; then no file can be as large as a third
    kills = [[{"operation": 14}, {"largest_file": 20_000}]]
    (told,) = place.carry_out("full", {"argv": place.pretrain("full"), "kills": kills, "watch": str(state)})
    assert told["statuses"] == [-9, 2, 0]
    assert told["left"][0] == told["left"][1] is not None
    said = (place.folder / "full.log").read_text().replace("\r", "\n").splitlines()
    (line,) = [line for line in said if line.startswith("mdc pretrain:")]
    assert "state.safetensors" in line and "cannot be saved" in line and "File too large" in line and "is kept" in line
    assert not any("Traceback" in line for line in said)
    place.assert_whole("full")


def test_a_signal_ends_a_training_of_two_processes_with_a_state_that_resumes_to_the_bit(place: Place) -> None:
    """Sent to the launcher alone, to all at once (as clusters do), or to one worker; the workers are in sessions of their own."""
    config = place.folder / "two.json"
    write_json(config, longer(processes=2, epochs=30).jobs[f"runs/{MDC}"].config())
    place.runtime("rarely")
    mdc = [sys.executable, "-m", "mdc.app.cli"]

    def command(name: str) -> list[str]:
        return [*mdc, *place.pretrain(name, "rarely", config)]

    subprocess.run(command("whole_of_two"), check=True)
    whole = place.folder / "out/whole_of_two"
    cases = {
        "launcher": (signal.SIGINT, True, 0),
        "all": (signal.SIGTERM, True, 2),
        "worker": (signal.SIGTERM, False, 1),
    }
    for name, (number, launcher, workers) in cases.items():
        with subprocess.Popen(command(name), stderr=subprocess.PIPE, text=True) as process:
            state = place.folder / "state" / name
            while not any(log.read_text().count("\n") >= 5 for log in state.glob("*/log.jsonl")):
                assert process.poll() is None
                time.sleep(0.01)
            for worker in psutil.Process(process.pid).children()[:workers]:
                worker.send_signal(number)
            if launcher:
                process.send_signal(number)
            said = process.communicate(timeout=300)[1]
        assert process.returncode == 128 + number, said
        last = said.splitlines()[-1]
        assert last.startswith("mdc pretrain: ") and number.name in last and "saved at step" in last, said
        subprocess.run(command(name), check=True)
        steps = [line["step"] for line in read_json_lines(place.folder / "out" / name / "log.jsonl") if "loss" in line]
        assert steps == list(range(1, 181))
        for file in ("checkpoint.safetensors", "best.safetensors"):
            assert (place.folder / "out" / name / file).read_bytes() == (whole / file).read_bytes(), (name, file)
