"""The configurations that Snakemake hands to jobs, with a stand-in `mdc`: a start of Snakemake changes nothing for another one,
and switching values back and forth is right with and without Snakemake's own notes."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from toy_project import Project
from warm import environment

pytestmark = pytest.mark.slow

A, B = 192, 160  # training pairs of corpus alt
CORPUS, OTHER, RUN = "data/corpora/alt", "data/corpora/half", "runs/half/tiny/mdc/s0"


class World:
    def __init__(self, folder: Path, bin: Path) -> None:
        self.calls, self.hold = folder / "calls", folder / "hold"
        (folder / "project").mkdir()
        mdc = bin / "mdc"
        mdc.rename(bin / "mdc_now")
        # a job whose configuration the file `hold` names waits as long as that file is there
        mdc.write_text(
            f'#!/bin/sh\nwhile [ -e {self.hold} ] && case "$2" in *$(cat {self.hold})*) true;; *) false;; esac\n'
            f'do sleep 0.05; done\nexec {bin}/mdc_now "$@"\n'
        )
        mdc.chmod(0o755)
        self.project = Project(folder / "project", bin, CALLS=str(self.calls), DIE=str(folder / "die"))
        self.seen = 0

    def pairs(self, count: int) -> None:
        self.project.values["data"]["corpora"]["alt"]["source"]["train"] = count
        self.project.write()

    def make(self, *targets: str) -> list[str]:
        """Ask for jobs' manifests; the jobs that ran."""
        done = self.project.snakemake(*map(self.manifest, targets), "--cores", "1")
        assert done.returncode == 0, done.stderr
        return self.called()

    def called(self) -> list[str]:
        lines = self.calls.read_text().splitlines()
        found, self.seen = lines[self.seen :], len(lines)
        return found

    def manifest(self, job: str) -> str:
        return f"results/toy/{job}/{'run.json' if job.startswith('runs/') else 'index.json'}"

    def made_with(self, job: str = CORPUS) -> int:
        record: dict[str, Any] = json.loads((self.project.folder / f"results/toy/{job}/made.json").read_text())
        return int(record["config"]["source"]["train"])

    def configs(self, job: str = CORPUS) -> list[str]:
        return sorted(path.name for path in self.project.folder.glob(f"results/toy/configs/{job}.*.json"))


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("configurations")
    with environment(folder / "environment") as bin:
        yield World(folder, bin)


@pytest.mark.parametrize("forgets", [False, True], ids=["with Snakemake's notes", "without"])
def test_to_other_values_and_back(world: World, forgets: bool) -> None:
    for count, runs in ((A, True), (B, True), (A, True), (A, False)):
        world.pairs(count)
        if forgets:
            shutil.rmtree(world.project.folder / ".snakemake", ignore_errors=True)
        world.make(CORPUS) if runs else None
        assert world.made_with() == count
        assert world.make(CORPUS) == []
        assert len(world.configs()) == 1, "those of other values are deleted by a run"
    # a look at other values, and a run of something else with them, change nothing
    world.pairs(B)
    assert world.project.planned(world.manifest(CORPUS)) == {"corpus": 1}
    world.make(OTHER)
    world.pairs(A)
    assert world.make(CORPUS, OTHER) == []
    shutil.rmtree(world.project.folder / "results", ignore_errors=True)


def test_a_dry_run_with_other_values_does_not_reach_a_running_workflow(world: World) -> None:
    world.pairs(A)
    world.hold.write_text(OTHER)  # asked for first, so that the other one is pending
    arguments = [*map(world.manifest, (OTHER, CORPUS)), "--cores", "1", "--prioritize", world.manifest(OTHER)]
    running = subprocess.Popen(
        [world.project.bin / "snakemake", *arguments],
        cwd=world.project.folder,
        env=world.project.environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    log = world.project.folder / "results/toy/logs" / f"{OTHER}.log"
    end = time.monotonic() + 120
    while not log.exists() and time.monotonic() < end:
        time.sleep(0.05)
    assert log.exists() and not (world.project.folder / world.manifest(CORPUS)).exists()
    world.pairs(B)
    assert "corpus" in world.project.planned(world.manifest(CORPUS))
    assert len(world.configs()) == 2, "nothing is deleted while a workflow runs"
    world.hold.unlink()
    assert running.wait(120) == 0
    assert world.made_with() == A, "what the running workflow was asked for"
    world.called()
    assert world.make(CORPUS) == [CORPUS] and world.made_with() == B


def test_a_target_that_is_no_job_ends_in_one_line(world: World) -> None:
    done = world.project.snakemake("results/toy/runs/nothing/run.json", "--cores", "1")
    assert done.returncode == 1 and "scale toy has no job 'runs/nothing'" in done.stderr
