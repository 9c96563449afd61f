"""How a job was called and how long it took: exact commands, time over all processes, nothing else resting on it."""

import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from mdc.plan import host
from mdc.plan.records import read_json, sha256_file, write_json


def test_a_command_can_be_pasted(monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["probe", "a b/c.json", "--out", "it's"]
    monkeypatch.delenv("MDC_DATA", raising=False)
    assert shlex.split(host.command_line(words)) == ["mdc", *words]
    monkeypatch.setenv("MDC_DATA", "/my data")
    told = subprocess.check_output(
        ["bash", "-c", f'mdc() {{ printf "%s\\n" "$MDC_DATA" "$@"; }}; {host.command_line(words)}'], text=True
    )
    assert told.splitlines() == ["/my data", *words]


def test_under_torchrun_the_command_is_torchruns(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    script = tmp_path / "torchrun"
    script.write_text(
        "import os, subprocess, sys\n"
        'code = \'from mdc.plan.host import command_line; print(command_line(["pretrain", "c.json"]))\'\n'
        "subprocess.run([sys.executable, '-c', code], env={**os.environ, 'TORCHELASTIC_RUN_ID': 'x'})\n"
    )
    monkeypatch.delenv("MDC_DATA", raising=False)
    command = [sys.executable, str(script), "--nproc-per-node", "2", "-m", "mdc.app.cli", "pretrain", "c.json"]
    said = subprocess.check_output(command, text=True)
    assert said == "torchrun --nproc-per-node 2 -m mdc.app.cli pretrain c.json\n"


def test_a_host_file_names_its_manifest_log_and_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    manifest, path = tmp_path / "run.json", tmp_path / "host.json"
    write_json(manifest, {"steps": 3})
    host.write_host(path, manifest, "mdc pretrain x", 1.5, {"seconds_before": 10.0, "threads": 2})
    found = read_json(path)
    assert found["manifest"] == "run.json" and found["manifest_sha256"] == sha256_file(manifest)
    assert found["command"] == "mdc pretrain x" and found["seconds"] == 11.5 and found["threads"] == 2
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "of torchrun")
    host.write_host(path, manifest, "another process of it", 99.0)
    assert read_json(path) == found
    monkeypatch.delenv("TORCHELASTIC_RUN_ID")  # a pod may have the other one
    code = (
        "from pathlib import Path; from mdc.plan.host import write_host\n"
        "write_host(Path('host.json'), Path('run.json'), 'mdc pretrain x', 0.1)"
    )
    with (tmp_path / "said.log").open("w") as log:
        subprocess.run([sys.executable, "-c", code], cwd=tmp_path, stderr=log, check=True)
    assert read_json(path)["log"] == "said.log"
