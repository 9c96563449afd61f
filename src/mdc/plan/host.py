"""Where, how and how long a job ran: the file ``host.json`` beside its record.

It differs between machines and calls, so it is not part of the record. No job reads it, and it may be missing. It names its
manifest by sha256.
"""

import os
import platform
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mdc.plan.records import sha256_file, write_json


def started_by_torchrun() -> bool:
    """Whether this process is one of torchrun's, whose RANK and WORLD_SIZE count; a cluster's pod may have these two as well."""
    return "TORCHELASTIC_RUN_ID" in os.environ


def usable_cores() -> int:
    """The cores that this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)  # Linux has it, macOS has not
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def processor_seconds() -> float:
    """CPU seconds of this process so far, in all its threads, and of child processes that it has waited for."""
    return sum(os.times()[:4])


def command_line(arguments: Sequence[str]) -> str:
    """The call ``mdc ARGUMENTS`` as a shell command in the project's folder, with MDC_DATA if it was set.

    For a process that torchrun started it is the call of torchrun.
    """
    words = ["mdc", *arguments]
    if started_by_torchrun():
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


def write_host(
    path: Path,
    manifest: Path,
    command: str,
    seconds: float,
    facts: Mapping[str, Any] | None = None,
    processor: float | None = None,
) -> None:
    """Write the host file ``path`` of the job that wrote ``manifest`` in ``seconds``, and ``processor`` CPU seconds.

    ``facts``: further values that the job reports. Its ``seconds_before``, the seconds of earlier processes whose work this one
    resumed, are added; their CPU seconds are not known. If a job has several processes, only rank 0 writes.
    """
    if started_by_torchrun() and os.environ["RANK"] != "0":
        return
    facts = facts or {}
    write_json(
        path,
        {
            "manifest": manifest.name,
            "manifest_sha256": sha256_file(manifest),
            "command": command,
            "seconds": round(seconds + facts.get("seconds_before", 0.0), 3),
            "processor_seconds": None if processor is None or facts.get("seconds_before") else round(processor, 2),
            "log": _log(),
            "machine": platform.machine(),
            "processor": _processor(),
            **facts,
        },
    )


def _log() -> str | None:
    """The file that stderr goes to, relative to the current folder; None if it is not a file."""
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
