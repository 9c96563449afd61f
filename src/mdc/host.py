"""Where, how and how long a job ran: a ``host`` file beside its record.

It differs from machine to machine and from call to call, so it is no part of a record, and nothing rests on it: it
names the record it is about by sha256, and may be missing.
"""

from __future__ import annotations

import os
import platform
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mdc.records import beside, sha256_file, write_json


def command_line(arguments: Sequence[str]) -> str:
    """The call ``mdc ARGUMENTS`` as text for a shell in the project's folder, with what it took from the environment.

    A process that torchrun started is one of several, so there the call is torchrun's.
    """
    words = ["mdc", *arguments]
    if "TORCHELASTIC_RUN_ID" in os.environ:
        words = _parents_words() or words
    data = os.environ.get("MDC_DATA")
    return shlex.join(words) if not data else f"MDC_DATA={shlex.quote(data)} {shlex.join(words)}"


def _parents_words() -> list[str]:
    try:
        words = Path(f"/proc/{os.getppid()}/cmdline").read_text(encoding="utf-8").split("\0")[:-1]
    except OSError:
        return []
    # torchrun is a script: its first word is this environment's Python
    return [Path(word).name if number < 2 else word for number, word in enumerate(words)][1:]


def write_host(record: Path, command: str, seconds: float, facts: Mapping[str, Any] | None = None) -> None:
    """Write the host file of ``record``, made by a process that took ``seconds``.

    ``facts``: what else the job has to say; ``seconds_before`` are those of earlier processes that this one went on
    from, and add up. Of several processes of one job only the first writes.
    """
    if os.environ.get("RANK", "0") != "0":
        return
    facts = facts or {}
    write_json(
        beside(record, "host"),
        {
            "record": record.name,
            "record_sha256": sha256_file(record),
            "command": command,
            "seconds": round(seconds + facts.get("seconds_before", 0.0), 3),
            "log": _log(),
            "machine": platform.machine(),
            "processor": _processor(),
            **facts,
        },
    )


def _log() -> str | None:
    """The file that messages go into, relative to the folder the job was called in; None if they go to no file."""
    try:
        path = Path("/proc/self/fd/2").readlink()
    except OSError:
        return None
    if not path.is_file():
        return None
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown")
