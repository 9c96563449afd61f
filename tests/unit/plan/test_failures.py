"""The last lines on the screen when jobs fail: each cause once, with the log that has the whole of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from mdc.plan.processes.failures import causes


def _failed(rule: str, job: int, log: str | None) -> str:
    told = f"    log: {log} (check log file(s) for error details)\n" if log else ""
    return (
        f"RuleException:\nCalledProcessError in file x\n[Sun Nov 22 07:30:24 2026]\nError in rule {rule}:\n"
        f"    message: None\n    jobid: {job}\n    output: a, b\n{told}    shell:\n        mdc {rule} 2> {log}\n"
        "        (command exited with non-zero exit code)\nExiting because a job execution failed.\n"
    )


def _log(folder: Path, name: str, *lines: str) -> str:
    (folder / name).write_text("".join(f"{line}\n" for line in lines))
    return name


def _causes(folder: Path, *blocks: str) -> list[str]:
    (folder / "snakemake.log").write_text("Building DAG of jobs...\n" + "".join(blocks))
    return causes([folder / "snakemake.log"], folder).splitlines()


def test_our_own_last_message_and_its_log(tmp_path: Path) -> None:
    one = _log(
        tmp_path, "one.log", "mdc corpus: reading", "mdc corpus: x.parquet: no such file", "", "some library's sigh"
    )
    assert _causes(tmp_path, _failed("corpus", 3, one)) == [
        "1 job failed:",
        "mdc corpus: x.parquet: no such file (log: one.log)",
    ]


def test_one_line_a_cause(tmp_path: Path) -> None:
    logs = [_log(tmp_path, f"{name}.log", "mdc corpus: x.parquet: no such file") for name in "abc"]
    other = _log(tmp_path, "d.log", "Traceback", "ValueError: not ours")
    blocks = [_failed("corpus", number, log) for number, log in enumerate(logs)]
    assert _causes(tmp_path, *blocks, blocks[0], _failed("probe", 9, other)) == [
        "4 jobs failed:",
        "mdc corpus: x.parquet: no such file (log: a.log, and those of 2 more)",
        "ValueError: not ours (log: d.log)",
    ]


def test_what_was_done_at_a_second_try_did_not_fail(tmp_path: Path) -> None:
    log = _log(tmp_path, "a.log", "mdc pretrain: process 1 was ended by SIGKILL")
    again = "Trying to restart job 5.\n[Sun Nov 22 07:31:24 2026]\nFinished jobid: 5 (Rule: pretrain)\n"
    failed = _failed("corpus", 6, _log(tmp_path, "b.log", "mdc corpus: no"))
    assert _causes(tmp_path, _failed("pretrain", 5, log), again, failed) == [
        "1 job failed:",
        "mdc corpus: no (log: b.log)",
    ]


def test_logs_that_are_empty_or_gone_or_none(tmp_path: Path) -> None:
    blocks = [_failed("a", 1, _log(tmp_path, "empty.log")), _failed("b", 2, "gone.log"), _failed("table9", 3, None)]
    assert _causes(tmp_path, *blocks) == [
        "3 jobs failed:",
        "it said nothing (log: empty.log, and those of 1 more)",
        "table9: it keeps no log (see above)",
    ]
    assert "Snakemake did" in causes([tmp_path / "none.log"])


def _started(rule: str, job: int, log: str) -> str:
    return f"[Sun Nov 22 07:30:24 2026]\nlocalrule {rule}:\n    output: a\n    log: {log}\n    jobid: {job}\n    resources: x\n"


@pytest.mark.parametrize(
    ("said", "signal"),
    [
        ("Will exit after finishing currently running jobs (scheduler).", "SIGTERM"),
        ("Terminating processes on user request, this might take some time.", "SIGINT"),
    ],
)
def test_a_signal_is_named_with_what_it_left_unfinished(said: str, signal: str, tmp_path: Path) -> None:
    done = _started("corpus", 1, _log(tmp_path, "a.log", "mdc corpus: read")) + "Finished jobid: 1 (Rule: corpus)\n"
    log = _log(tmp_path, "b.log", "mdc pretrain: saved at step 7")
    told = _causes(tmp_path, done, _started("pretrain", 2, log), f"{said}\nShutting down\n")
    assert signal in told[0] and "rerun" in told[0]
    assert told[1:] == ["mdc pretrain: saved at step 7 (log: b.log)"]


def test_many_causes_are_cut(tmp_path: Path) -> None:
    blocks = [_failed("a", i, _log(tmp_path, f"{i}.log", f"mdc probe: cause {i}")) for i in range(25)]
    told = _causes(tmp_path, *blocks)
    assert told[0] == "25 jobs failed:" and told[-1] == "… and 5 more" and len(told) == 22
