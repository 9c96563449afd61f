"""The last lines on the screen when jobs fail: each cause once, with the log that has the whole of it."""

from pathlib import Path

import pytest

from mdc.plan.processes.failures import causes


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def _failed(rule: str, job: int, log: str | None) -> str:
    told = f"    log: {log} (check log file(s) for error details)\n" if log else ""
    return (
        f"RuleException:\nCalledProcessError in file x\n[Sun Nov 22 07:30:24 2026]\nError in rule {rule}:\n"
        f"    message: None\n    jobid: {job}\n    output: a, b\n{told}    shell:\n        mdc {rule} 2> {log}\n"
        "        (command exited with non-zero exit code)\nExiting because a job execution failed.\n"
    )


def _log(name: str, *lines: str) -> str:
    Path(name).write_text("".join(f"{line}\n" for line in lines))
    return name


def _causes(*blocks: str) -> list[str]:
    return causes("Building DAG of jobs...\n" + "".join(blocks))


def test_our_own_last_message_and_its_log() -> None:
    one = _log("one.log", "mdc corpus: reading", "mdc corpus: x.parquet: no such file", "", "some library's sigh")
    assert _causes(_failed("corpus", 3, one)) == ["mdc corpus: x.parquet: no such file (log: one.log)"]


def test_one_line_a_cause() -> None:
    logs = [_log(f"{name}.log", "mdc corpus: x.parquet: no such file") for name in "abc"]
    other = _log("d.log", "Traceback", "ValueError: not ours")
    blocks = [_failed("corpus", number, log) for number, log in enumerate(logs)]
    assert _causes(*blocks, blocks[0], _failed("probe", 9, other)) == [
        "mdc corpus: x.parquet: no such file (log: a.log, and those of 2 more)",
        "ValueError: not ours (log: d.log)",
    ]


def test_what_was_done_at_a_second_try_did_not_fail() -> None:
    log = _log("a.log", "mdc pretrain: process 1 was ended by SIGKILL")
    again = "Trying to restart job 5.\n[Sun Nov 22 07:31:24 2026]\nFinished jobid: 5 (Rule: pretrain)\n"
    failed = _failed("corpus", 6, _log("b.log", "mdc corpus: no"))
    assert _causes(_failed("pretrain", 5, log), again, failed) == ["mdc corpus: no (log: b.log)"]


def test_logs_that_are_empty_or_gone_or_none() -> None:
    blocks = [_failed("table9", 3, None), _failed("a", 1, _log("empty.log")), _failed("b", 2, "gone.log")]
    assert _causes(*blocks) == ["no output (log: empty.log, and those of 1 more)"]
    assert _causes() == _causes(blocks[0]) == []


def test_many_causes_are_cut() -> None:
    blocks = [_failed("a", i, _log(f"{i}.log", f"mdc probe: cause {i}")) for i in range(25)]
    told = _causes(*blocks)
    assert told[-1] == "… and 5 more" and len(told) == 21
