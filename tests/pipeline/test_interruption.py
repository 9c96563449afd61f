"""SIGKILL at any moment, then the same command again: the same bytes as if nothing had happened."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from toy_project import toy as toy_values

from mdc import jobs
from mdc.config import Params, read_yaml, validate
from mdc.records import read_json_lines, write_json

ROOT = Path(__file__).resolve().parents[2]
RUN = "alt/tiny/mdc/s0"


class Place:
    """Shards, vocabulary and configurations of a toy scale, and what a run of it must give."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        values = toy_values(read_yaml(ROOT / "params.yaml"))
        values["scales"]["toy"]["pretrain"]["recipe"] |= {"epochs": 8, "validate_every": 20}
        values["scales"]["toy"]["tables"]["table1"]["probes"] = ["shape"]
        self.params: Params = validate(values)
        for name, config in jobs.configs(self.params).items():
            write_json(folder / f"{name}.json", config)
        self.runtime(folder / "often.json", checkpoint_every=3)
        self.mdc("corpus", "data/corpora/alt", "--out", folder / "alt")
        self.mdc("probe-set", "data/probes/shape", "--out", folder / "shape")
        self.mdc("vocabulary", "data/vocabulary", "--corpora", folder / "alt/index.json", "--out", folder / "v.json")
        (self.whole,) = self.carry_out("whole", {"argv": self.pretrain("whole"), "kills": [[]]})
        assert self.whole["statuses"] == [0]

    def runtime(self, path: Path, checkpoint_every: int) -> None:
        write_json(path, {"workers": 0, "log_every": 1, "checkpoint_every": checkpoint_every})

    def mdc(self, verb: str, job: str, *arguments: object) -> None:
        from mdc.cli import main

        assert main([verb, str(self.folder / f"{job}.json"), *map(str, arguments)]) == 0

    def pretrain(self, name: str, runtime: str = "often", config: Path | None = None) -> list[str]:
        f = self.folder
        argv = ["pretrain", str(config or f / f"runs/{RUN}.json"), "--shards", str(f / "alt/index.json")]
        argv += ["--vocabulary", str(f / "v.json"), "--runtime", str(f / f"{runtime}.json")]
        return [*argv, "--out", str(f / "out" / name), "--state", str(f / "state" / name)]

    def probe(self, name: str) -> list[str]:
        f = self.folder
        argv = ["probe", str(f / f"probe/{RUN}.json"), "--run", str(f / "out/whole/run.json")]
        argv += ["--sets", str(f / "shape/index.json")]
        return [*argv, "--cache", str(f / "cache" / name), "--out", str(f / "probed" / name)]

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
        for file in ("checkpoint.safetensors", "run.json"):
            assert (out / file).read_bytes() == (whole / file).read_bytes(), (name, file)
        assert self.losses(out) == self.losses(whole), name
        assert {p.name for p in out.iterdir()} == {p.name for p in whole.iterdir()}, name
        assert {p.name for p in (self.folder / "state" / name).iterdir()} == {"lock", "log.jsonl", "tensorboard"}

    @staticmethod
    def losses(out: Path) -> list[dict[str, Any]]:
        lines = read_json_lines(out / "log.jsonl")
        return [{key: value for key, value in line.items() if key != "images_per_second"} for line in lines]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    return Place(tmp_path_factory.mktemp("killing"))


def test_a_training_killed_at_twenty_random_moments(place: Place) -> None:
    rng = random.Random(20)
    seconds = place.whole["seconds"][0]
    # every other try is killed a second time while it makes up for the first
    kills = [[{"seconds": rng.uniform(0, seconds)} for _ in range(1 + n % 2)] for n in range(20)]
    told = place.carry_out("moments", {"argv": place.pretrain("moment{n}"), "kills": kills})
    # a machine that was busier while it was measured is quicker now, and some end before they can be killed
    assert sum(one["statuses"][0] == -9 for one in told) >= 10, "too few were killed before their end"
    for n, one in enumerate(told):
        assert one["statuses"][-1] == 0
        place.assert_whole(f"moment{n}")


def test_a_training_killed_after_each_file_operation(place: Place) -> None:
    """Writing a state, in its middle too, fsync, both renames; the same of the results; the removal of the states."""
    # one state in the middle, one at the end
    place.runtime(place.folder / "twice.json", checkpoint_every=30)
    told = place.carry_out("operations", {"argv": place.pretrain("op{n}", "twice"), "every_operation": True})
    assert len(told) > 30, "fewer operations than a save of two states and four results takes"
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
    state = place.folder / "state/full/state.safetensors"
    # killed after the rename of its second state, it has two to lose; then no file can be as large as a third
    kills = [[{"operation": 14}, {"largest_file": 20_000}]]
    (told,) = place.carry_out("full", {"argv": place.pretrain("full"), "kills": kills, "watch": str(state)})
    assert told["statuses"] == [-9, 2, 0]
    assert told["left"][0] == told["left"][1] is not None
    said = (place.folder / "full.log").read_text().replace("\r", "\n").splitlines()
    (line,) = [line for line in said if line.startswith("mdc pretrain:")]
    assert str(state) in line and "cannot be saved" in line and "File too large" in line and "is kept" in line
    assert not any("Traceback" in line for line in said)
    place.assert_whole("full")
