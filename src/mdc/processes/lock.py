"""Who trains a run or fills a folder: one process at a time, whatever happened to the one before."""

from __future__ import annotations

import fcntl
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mdc.records import UserError

WAITED = "MDC_WAITED"  # in a worker's environment: its launcher waited for another process that trained the run


def another_was_waited_for() -> bool:
    """Whether this worker's launcher waited until another process ended that trained the run."""
    return WAITED in os.environ


@contextmanager
def locked(folder: Path, wait: bool = False, doing: str = "is training this run") -> Iterator[bool]:
    """Hold a run's state alone. A killed Snakemake leaves its trainer running: a second one must not join it.

    Yields whether another process held it first. The lock goes with the process, however it ends. Raises UserError
    naming the holder's process id and what it is ``doing``, or with ``wait`` says so on stderr and waits until the
    holder ends.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "lock"
    with path.open("a+") as handle:
        held = False
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            held = True
            handle.seek(0)
            told = f"{folder}: process {handle.read().strip() or 'unknown'} {doing} already"
            if not wait:
                raise UserError(f"{told}; wait for it or end it") from None
            print(f"{told}; waiting until it ends", file=sys.stderr, flush=True)
            fcntl.flock(handle, fcntl.LOCK_EX)
        handle.truncate(0)
        handle.write(str(os.getpid()))
        handle.flush()
        yield held
