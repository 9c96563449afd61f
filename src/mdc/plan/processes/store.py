"""A content-addressed cache in a folder of limited size, shared by several jobs.

A file's name is a hash of everything that its content depends on; a removed file is recomputed. The least recently used file is
removed first, but none that was used since the oldest running job began.
"""

import fcntl
import os
import secrets
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from mdc.plan.processes.lock import flock
from mdc.plan.records import UserError, sha256_json

_SUFFIX = ".safetensors"
_USERS = ".users"  # the folder in which running jobs hold a lock each
_SWEEPS = ".sweep"
_ABANDONED = 24 * 3600.0  # seconds after which a temporary file has no writer any more


class Store:
    """``folder`` of at most ``limit`` bytes when no job runs; None: any size. Can be pickled for worker processes."""

    def __init__(self, folder: Path, limit: int | None = None) -> None:
        self.folder, self.limit = folder, limit

    def path(self, identity: Any) -> Path:
        """The path of the file with this ``identity`` (any JSON value), whether it exists or not."""
        key = sha256_json(identity)
        return self.folder / key[:2] / f"{key}{_SUFFIX}"

    def used(self, path: Path) -> bool:
        """Whether the file exists; if so it counts as used now."""
        try:
            os.utime(path)
        except PermissionError:  # another person's file, in a folder that is shared: its owner keeps the order
            return path.exists()
        except OSError:
            return False
        return True

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """While the block runs, no job removes files that any job uses. At its end the folder is reduced to its limit.

        On a file system without locks nothing is removed, and the folder grows.
        """
        users = self.folder / _USERS
        users.mkdir(parents=True, exist_ok=True)
        mine = users / f"{os.getpid()}-{secrets.token_hex(4)}"
        with ExitStack() as leaving:
            with suppress(UserError):  # no locks
                # nobody may find it unlocked while its job runs, or it would be taken for a dead job's
                with self._sweeping():
                    handle = mine.open("w")
                    flock(handle, fcntl.LOCK_EX, self.folder)
                leaving.callback(self._sweep)
                leaving.callback(handle.close)
                leaving.callback(mine.unlink, missing_ok=True)
            yield

    def _sweep(self) -> None:
        """Remove the least recently used files until the rest is within the limit, and the leftovers of killed writers."""
        with self._sweeping():
            spared = min(self._running(), default=float("inf"))
            files = []
            for path in self.folder.glob(f"*/*{_SUFFIX}"):
                with suppress(FileNotFoundError):
                    state = path.stat()
                    if not path.name.startswith("."):
                        files.append((state.st_mtime, state.st_size, path))
                    elif time.time() - state.st_mtime > _ABANDONED:
                        path.unlink()
            if self.limit is None:
                return
            excess = sum(size for _, size, _ in files) - self.limit
            for _, size, path in sorted(files):
                if excess <= 0:
                    break
                with suppress(FileNotFoundError):
                    # asked again, since a job may have used it meanwhile; one that is open stays readable to its end
                    if path.stat().st_mtime < spared:
                        path.unlink()
                        excess -= size

    def _running(self) -> Iterator[float]:
        """The start time of each running job, by this folder's clock. The lock files of killed jobs are removed."""
        for path in (self.folder / _USERS).iterdir():
            with suppress(FileNotFoundError), path.open() as handle:
                began = path.stat().st_mtime
                try:
                    flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB, self.folder)  # it may be another person's to read only
                except BlockingIOError:
                    yield began
                else:
                    path.unlink()

    @contextmanager
    def _sweeping(self) -> Iterator[None]:
        with (self.folder / _SWEEPS).open("a") as handle:
            flock(handle, fcntl.LOCK_EX, self.folder)
            yield
