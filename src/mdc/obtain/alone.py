"""One process at a time fills a dataset's folder."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mdc.records import UserError

LOCK = ".obtaining"


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Hold ``folder`` (made if missing) until the block or the process ends. UserError if another process holds it."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / LOCK
    with path.open("a+") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            handle.seek(0)
            holder = handle.read().strip() or "unknown"
            raise UserError(f"{folder}: process {holder} fills it already; wait for it or end it") from None
        handle.truncate(0)
        handle.write(str(os.getpid()))
        handle.flush()
        yield
