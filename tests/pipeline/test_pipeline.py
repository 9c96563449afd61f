"""The whole way at a toy scale, through the real DVC and Snakemake: data, shards, training, probes, tables; and
what a killed Snakemake leaves."""

import copy
import json
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from scale_files import ROOT
from shown import read_rows
from toy_project import BIN, Project, good
from warm import environment

from mdc.plan.artefacts import ARTEFACTS
from mdc.plan.config.read import load, validate
from mdc.plan.jobs.plan import Plan

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    with environment(tmp_path_factory.mktemp("environment") / "warm", stand_in=False) as bin:
        made = Project(tmp_path_factory.mktemp("project"), bin)
        # those that the scale names, and one that it does not
        named = made.values["tables"]
        made.keep_artefacts([*named, next(name for name in ARTEFACTS if name not in named)])
        made.dvc("repro")
        yield made


def test_headline_numbers_are_the_tables(project: Project) -> None:
    table = read_rows(project.folder / "results/table1_long.csv")
    rows = [row for row in table if row["label"] == "Average" and row["gain"]]
    assert len(rows) == 3
    shown = json.loads(project.dvc("metrics", "show", "--json"))
    headline = shown[""]["data"]["results/toy/table1/table1_metrics.json"]["data"]
    assert set(headline) == {"alt/tiny/clip", "alt/tiny/arc", "alt/tiny/mdc"}
    for row in rows:
        numbers = headline[row["system"]]
        # both are rounded, the file's to two decimals and the table's to four
        assert numbers == pytest.approx({"average": float(row["value"]), "gain": float(row["gain"])}, abs=0.0051)


def test_every_link_behind_the_tables_holds(project: Project) -> None:
    """`mdc verify` and `mdc why` on what the real workflow left: its files, copies, commands and logs."""
    assert project.planned("all") == {}
    said = good(project.mdc("verify"))
    assert f"{len(Plan(validate(project.values)).jobs)} records: good" in said
    results = project.folder / "results"
    named = project.values["tables"]
    copies = {file for name in named for file in (f"{name}.json", *ARTEFACTS[name].files)}
    assert {path.name for path in results.glob("*.*")} == copies | {"README.md", "index.html"}
    said = good(project.mdc("why", "results/table1.csv", "--row", "MDC", "--column", "Digits"))
    logs = re.findall(r"^  log +(.*)$", said, re.M)
    assert len(logs) >= 6 and all((project.folder / log).is_file() for log in logs), logs
    # the command that is printed does the job again
    command = re.search(r"^  command +(mdc make .*table1.*)$", said, re.M)
    before = (results / "toy/table1/table1.json").read_bytes()
    assert command and project.shell(f"{command[1]} --out again").returncode == 0
    assert (project.folder / "again/table1.json").read_bytes() == before


def test_the_report_is_one_page_with_every_table_and_figure(project: Project) -> None:
    page = project.folder / "report.html"
    project.make("--report", str(page))
    text = page.read_text(encoding="utf-8")
    page.unlink()
    for name in project.values["tables"]:
        for title in ARTEFACTS[name].shown.values():
            assert title in text
    # what each shows says which runs it is made from, at which scale; and nothing is loaded from elsewhere
    assert "at scale toy" in text and "Made from 5 records" in text and "alt/tiny/mdc/s0" in text
    assert not re.search(r'(src|href)="https?://[^"]*\.(js|css)"', text)
    assert text.count("data:image/png;") >= 3 and text.count("data:text/html") >= 3


def test_the_papers_tables_and_figures_of_probes_need_44_trainings() -> None:
    """That Snakemake makes each job of this scale once, test_edits.py says."""
    plan = Plan(load(ROOT / "params.yaml", "paper"))
    probing = plan.scale.tables.needing("probe")
    assert set(probing) == {"table1", "table4", "table5", "figure4", "figure5"}
    assert len({run.id for table in probing.values() for run in plan.runs_of(table)}) == 44


def test_a_wrong_value_stops_before_the_first_job(project: Project) -> None:
    done = project.snakemake("results/table1.csv", "--cores", "1", "--config", "scale=huge")
    assert done.returncode != 0 and "Traceback" not in done.stderr
    assert "scale = 'huge': no file scales/huge.yaml; allowed: flickr8k, " in done.stderr


def test_a_missing_dataset_fails_in_its_job_and_the_last_lines_say_so(project: Project) -> None:
    names = ("single", "dense")
    targets = [f"results/flickr8k/data/corpora/{name}/index.json" for name in names]
    # the last lines are written at the process's end, which a fork of a warm server leaves out
    done = project.run(BIN / "snakemake", *targets, "--cores", "2", "--config", "scale=flickr8k")
    assert done.returncode != 0
    logs = [f"results/flickr8k/logs/data/corpora/{name}.log" for name in names]
    for log, target in zip(logs, targets, strict=True):
        assert "Traceback" not in (project.folder / log).read_text()
        assert not (project.folder / target).exists()
    # both jobs have the same cause
    cause = done.stderr.rstrip().splitlines()[-1]
    assert cause.startswith("mdc corpus: data/flickr8k.parquet: no such file") and "MDC_DATA" in cause
    assert cause.endswith(tuple(f"(log: {log}, and those of 1 more)" for log in logs))


def test_a_killed_snakemake_leaves_a_trainer_that_the_next_one_waits_for(project: Project) -> None:
    """The orphan is stopped (SIGSTOP) while others try to join it, so that nothing here depends on speed."""
    scale = project.folder / "results/toy"
    target = "results/toy/runs/alt/tiny/arc/s0/run.json"
    state = project.folder / ".state/toy/runs/alt/tiny/arc/s0"
    job_log = scale / "logs/runs/alt/tiny/arc/s0.log"
    before = copy.deepcopy(project.values)
    long = {"when": {"method": ["arc"]}, "set": {"epochs": 60}}
    project.values["pretrain"]["overrides"] = [long]
    project.write()
    shutil.rmtree(state)  # what the fixture's run left there would pass for the new one's

    def until(condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 600
        while not condition():
            assert time.monotonic() < deadline
            time.sleep(0.01)

    command = [str(BIN / "snakemake"), target, "--cores", "1"]
    quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "env": project.environment}
    first = subprocess.Popen(command, cwd=project.folder, **quiet)
    until(lambda: any(log.read_text().count("\n") > 2 for log in state.glob("*/log.jsonl")))
    orphan = int((state / "lock").read_text())
    os.kill(orphan, signal.SIGSTOP)
    try:
        first.kill()
        assert first.wait() == -9
        # by hand: refused with the holder's process id
        job = [str(BIN / "mdc"), "pretrain", "runs/alt/tiny/arc/s0"]
        job += ["--runtime", str(scale / "configs/pretrain.runtime.json")]
        plain: dict[str, Any] = {
            "capture_output": True,
            "text": True,
            "env": project.environment,
            "cwd": project.folder,
        }
        refused = subprocess.run([*job, "--state", str(state)], **plain)
        assert refused.returncode == 2 and f"process {orphan} is training this run already" in refused.stderr
        # by Snakemake: waited for, once the lock that the killed one left is lifted
        locked = project.run(BIN / "snakemake", target, "--cores", "1")
        assert locked.returncode != 0 and "--unlock" in locked.stdout + locked.stderr
        assert project.run(BIN / "snakemake", "--unlock").returncode == 0
        second = subprocess.Popen(command, cwd=project.folder, **quiet)
        waits = f"process {orphan} is training this run already; waiting"
        until(lambda: job_log.exists() and waits in job_log.read_text())
    finally:
        os.kill(orphan, signal.SIGCONT)
    assert second.wait() == 0
    assert "has finished this run" in job_log.read_text()
    alone = ["--out", str(project.folder / "alone"), "--state", str(project.folder / ".state/alone")]
    done = subprocess.run([*job, *alone], **plain)
    assert done.returncode == 0, done.stderr
    for name in ("run.json", "checkpoint.safetensors"):
        assert (scale / "runs/alt/tiny/arc/s0" / name).read_bytes() == (project.folder / "alone" / name).read_bytes()
    project.values = before
    project.write()
    project.snakemake("-n", target)  # the configurations, too, are again what they were
