"""The causes of failed jobs in a call of Snakemake, one line each.

Snakemake's own ``--show-failed-logs`` prints whole logs, at every try, and above the output of jobs that still run.
"""

import re
from pathlib import Path

# a block that begins with "Error in rule …:" and whose lines are indented
_FAILED = re.compile(r"^Error in .*\n(?:    .*\n)*?    jobid: (\d+)\n(?:    .*\n)*?    log: ([^\s,(]+)", re.M)
_FINISHED = re.compile(r"^Finished jobid: (\d+)", re.M)
_MOST = 20


def causes(text: str) -> list[str]:
    """From the text of Snakemake's own log: the last message of every failed job, each message once, with the job's log.

    Jobs that succeeded at a second try, and jobs without a log, are left out.
    """
    done = set(_FINISHED.findall(text))
    logs_by_cause: dict[str, list[str]] = {}
    for log in dict.fromkeys(log for job, log in _FAILED.findall(text) if job not in done):
        logs_by_cause.setdefault(_last_message(Path(log)), []).append(log)
    messages = [
        f"{cause} (log: {logs[0]}{f', and those of {len(logs) - 1} more' if logs[1:] else ''})"
        for cause, logs in logs_by_cause.items()
    ]
    return [*messages[:_MOST], *([f"… and {len(messages) - _MOST} more"] if messages[_MOST:] else [])]


def _last_message(log: Path) -> str:
    """The last line by ``mdc``; without one, the last line."""
    try:
        lines = [line for line in log.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
    except OSError:
        lines = []
    return next((line for line in reversed(lines) if line.startswith("mdc ")), (lines or ["no output"])[-1])
