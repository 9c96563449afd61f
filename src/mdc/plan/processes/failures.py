"""What failed in a call of Snakemake and why, one line a cause, from the logs that Snakemake keeps of the call."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

_FAILED = re.compile(r"^Error in (?:local)?rule (\w+):\n((?:    .*\n?)*)", re.M)
_FINISHED = re.compile(r"^Finished jobid: (\d+)", re.M)
_OWN = re.compile(r"^mdc [\w-]+: ")
# what Snakemake says of a signal → which it was, and what becomes of the jobs that ran
_SIGNALS = {
    "Terminating processes on user request": "SIGINT, which its jobs got too",
    "Will exit after finishing currently running jobs": "SIGTERM, after which the jobs that ran were waited for",
}
_STARTED = re.compile(r"^(?:local)?rule (\w+):\n((?:    .*\n?)*)", re.M)
_MOST = 20


def causes(logs: Iterable[str | Path], folder: Path = Path()) -> str:
    """The last message of every job that failed, each message once, and the logs, below ``folder``, that have the whole.

    ``logs``: Snakemake's own. A job that failed and was done at a second try is not told.
    """
    text = "\n".join(_text(Path(path)) for path in logs)
    done = set(_FINISHED.findall(text))
    found: dict[str, dict[str, None]] = {}
    for rule, body in _FAILED.findall(text):
        job = re.search(r"^    jobid: (\d+)", body, re.M)
        if job and job[1] in done:
            continue
        log = re.search(r"^    log: ([^\s,(]+)", body, re.M)
        cause, place = (_cause(folder / log[1]), log[1]) if log else (f"{rule}: it keeps no log", "")
        found.setdefault(cause, {})[place] = None
    if not found:
        return _ended(text, done, folder) or "no job failed, but Snakemake did; it says above why"
    lines = [f"{cause} ({_named(list(places))})" for cause, places in found.items()]
    count = sum(map(len, found.values()))
    more = [f"… and {len(lines) - _MOST} more"] if len(lines) > _MOST else []
    return "\n".join([f"{count} job{'s' if count > 1 else ''} failed:", *lines[:_MOST], *more])


def _ended(text: str, done: set[str], folder: Path) -> str | None:
    """What is to be said if a signal has ended Snakemake, with the last words of the jobs that it left unfinished."""
    how = next((how for sign, how in _SIGNALS.items() if sign in text), None)
    if how is None:
        return None
    lines = [f"Snakemake was ended by a signal ({how}); what was finished is kept; rerun to resume"]
    for name, body in _STARTED.findall(text):
        job = re.search(r"^    jobid: (\d+)", body, re.M)
        log = re.search(r"^    log: ([^\s,(]+)", body, re.M)
        if job and job[1] not in done:
            lines.append(f"{_cause(folder / log[1])} (log: {log[1]})" if log else f"{name}: unfinished")
    return "\n".join(dict.fromkeys(lines))


def _named(places: list[str]) -> str:
    return (f"log: {places[0]}" if places[0] else "see above") + (
        f", and those of {len(places) - 1} more" if len(places) > 1 else ""
    )


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _cause(path: Path) -> str:
    """The last message of ours in a job's log; without one, its last line."""
    said = [line for text in _text(path).splitlines() if (line := text.strip())]
    own = [line for line in said if _OWN.match(line)]
    return (own or said or ["it said nothing"])[-1]
