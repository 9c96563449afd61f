"""A lock on a folder: only one process at a time trains a run or fills a folder."""

from __future__ import annotations

import fcntl
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mdc.records import UserError

WAITED = "MDC_WAITED"  # set for a worker whose launcher has waited for another process that trained the run


def another_was_waited_for() -> bool:
    """Whether this worker's launcher has waited for another process that trained the run."""
    return WAITED in os.environ


@contextmanager
def locked(
    folder: Path, wait: bool = False, doing: str = "is training this run", shared: bool = False
) -> Iterator[bool]:
    """Hold ``folder`` alone, or, if ``shared``, beside others who share it.

    A killed Snakemake can leave its training running, and a second one must not write beside it.

    Yields whether another process held the lock first. The lock ends with the process, however that ends. If the lock is
    held, a UserError names the holder's process id and what it is ``doing``; with ``wait``, this is printed on stderr
    instead, and the call waits until the holder ends.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path, how = folder / "lock", fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    with path.open("a+") as handle:
        held = False
        try:
            fcntl.flock(handle, how | fcntl.LOCK_NB)
        except BlockingIOError:
            held = True
            handle.seek(0)
            told = f"{folder}: process {handle.read().strip() or 'unknown'} {doing} already"
            if not wait:
                raise UserError(f"{told}; wait for it or end it") from None
            print(f"{told}; waiting until it ends", file=sys.stderr, flush=True)
            fcntl.flock(handle, how)
        handle.truncate(0)
        if not shared:  # of several, none is the holder
            handle.write(str(os.getpid()))
            handle.flush()
        yield held
