"""The judge's job as a whole before a real HTTP server: limits, nonsense, time-outs, a kill, and what it does then."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as parquet
import pytest
from judge_server import Reply, Server, said, without_proxies

from mdc.cli import main
from mdc.records import read_json, sha256_file

KEY = "sk-secret-0123456789"
COMMAND = ["judge-captions", "judge.json", "--cache", ".state/judged", "--out", "out", "--folder"]


class Judge:
    """Answers the questions of one job, known by the order in which they were first asked; the sixth is held until the end."""

    def __init__(self, server: Server) -> None:
        self.server, self.asked, self.held, self.end = server, list[int](), threading.Event(), threading.Event()
        self.well = False
        self._numbers: dict[str, int] = {}
        server.replies = [self.reply]

    def reply(self) -> Reply:
        body, headers = self.server.requests[-1]
        number = self._numbers.setdefault(json.dumps(body["messages"]), len(self._numbers) + 1)
        self.asked.append(number)
        if self.well:
            return 200, said("The caption that best depicts the image is B."), {}
        match number:
            case 2 if self.asked.count(2) == 1:
                return 429, {"error": {"message": f"slow down, {headers['Authorization']}"}}, {"retry-after": "9999"}
            case 3:
                return 200, said(f"I cannot tell. You sent {headers['Authorization']}"), {}
            case 4:
                time.sleep(4)
            case 5:
                return 400, {"error": {"message": f"refused: {headers['Authorization']}"}}, {}
            case 6:
                self.held.set()
                self.end.wait(120)
        return 200, said(f"B\n\nBecause it is coherent. You sent {headers['Authorization']}"), {}


@pytest.fixture
def judge(monkeypatch: pytest.MonkeyPatch) -> Iterator[Judge]:
    monkeypatch.setenv("JUDGE_KEY", KEY)
    without_proxies(monkeypatch)
    server = Server()
    found = Judge(server)
    yield found
    found.end.set()
    server.close()


def _config(r: Path, server: Server, **more: Any) -> None:
    config = read_json(r / "configs/judged/described/s0.json")
    config["by"] = {
        "kind": "endpoint",
        "base_url": server.url,
        "model": "m",
        "key_variable": "JUDGE_KEY",
        "parallel": 1,
    }
    config["by"] |= {"retries": 1, "timeout": 1.5, "longest_wait": 0.1, **more}
    Path("judge.json").write_text(json.dumps(config))


def _files_with(text: str) -> list[Path]:
    return [path for path in Path().rglob("*") if path.is_file() and text.encode() in path.read_bytes()]


def test_a_killed_job_resumes_with_what_was_not_answered(
    r: Path, judge: Judge, capfd: pytest.CaptureFixture[str]
) -> None:
    _config(r, judge.server)
    with Path("log").open("w") as log:
        killed = subprocess.Popen([sys.executable, "-m", "mdc.cli", *COMMAND, str(r)], stdout=log, stderr=log)
        try:
            assert judge.held.wait(180), Path("log").read_text()
        finally:
            killed.kill()
            killed.wait()
    # the limit was waited for, and what slept was asked once more
    assert judge.asked == [1, 2, 2, 3, 4, 4, 5, 6] and not Path("out/judged.json").exists()

    judge.asked.clear()
    judge.well = True
    _config(r, judge.server, timeout=30.0)  # how long it may wait is not part of the question
    assert main([*COMMAND, str(r)]) == 0
    # two were chosen and one refused; the one that named no letter and the one that slept are asked for again
    assert judge.asked == [3, 4, 6, 7, 8]
    told = read_json("out/judged.json")["contests"]["main"]
    assert told == {"answers": {"chosen": 7, "refused": 1}, "waits": 1, "letters": {"B": 7}}
    rows = parquet.read_table("out/judged.parquet").to_pylist()
    assert [row["status"] for row in rows] == ["chosen"] * 4 + ["refused"] + ["chosen"] * 3
    for row in rows:
        assert (row["votes"] is None) == (row["letter"] is None) == (row["status"] == "refused")

    judge.asked.clear()
    before = sha256_file("out/judged.parquet")
    assert main([*COMMAND, str(r)]) == 0 and not judge.asked and sha256_file("out/judged.parquet") == before
    # the server said the key back in every way it could
    shown = capfd.readouterr()
    assert not _files_with(KEY) and KEY not in shown.out + shown.err
    assert _files_with("[key]"), "what was said back is kept without it"
