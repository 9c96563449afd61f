"""The judge's job as a whole before a real HTTP server: limits, nonsense, time-outs, a kill, and what it does then."""

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as parquet
import pytest
from judge_server import Reply, Server, said, without_proxies
from small_project import config as config_of

from mdc.app.cli import main
from mdc.plan.records import read_json, sha256_file

pytestmark = pytest.mark.usefixtures("own_copy")

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
            return 200, said("**B**"), {}
        match number:
            case 2 if self.asked.count(2) == 1:
                return 429, {"error": {"message": f"slow down, {headers['Authorization']}"}}, {"retry-after": "0.1"}
            case 3:
                return 200, said(f"I cannot tell. You sent {headers['Authorization']}"), {}
            case 4:
                self.end.wait(30)
            case 5:
                refusal = f"I will not look at this. You sent {headers['Authorization']}"
                return 200, said(None, message={"refusal": refusal}), {}
            case 6:
                self.held.set()
                self.end.wait(1800)
        return 200, said(json.dumps({"caption": "B", "sent": headers["Authorization"]})), {}


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
    config = read_json(config_of(r, "judged/described/s0"))
    config["by"] = {
        "kind": "endpoint",
        "base_url": server.url,
        "model": "m",
        "key_variable": "JUDGE_KEY",
        "parallel": 1,
    }
    config["by"] |= {"retries": 1, "timeout": 6.0, **more}
    Path("judge.json").write_text(json.dumps(config))


def _files_with(text: str) -> list[Path]:
    return [path for path in Path().rglob("*") if path.is_file() and text.encode() in path.read_bytes()]


def test_a_killed_job_resumes_with_what_was_not_answered(
    r: Path, judge: Judge, capfd: pytest.CaptureFixture[str]
) -> None:
    _config(r, judge.server)
    with Path("log").open("w") as log:
        killed = subprocess.Popen([sys.executable, "-m", "mdc.app.cli", *COMMAND, str(r)], stdout=log, stderr=log)
        try:
            assert judge.held.wait(900), Path("log").read_text()
        finally:
            killed.kill()
            killed.wait()
    # the limit was waited for, and what slept was asked once more
    assert judge.asked == [1, 2, 2, 3, 4, 4, 5, 6] and not Path("out/judged.json").exists()

    judge.asked.clear()
    judge.well = True
    _config(r, judge.server, timeout=600.0)  # how long it may wait is not part of the question
    assert main([*COMMAND, str(r)]) == 0
    # two were chosen and one refused; the one that named no letter and the one that slept are asked for again
    assert judge.asked == [3, 4, 6, 7, 8]
    told = read_json("out/judged.json")["contests"]["main"]
    assert told == {"answers": {"chosen": 7, "refused": 1}, "letters": {"B": 7}}
    rows = parquet.read_table("out/judged.parquet").to_pylist()
    assert [row["status"] for row in rows] == ["chosen"] * 4 + ["refused"] + ["chosen"] * 3
    for row in rows:
        assert (row["votes"] is None) == (row["letter"] is None) == (row["status"] == "refused")

    judge.asked.clear()
    assert all(row["answer"] for row in rows), "the text is kept for an audit"
    before = sha256_file("out/judged.parquet")
    assert main([*COMMAND, str(r)]) == 0 and not judge.asked and sha256_file("out/judged.parquet") == before
    # the server said the key back in every way it could
    shown = capfd.readouterr()
    assert not _files_with(KEY) and KEY not in shown.out + shown.err
    assert _files_with("[key]"), "what was said back is kept without it"


def test_an_outage_leaves_no_job_that_looks_done(r: Path, judge: Judge, capfd: pytest.CaptureFixture[str]) -> None:
    """… of a few questions without an answer, more than it may lose."""
    _config(r, judge.server, timeout=600.0, retries=0)
    judge.server.replies = [
        (200, said("A"), {}),
        (413, {"error": {"message": "too large"}}, {}),
        *[(502, b"", {})] * 5,
        (200, said("B"), {}),
    ]
    assert main([*COMMAND, str(r)]) == 2
    assert "judged/described/s0: 5 of 8 questions got no answer (5 failed)" in capfd.readouterr().err
    assert not Path("out/judged.json").exists()
    judge.server.requests.clear()
    judge.server.replies = [(200, said("C"), {})]
    assert main([*COMMAND, str(r)]) == 0
    # the two that were chosen are kept, what was rejected is asked for again with the five
    assert len(judge.server.requests) == 6
    assert read_json("out/judged.json")["contests"]["main"]["letters"] == {"A": 1, "B": 1, "C": 6}


@pytest.mark.parametrize("reply", [(503, b"", {}), (400, {"error": {"message": "no images here"}}, {})], ids=str)
def test_an_endpoint_that_answers_nothing_is_not_asked_to_the_end(
    r: Path, judge: Judge, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, reply: Reply
) -> None:
    monkeypatch.setattr("mdc.evaluation.judge._DOWN", 3)
    _config(r, judge.server, retries=0)
    judge.server.replies = [reply]
    assert main([*COMMAND, str(r)]) == 2
    said = capfd.readouterr().err
    assert "3 questions in a row got no answer" in said and ("no images here" in said) == (reply[0] == 400)
    assert len(judge.server.requests) <= 4  # one was on its way


def test_one_connection_that_breaks_ends_nothing(r: Path, judge: Judge) -> None:
    _config(r, judge.server, timeout=600.0, retries=0, most_lost=0.2)
    judge.server.replies = [(200, said("A"), {}), (0, b"", {}), (200, said("B"), {})]
    assert main([*COMMAND, str(r)]) == 0
    assert read_json("out/judged.json")["contests"]["main"]["answers"] == {"chosen": 7, "failed": 1}
