"""What an edit reruns, exactly: every line of the table in docs/edits.md, at scale paper through the real Snakemake.

Everything is made once by a stand-in for `mdc`; each edit is then made, asked about with `snakemake -n`, and undone.
"""

import fnmatch
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import edits
import pytest
import yaml
from edits import EDITS, SCALE, Sandbox
from scale_files import ROOT
from toy_project import Project, good
from warm import environment

from mdc.plan.artefacts import ARTEFACTS
from mdc.plan.config.read import load
from mdc.plan.config.yaml_core import dump_yaml, read_yaml
from mdc.plan.jobs.plan import Plan

pytestmark = pytest.mark.slow


class World:
    """The project at scale paper, all of whose jobs are done."""

    def __init__(self, folder: Path, bin: Path) -> None:
        self.project = Project(folder / "project", bin, MDC_DATA=str(folder / "data"))
        params = self.project.folder / "params.yaml"
        params.write_text(dump_yaml({**read_yaml(ROOT / "params.yaml"), "scale": SCALE}))
        self.project.make("all", "data", "--cores", "256")  # a run takes 64 of them
        self.jobs = set(Plan(load(params)).jobs)
        self.box = Sandbox(self.project.folder, lambda code: good(self.project.run(bin / "python", "-c", code)))

    def planned(self) -> tuple[set[str], set[str]]:
        """The jobs that would run, and the tables and figures that would be copied to results/."""
        outputs = [Path(first) for found in self.project.planned_jobs("all", "data").values() for first in found]
        root = Path("results", SCALE)
        jobs = {path.parent.relative_to(root).as_posix() for path in outputs if path.is_relative_to(root)}
        copied = {path.stem for path in outputs if path.parent == Path("results")}
        # the page that shows them all is rebuilt with any of them
        assert ("index" in copied) == bool(copied)
        return jobs, copied - {"index"}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("edits")
    with environment(folder / "environment") as bin:
        yield World(folder, bin)


def test_every_job_of_the_scale_was_done(world: World) -> None:
    assert world.project.called() == sorted(world.jobs)
    assert world.planned() == (set(), set())


#: edits after which nothing runs; an accepted edit would accept the others, too
QUIET = [edit for edit in EDITS if "jobs" not in edit and "accepted" not in edit]


def test_edits_that_decide_nothing_rerun_nothing(world: World) -> None:
    """All at once. If something would run, they are made one by one to tell which it is."""
    for edit in QUIET:
        world.box.make(edit)
    found = world.planned()
    world.box.undo()
    for edit in QUIET if any(found) else ():
        test_an_edit_reruns_what_it_decides_and_nothing_else(world, edit)
    assert found == (set(), set())


@pytest.mark.parametrize(
    "edit", [e for e in EDITS if e not in QUIET], ids=lambda e: re.sub(r"\W+", "-", e["edit"]).strip("-")[:60]
)
def test_an_edit_reruns_what_it_decides_and_nothing_else(world: World, edit: dict[str, Any]) -> None:
    world.box.make(edit)
    try:
        planned, copied = world.planned()
    finally:
        world.box.undo()
    known, patterns = world.jobs | planned, edits.jobs(edit)
    for pattern in patterns:
        assert fnmatch.filter(known, pattern), f"no job is called {pattern}"
    assert planned == {job for job in known if any(fnmatch.fnmatchcase(job, pattern) for pattern in patterns)}, edit
    assert copied == {job for job in planned if job in ARTEFACTS or job == "table99"}


def test_undone_they_rerun_nothing(world: World) -> None:
    assert world.planned() == (set(), set())


def test_profiles_ask_for_what_the_table_rests_on() -> None:
    profiles = sorted((ROOT / "workflow/profiles").glob("*/config.yaml"))
    assert [path.parent.name for path in profiles] == ["default", "slurm"]
    for path in profiles:
        values = yaml.safe_load(path.read_text())
        assert values["rerun-triggers"] == ["mtime", "input"] and values["keep-going"] is True, path


def test_the_page_is_the_table() -> None:
    assert len({edit["edit"] for edit in EDITS}) == len(EDITS)
    assert edits.DOCS.read_text(encoding="utf-8") == edits.page(), "python tests/support/edits.py writes it anew"
