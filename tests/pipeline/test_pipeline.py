"""The whole way at a toy scale, through the real DVC and Snakemake: data, shards, training, probes, tables; then what
reruns, and what a second clone gets."""

from __future__ import annotations

import copy
import csv
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from toy_project import BIN, Project

from mdc.config import load
from mdc.fingerprint import ROOT as SRC
from mdc.fingerprint import closure, left_out
from mdc.jobs import TABLES, VERBS, runs
from mdc.records import sha256_file


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    source = Project(tmp_path_factory.mktemp("source"))
    source.dvc("remote", "add", "--default", "store", str(tmp_path_factory.mktemp("remote")))
    source.commit()
    made = Project(tmp_path_factory.mktemp("project"), source=source)
    made.dvc("repro")
    return made


def test_a_second_clone_gets_everything_through_the_remote(
    project: Project, tmp_path_factory: pytest.TempPathFactory
) -> None:
    assert project.planned("all") == {}
    project.commit()
    project.dvc("push")
    clone = Project(tmp_path_factory.mktemp("clone"), source=project)
    clone.dvc("pull")
    done = clone.adopt()
    assert done.returncode == 0, done.stderr
    for path in project.outs():
        assert sha256_file(clone.folder / path) == sha256_file(project.folder / path)
    assert clone.planned("all") == {}
    assert "up to date" in clone.dvc("status")
    assert "Running stage" not in clone.dvc("repro")


def test_headline_numbers_are_the_tables(project: Project) -> None:
    with (project.folder / "results/table1_long.csv").open() as stream:
        rows = [row for row in csv.DictReader(stream) if row["benchmark"] == "Average" and row["gain"]]
    assert len(rows) == 3
    shown = json.loads(project.dvc("metrics", "show", "--json"))
    headline = shown[""]["data"]["results/toy/table1_metrics.json"]["data"]
    assert set(headline) == {"alt/tiny/clip", "alt/tiny/arc", "alt/tiny/mdc"}
    for row in rows:
        numbers = headline[row["run"].removesuffix("/s0")]
        # both are rounded, the file's to two decimals and the table's to four
        assert numbers == pytest.approx({"average": float(row["value"]), "gain": float(row["gain"])}, abs=0.0051)


def test_table_holds_every_row(project: Project) -> None:
    with (project.folder / "results/table1.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    methods = [row["method"] for row in rows]
    for label in ("CLIP", "ARC", "MDC"):
        assert methods.count(label) == 1
    assert sum("ntrained" in m for m in methods) == 2, "one untrained row a pooling"
    for row in rows:
        if row["method"] in ("CLIP", "ARC", "MDC"):
            values = [float(row[name]) for name in ("Shape", "Digits")]
            assert all(0 <= v <= 100 for v in values)
            assert abs(float(row["Average"]) - sum(values) / 2) <= 0.1
    for name in ("table1_long.csv", "table1.html", "table1.md", "table1.tex", "table1_contrasts.csv"):
        assert (project.folder / "results" / name).stat().st_size > 0


def test_chain_of_hashes_holds(project: Project) -> None:
    scale = project.folder / "results/toy"
    run = json.loads((scale / "runs/alt/tiny/mdc/s0/run.json").read_text())
    folder = scale / "runs/alt/tiny/mdc/s0"
    assert run["checkpoint"]["sha256"] == sha256_file(folder / run["checkpoint"]["file"])
    assert run["inputs"]["shards_sha256"] == sha256_file(scale / "data/corpora/alt/index.json")
    assert run["config"] == json.loads((scale / "configs/runs/alt/tiny/mdc/s0.json").read_text())
    assert run["skipped"] == json.loads((scale / "data/corpora/alt/index.json").read_text())["skipped"]
    record = json.loads((scale / "probe/alt/tiny/mdc/s0/probe.json").read_text())
    assert all("skipped" in result for result in record["probes"].values())
    assert record["run_sha256"] == sha256_file(folder / "run.json")
    assert record["items"]["sha256"] == sha256_file(scale / "probe/alt/tiny/mdc/s0/items.parquet")


def test_every_link_behind_the_tables_holds(project: Project) -> None:
    """`mdc verify` and `mdc why` on what the real workflow left: its files, copies, commands and logs."""
    done = project.mdc("verify", "--rebuild")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "5 probe records: good" in done.stdout and "5 loss logs: good" in done.stdout
    results = project.folder / "results"
    artefacts = (*TABLES, "figure_loss", "figure_schedules", "figure3", "table9", "recipes")
    records = {f"{name}.json" for name in artefacts}
    named = {name for record in records for name in _outputs(results / record)}
    assert {path.name for path in results.glob("*.*")} == named | records | {"README.md"}
    done = project.mdc("why", "results/table1.csv", "--row", "MDC", "--column", "Digits")
    assert done.returncode == 0, done.stderr
    logs = re.findall(r"^  log +(.*)$", done.stdout, re.M)
    assert len(logs) == 6 and all((project.folder / log).is_file() for log in logs), logs
    # the command that is printed does the job again
    command = re.search(r"^  command +(mdc table1 .*)$", done.stdout, re.M)
    before = (results / "toy/table1.json").read_bytes()
    assert command and project.shell(command[1].replace("--out results/toy", "--out again")).returncode == 0
    assert (project.folder / "again/table1.json").read_bytes() == before


def test_the_report_is_one_page_with_every_table_and_figure(project: Project) -> None:
    page = project.folder / "report.html"
    done = project.snakemake("--report", str(page))
    assert done.returncode == 0, done.stderr
    text = page.read_text(encoding="utf-8")
    page.unlink()
    titles = [
        "Table 1: linear probing",
        "Table 4: ablation on t",
        "Table 5: noise schedules",
        "Table 6: hyper-parameters",
        "Table 9: licences",
        "Figure 3: caption lengths",
    ]
    titles += ["Figure 4: mask ratios", "Figure 5: numbers of pairs", "Figure: steadiness of the noise schedules"]
    for title in [*titles, "Figure: losses", "Figure: what training adds"]:
        assert title in text
    # what each shows says which runs it is made from, at which scale; and nothing is loaded from elsewhere
    assert "at scale toy" in text and "Made from 5 probe records" in text and "alt/tiny/mdc/s0" in text
    assert not re.search(r'(src|href)="https?://[^"]*\.(js|css)"', text)
    assert text.count("data:image/png;") >= 3 and text.count("data:text/html") >= 3


def _outputs(record: Path) -> list[str]:
    return list(json.loads(record.read_text())["outputs"])


def test_again_there_is_nothing_to_do_and_edits_rerun_what_they_decide(project: Project) -> None:
    assert project.planned() == {}
    before = copy.deepcopy(project.values)
    try:
        project.values["scales"]["toy"]["probe"]["lr"] = 0.2
        project.write()
        assert project.planned() == {"probe": 3, "probe_untrained": 2, "table1": 1, "publish_table1": 1}
        project.values = copy.deepcopy(before)
        project.values["methods"]["mdc"]["t_range"] = [0.3, 0.9]
        project.write()
        assert project.planned() == {"pretrain": 1, "probe": 1, "table1": 1, "publish_table1": 1}
    finally:
        project.values = before
        project.write()
    assert project.planned() == {}
    # another scale touches only its own folder; coming back there is nothing to do
    grid = project.planned("all", "data", "--config", "scale=paper")
    assert grid["pretrain"] == 44
    data = load(project.folder / "params.yaml", "paper").current().data
    sets = {"obtain": data.datasets, "corpus": data.corpora, "probe_set": data.probes, "choice_set": data.choices}
    assert {rule: grid[rule] for rule in sets} == {rule: len(entries) for rule, entries in sets.items()}
    assert project.planned() == {}


def test_the_papers_tables_and_figures_need_44_trainings_each_once(project: Project) -> None:
    targets = [f"results/paper/{name}.csv" for name in ("table1", "table4", "table5", "figure4", "figure5")]
    planned = project.planned_jobs(*targets, "--config", "scale=paper")
    assert len(planned["pretrain"]) == len(set(planned["pretrain"])) == 44
    trained = {name.removeprefix("results/paper/runs/").rpartition("/")[0] for name in planned["pretrain"]}
    assert trained == {run.id for run in runs(load(project.folder / "params.yaml", "paper"))}
    # a probe of each, and of the initial weights of three towers, each once for patches and once for [CLS]
    assert len(planned["probe"]) == 44 and len(planned["probe_untrained"]) == 3 * 2
    assert [len(planned[name]) for name in TABLES] == [1] * len(TABLES)


def test_a_wrong_value_stops_before_the_first_job(project: Project) -> None:
    done = project.snakemake("results/table1.csv", "--cores", "1", "--config", "scale=huge")
    assert done.returncode != 0
    assert "allowed: mini, flickr8k, paper" in done.stderr and "Traceback" not in done.stderr


def test_a_missing_dataset_fails_in_its_job_with_one_line(project: Project) -> None:
    target = "results/flickr8k/data/corpora/single/index.json"
    done = project.snakemake(target, "--cores", "1", "--config", "scale=flickr8k")
    assert done.returncode != 0
    log = (project.folder / "results/flickr8k/logs/data/corpora/single.log").read_text()
    assert "MDC_DATA" in log and "Traceback" not in log
    assert not (project.folder / target).exists()


def test_a_killed_snakemake_leaves_a_trainer_that_the_next_one_waits_for(project: Project) -> None:
    """The orphan is stopped (SIGSTOP) while others try to join it, so that nothing here depends on speed."""
    scale = project.folder / "results/toy"
    target = "results/toy/runs/alt/tiny/arc/s0/run.json"
    state = project.folder / ".state/toy/runs/alt/tiny/arc/s0"
    job_log = scale / "logs/runs/alt/tiny/arc/s0.log"
    before = copy.deepcopy(project.values)
    long = {"when": {"method": ["arc"]}, "set": {"epochs": 200}}
    project.values["scales"]["toy"]["pretrain"]["overrides"] = [long]
    project.write()
    shutil.rmtree(state)  # what the fixture's run left there would pass for the new one's

    def until(condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 120
        while not condition():
            assert time.monotonic() < deadline
            time.sleep(0.01)

    command = [str(BIN / "snakemake"), target, "--cores", "1"]
    quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "env": project.environment}
    first = subprocess.Popen(command, cwd=project.folder, **quiet)
    until(lambda: (state / "log.jsonl").exists() and (state / "log.jsonl").read_text().count("\n") > 2)
    orphan = int((state / "lock").read_text())
    os.kill(orphan, signal.SIGSTOP)
    try:
        first.kill()
        assert first.wait() == -9
        # by hand: refused with the holder's process id
        job = [str(BIN / "mdc"), "pretrain", str(scale / "configs/runs/alt/tiny/arc/s0.json")]
        job += ["--shards", str(scale / "data/corpora/alt/index.json")]
        job += ["--vocabulary", str(scale / "data/vocabulary.json"), "--runtime", str(scale / "configs/runtime.json")]
        refused = subprocess.run(
            [*job, "--out", str(scale / "runs/alt/tiny/arc/s0"), "--state", str(state)], capture_output=True, text=True
        )
        assert refused.returncode == 2 and f"process {orphan} is training this run already" in refused.stderr
        # by Snakemake: waited for
        second = subprocess.Popen(command, cwd=project.folder, **quiet)
        waits = f"process {orphan} is training this run already; waiting"
        until(lambda: job_log.exists() and waits in job_log.read_text())
    finally:
        os.kill(orphan, signal.SIGCONT)
    assert second.wait() == 0
    assert "has finished this run" in job_log.read_text()
    done = subprocess.run(
        [*job, "--out", str(project.folder / "alone"), "--state", str(project.folder / ".state/alone")],
        capture_output=True,
    )
    assert done.returncode == 0
    for name in ("run.json", "checkpoint.safetensors"):
        assert (scale / "runs/alt/tiny/arc/s0" / name).read_bytes() == (project.folder / "alone" / name).read_bytes()
    project.values = before
    project.write()
    project.snakemake("-n", target)  # the configurations, too, are again what they were


@pytest.mark.parametrize("verb", ["corpus", "probe", "table1"])
def test_fingerprints_cover_what_a_real_job_imports(project: Project, tmp_path: Path, verb: str) -> None:
    scale = Path("results/toy")
    control = "untrained/tiny/cls/s0"
    arguments = {
        "corpus": [str(scale / "configs/data/corpora/alt.json")],
        "probe": [
            str(scale / f"configs/probe/{control}.json"),
            "--sets",
            *(str(scale / f"data/probes/{name}/index.json") for name in ("shape", "digits")),
            "--cache",
            str(tmp_path / "cache"),
        ],
        "table1": [
            str(scale / "configs/table1.json"),
            "--records",
            *(str(p.relative_to(project.folder)) for p in (project.folder / scale / "probe").rglob("probe.json")),
        ],
    }[verb]
    code = (
        "import sys; from mdc.cli import main\n"
        "assert main(sys.argv[1:]) == 0\n"
        "print(*(m for m in sys.modules if (m == 'mdc' or m.startswith('mdc.')) and '._open_clip' not in m))"
    )
    command = [sys.executable, "-c", code, verb, *arguments, "--out", str(tmp_path / "out")]
    done = subprocess.run(command, cwd=project.folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    # the command line itself and what it needs to find the verb decide no result
    starting = {"mdc.cli", "mdc.jobs", "mdc.job_configs", "mdc.fingerprint", "mdc.host", "mdc.processes"}
    starting |= {f"mdc.processes.{name}" for name in ("launch", "gpus", "lock", "lost")}
    starting |= {
        f"mdc.{path.relative_to(SRC).with_suffix('').as_posix().replace('/', '.')}"
        for path in (SRC / "registry").glob("*.py")
    }
    starting.add("mdc.registry")
    assert {m for m in done.stdout.split() if m not in starting and not left_out(m)} <= set(closure(VERBS[verb]))
