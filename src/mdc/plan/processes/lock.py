"""A lock on a folder: only one process at a time trains a run or fills a folder."""

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


def flock(file: int | IO[str], operation: int, place: Path) -> None:
    """``fcntl.flock``. BlockingIOError if another process holds it; UserError if the file system of ``place`` has no locks.

    NFS needs a file open for reading for a shared lock, and one open for writing for an exclusive lock.
    """
    try:
        fcntl.flock(file, operation)
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
    """Hold an exclusive or, if ``shared``, a shared lock on ``folder``.

    A killed Snakemake can leave its training running, and a second one must not write to the same folder.

    Yields whether another process held the lock first. The lock ends with the process. If the lock is held, a UserError names the
    holder's process id and what it is ``doing``; with ``wait``, this is printed on stderr instead, and the call waits until the
    holder ends. UserError also if the file system has no locks.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path, operation = folder / "lock", fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    with path.open("a+") as handle:
        held = False
        try:
            flock(handle, operation | fcntl.LOCK_NB, folder)
        except BlockingIOError:
            held = True
            handle.seek(0)
            message = f"{folder}: process {handle.read().strip() or 'unknown'} {doing} already"
            if not wait:
                raise UserError(f"{message}; wait for it or stop it") from None
            print(f"{message}; waiting until it ends", file=sys.stderr, flush=True)
            flock(handle, operation, folder)
        handle.truncate(0)
        if not shared:  # of several, none is the holder
            handle.write(str(os.getpid()))
            handle.flush()
        yield held
