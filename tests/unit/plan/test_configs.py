"""Configurations of jobs as files: their times say whether a job has to run, and their names what they hold."""

import os
from pathlib import Path

import pytest

from mdc.app.cli import main
from mdc.plan.config.read import load
from mdc.plan.jobs.configs import delete_others, write_configs
from mdc.plan.jobs.folder import ScaleFolder
from mdc.plan.jobs.job import Job
from mdc.plan.jobs.plan import Plan
from mdc.plan.records import write_json

ROOT = Path(__file__).resolve().parents[3]
NAME = "figure3"


@pytest.fixture(scope="module")
def jobs() -> tuple[Job, Job]:
    """The same job with two configurations."""
    job = Plan(load(ROOT / "params.yaml", "mini")).jobs[NAME]
    return job, job.model_copy(update={"fingerprint": "0" * 64})


def _done(folder: ScaleFolder, job: Job, when: float) -> None:
    record = folder.record(job.job, job.verb)
    record.parent.mkdir(parents=True, exist_ok=True)
    write_json(record, {"config_sha256": job.sha256})
    os.utime(record, (when, when))


def test_a_file_is_older_than_its_record_just_if_this_was_made_with_it(tmp_path: Path, jobs: tuple[Job, Job]) -> None:
    folder, (first, second) = ScaleFolder(tmp_path), jobs
    assert folder.config(NAME, first.sha256) != folder.config(NAME, second.sha256)
    for asked in (first, second, first):
        write_configs(folder, [asked])
    for done in (first, second, first):
        _done(folder, done, 1e9)
        for asked in (first, second, first):
            os.utime(folder.config(NAME, asked.sha256), (1e9, 1e9))  # the same tick of a coarse clock
            newer = write_configs(folder, [asked])[NAME].stat().st_mtime > 1e9
            assert newer == (asked is not done)


def test_a_file_that_is_newer_already_is_not_touched(tmp_path: Path, jobs: tuple[Job, Job]) -> None:
    """Its job may be running: outputs that it has written must not become older than it."""
    folder, (first, second) = ScaleFolder(tmp_path), jobs
    _done(folder, first, 1e9)
    before = write_configs(folder, [second])[NAME].stat().st_mtime_ns
    assert write_configs(folder, [second])[NAME].stat().st_mtime_ns == before


def test_what_nobody_asks_for_is_deleted(tmp_path: Path, jobs: tuple[Job, Job]) -> None:
    folder = ScaleFolder(tmp_path)
    first, second = (write_configs(folder, [job])[NAME] for job in jobs)
    by_hand = first.with_name("by_hand.json")
    by_hand.touch()
    delete_others(folder, [second])
    assert not first.exists() and second.exists() and by_hand.exists()


def test_an_edited_file_is_refused(tmp_path: Path, jobs: tuple[Job, Job], capsys: pytest.CaptureFixture[str]) -> None:
    path = write_configs(ScaleFolder(tmp_path), [jobs[0]])[NAME]
    path.write_text(path.read_text().replace(jobs[0].fingerprint, "0" * 64))
    assert main(["make", str(path)]) == 2
    assert "delete it" in capsys.readouterr().err
