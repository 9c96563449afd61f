"""Jobs that keep what they have computed in parts: gone on with after a kill, and shared by processes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from small_project import MDC, TUNED
from small_project import config as config_of

from mdc.app.cli import main
from mdc.plan.records import read_json, sha256_file

SCORES, CAPTIONS = f"scores/{MDC}/last", f"captions/{TUNED}/best/described"


@pytest.mark.usefixtures("own_copy")
@pytest.mark.parametrize(
    ("verb", "job"),
    [
        ("score-choices", SCORES),
        ("score-pairs", f"retrieval/{MDC}/last"),
        ("score-positions", f"positions/{MDC}/last"),
        ("write-captions", CAPTIONS),
    ],
)
def test_a_killed_job_resumes_with_the_parts_that_are_missing(
    r: Path, verb: str, job: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a kill: some parts are there, and no output."""
    monkeypatch.setattr("mdc.evaluation.captions._PART", 3)
    folder, call = r / job, [verb, str(config_of(r, job)), "--cache", ".state/parts"]
    assert main(call) == 0
    before = {path: sha256_file(path) for path in folder.iterdir() if path.name != "host.json"}
    parts = sorted(Path(".state/parts").rglob("*.json"))
    assert len(parts) > 1
    shutil.rmtree(folder)
    parts[0].unlink()
    stamps = [path.stat().st_mtime_ns for path in parts[1:]]
    assert main(call) == 0
    assert {path: sha256_file(path) for path in before} == before
    assert [path.stat().st_mtime_ns for path in parts[1:]] == stamps, "what was done is not done again"
    parts[0].write_bytes(parts[0].read_bytes()[:-40])  # cut short
    assert main(call) == 0
    assert {path: sha256_file(path) for path in before} == before


@pytest.mark.parametrize(
    ("verb", "job", "how", "file"),
    [
        ("score-choices", SCORES, "scoring", "scores.parquet"),
        ("write-captions", CAPTIONS, "captioning", "captions.parquet"),
    ],
)
def test_two_processes_give_the_same(r: Path, tmp_path: Path, verb: str, job: str, how: str, file: str) -> None:
    config = read_json(config_of(r, job))
    config[how]["processes"] = 2
    (tmp_path / "two.json").write_text(json.dumps(config))
    command = [verb, str(tmp_path / "two.json"), "--cache", str(tmp_path / "c")]
    assert main([*command, "--folder", str(r), "--out", str(tmp_path / "out")]) == 0
    assert sha256_file(tmp_path / "out" / file) == sha256_file(r / job / file)
