"""A lock on a folder: only one process at a time trains a run or fills a folder."""

from __future__ import annotations

import fcntl
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from mdc.plan.records import UserError

WAITED = "MDC_WAITED"  # set for a worker whose launcher has waited for another process that trained the run


def another_was_waited_for() -> bool:
    """Whether this worker's launcher has waited for another process that trained the run."""
    return WAITED in os.environ


def flock(file: int | IO[str], how: int, place: Path) -> None:
    """``fcntl.flock``. BlockingIOError if another process holds it; UserError where the file system of ``place`` has no locks.

    NFS gives a shared lock only on a file that is open for reading, and an exclusive one only on one open for writing.
    """
    try:
        fcntl.flock(file, how)
    except BlockingIOError:
        raise
    except OSError as error:  # ENOSYS of Lustre without locks, ENOLCK of NFS whose server keeps none, …
        raise UserError(
            f"{place}: this file system keeps no locks ({error.strerror}), without which two processes could write the same "
            "files here; allowed: a folder on one that does (Lustre does so if it is mounted with -o flock)"
        ) from None


@contextmanager
def locked(
    folder: Path, wait: bool = False, doing: str = "is training this run", shared: bool = False
) -> Iterator[bool]:
    """Hold ``folder`` alone, or, if ``shared``, beside others who share it.

    A killed Snakemake can leave its training running, and a second one must not write beside it.

    Yields whether another process held the lock first. The lock ends with the process, however that ends. If the lock is
    held, a UserError names the holder's process id and what it is ``doing``; with ``wait``, this is printed on stderr
    instead, and the call waits until the holder ends. UserError also where the file system has no locks.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path, how = folder / "lock", fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    with path.open("a+") as handle:
        held = False
        try:
            flock(handle, how | fcntl.LOCK_NB, folder)
        except BlockingIOError:
            held = True
            handle.seek(0)
            told = f"{folder}: process {handle.read().strip() or 'unknown'} {doing} already"
            if not wait:
                raise UserError(f"{told}; wait for it or stop it") from None
            print(f"{told}; waiting until it ends", file=sys.stderr, flush=True)
            flock(handle, how, folder)
        handle.truncate(0)
        if not shared:  # of several, none is the holder
            handle.write(str(os.getpid()))
            handle.flush()
        yield held
