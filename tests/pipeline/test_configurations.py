"""The configurations that Snakemake hands to jobs, with a stand-in `mdc`: a start of Snakemake changes nothing for another one,
and switching values back and forth is right with and without Snakemake's own notes."""

import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from toy_project import Project
from warm import environment

from mdc.plan.records import read_json

pytestmark = pytest.mark.slow

A, B = 192, 160  # training pairs of corpus alt
CORPUS, OTHER = "data/corpora/alt", "data/corpora/half"


class World(Project):
    def __init__(self, folder: Path, bin: Path) -> None:
        super().__init__(folder / "project", bin)
        self.hold, mdc = folder / "hold", bin / "mdc"
        mdc.rename(bin / "mdc_now")
        # a job whose configuration the file `hold` names waits as long as that file is there
        mdc.write_text(
            f'#!/bin/sh\nwhile [ -e {self.hold} ] && case "$2" in *$(cat {self.hold})*) true;; *) false;; esac\n'
            f'do sleep 0.05; done\nexec {bin}/mdc_now "$@"\n'
        )
        mdc.chmod(0o755)

    def pairs(self, count: int) -> None:
        self.edit("data.corpora.alt.source.train", count)

    def ran(self, *targets: str) -> list[str]:
        """Ask for jobs' manifests; the jobs that ran."""
        self.make(*map(self.manifest, targets), "--cores", "1")
        return self.called()

    def manifest(self, job: str) -> str:
        return f"results/toy/{job}/index.json"

    def made_with(self) -> int:
        return int(read_json(self.folder / f"results/toy/{CORPUS}/made.json")["config"]["source"]["train"])

    def configs(self) -> list[Path]:
        return list(self.folder.glob(f"results/toy/configs/{CORPUS}.*.json"))


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
            shutil.rmtree(world.folder / ".snakemake", ignore_errors=True)
        world.ran(CORPUS) if runs else None
        assert world.made_with() == count
        assert world.ran(CORPUS) == []
        assert len(world.configs()) == 1, "those of other values are deleted by a run"
    # a look at other values, and a run of something else with them, change nothing
    world.pairs(B)
    assert world.planned(world.manifest(CORPUS)) == {"corpus": 1}
    world.ran(OTHER)
    world.pairs(A)
    assert world.ran(CORPUS, OTHER) == []
    shutil.rmtree(world.folder / "results", ignore_errors=True)


def test_a_dry_run_with_other_values_does_not_reach_a_running_workflow(world: World) -> None:
    world.pairs(A)
    world.hold.write_text(OTHER)  # asked for first, so that the other one is pending
    arguments = [*map(world.manifest, (OTHER, CORPUS)), "--cores", "1", "--prioritize", world.manifest(OTHER)]
    running = subprocess.Popen(
        [world.bin / "snakemake", *arguments],
        cwd=world.folder,
        env=world.environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    log = world.folder / "results/toy/logs" / f"{OTHER}.log"
    end = time.monotonic() + 600
    while not log.exists() and time.monotonic() < end:
        time.sleep(0.05)
    assert log.exists() and not (world.folder / world.manifest(CORPUS)).exists()
    world.pairs(B)
    assert "corpus" in world.planned(world.manifest(CORPUS))
    assert len(world.configs()) == 2, "nothing is deleted while a workflow runs"
    world.hold.unlink()
    assert running.wait(120) == 0
    assert world.made_with() == A, "what the running workflow was asked for"
    world.called()
    assert world.ran(CORPUS) == [CORPUS] and world.made_with() == B


def test_a_target_that_is_no_job_ends_in_one_line(world: World) -> None:
    done = world.snakemake("results/toy/runs/nothing/run.json", "--cores", "1")
    assert done.returncode == 1 and "scale toy has no job 'runs/nothing'" in done.stderr


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("results/figre3.csv", "results/figure3.csv"),
        ("results/toy/dta/corpora/alt/index.json", "results/toy/data/corpora/alt/index.json"),
        ("results/mini/table1/table1.csv", "--config scale=mini"),
        ("probe_al", "probe_all"),
    ],
)
def test_a_mistyped_target_is_followed_by_the_nearest(world: World, typed: str, said: str) -> None:
    done = world.snakemake(typed, "--cores", "1")
    assert done.returncode == 1 and said in done.stderr.splitlines()[-1]
