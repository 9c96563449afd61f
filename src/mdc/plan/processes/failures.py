"""What failed in a call of Snakemake and why, in a line a cause.

Snakemake itself can show the log of a job that fails (``--show-failed-logs``), but all of it, at every try, and at once: what
other jobs say until the end then stands below.
"""

from __future__ import annotations

import re
from pathlib import Path

# a block that begins with "Error in rule …:" and whose lines are indented
_FAILED = re.compile(r"^Error in .*\n(?:    .*\n)*?    jobid: (\d+)\n(?:    .*\n)*?    log: ([^\s,(]+)", re.M)
_FINISHED = re.compile(r"^Finished jobid: (\d+)", re.M)
_MOST = 20


def causes(text: str) -> list[str]:
    """From the text of Snakemake's own log the last message of every job that failed, each message once, with the job's log.

    A job that failed and was done at a second try is not told, nor one that keeps no log.
    """
    done = set(_FINISHED.findall(text))
    found: dict[str, list[str]] = {}
    for log in dict.fromkeys(log for job, log in _FAILED.findall(text) if job not in done):
        found.setdefault(_last_message(Path(log)), []).append(log)
    told = [
        f"{cause} (log: {logs[0]}{f', and those of {len(logs) - 1} more' if logs[1:] else ''})"
        for cause, logs in found.items()
    ]
    return [*told[:_MOST], *([f"… and {len(told) - _MOST} more"] if told[_MOST:] else [])]


def _last_message(log: Path) -> str:
    """The last message of ours; without one, the last line."""
    try:
        lines = [line for line in log.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
    except OSError:
        lines = []
    return next((line for line in reversed(lines) if line.startswith("mdc ")), (lines or ["no output"])[-1])
