"""Jobs, and calls of people, that keep what they have computed in parts: gone on with after a kill, and shared by processes."""

import json
import shutil
import signal
import subprocess
import sys
import time
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from small_project import MDC, TUNED
from small_project import config as config_of

from mdc.app import score_file
from mdc.app.cli import main
from mdc.app.export import pictures as read_pictures
from mdc.plan.processes.lock import locked
from mdc.plan.records import UserError, read_json, sha256_file

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


#: a call that waits behind the first part that it keeps
SLOW = """
import sys, time
from mdc.app import score_file
from mdc.app.export import features, pictures
pictures._FILES = score_file._IMAGES = 1
def slow(module, name):
    write = getattr(module, name)
    def writing(path, found):
        write(path, found)
        print(path.name, flush=True)
        time.sleep(3600)
    setattr(module, name, writing)
slow(score_file, "_keep")
slow(features, "_write")
from mdc.app.cli import main
sys.exit(main(sys.argv[1:]))
"""


def wait_until_unlocked(folder: Path) -> None:
    """Workers of a killed call end within a second."""
    deadline = time.monotonic() + 600
    while True:
        try:
            with locked(folder):
                return
        except UserError:
            assert time.monotonic() < deadline, "a worker outlives its call"
            time.sleep(0.2)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
@pytest.mark.parametrize(("verb", "writer"), [("score", "score_file._keep"), ("features", "export.features._write")])
def test_a_call_that_was_ended_goes_on_with_what_is_missing(
    r: Path,
    pictures: list[Path],
    tmp_path: Path,
    verb: str,
    writer: str,
    number: signal.Signals,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Ctrl-C says how to; one image a part."""
    out, parts = tmp_path / "o.parquet", tmp_path / ".o.parquet.parts"
    (tmp_path / "t.csv").write_text("image,caption\n" + "".join(f"{one.name},a red circle\n" for one in pictures))
    words = {"score": [str(tmp_path / "t.csv"), "--run", MDC, "--samples", "16"], "features": [MDC, str(tmp_path)]}
    call = [verb, *words[verb], "--scale", r.name]
    with subprocess.Popen(
        [sys.executable, "-c", SLOW, *call, "--out", str(out), "--processes", "2"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        first = process.stdout.readline().strip()
        process.send_signal(number)
        _, errors = process.communicate(timeout=600)
    assert process.returncode == (130 if number == signal.SIGINT else -number)
    assert number == signal.SIGKILL or (errors.count("\n") == 1 and "rerun to resume" in errors)
    wait_until_unlocked(parts)
    kept = {path.name for path in parts.glob("0*")}
    assert first in kept and len(kept) < len(pictures) and not out.exists()
    module, _, name = f"mdc.app.{writer}".rpartition(".")
    made, real = list[str](), getattr(import_module(module), name)

    def noted(path: Path, found: Any) -> None:
        made.append(path.name)
        real(path, found)

    monkeypatch.setattr(f"{module}.{name}", noted)
    monkeypatch.setattr(score_file, "_IMAGES", 1)
    monkeypatch.setattr(read_pictures, "_FILES", 1)
    alone = [*call, "--out", str(out), "--processes", "1"]
    assert main(alone) == 0
    assert len(made) == len(pictures) - len(kept) and not kept & set(made) and not parts.exists()
    done = out.read_bytes()
    out.unlink()
    assert main(alone) == 0 and out.read_bytes() == done
