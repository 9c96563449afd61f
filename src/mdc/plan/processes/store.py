"""A content-addressed cache in a folder of limited size, shared by several jobs.

A file's name is a hash of everything that its content depends on. The least recently used file is removed first; its readers
compute a removed file again.
"""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from mdc.plan.records import sha256_json

_SUFFIX = ".safetensors"
_ABANDONED = 24 * 3600.0  # seconds after which a temporary file has no writer any more


class Store:
    """``folder`` of at most ``limit`` bytes at the end of a job; None: any size. Can be pickled for worker processes."""

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
        """When the block ends, the least recently used files are removed until the rest is within the limit, and the leftovers of
        killed writers."""
        try:
            yield
        finally:
            files = []
            for path in self.folder.glob(f"*/*{_SUFFIX}"):
                with suppress(FileNotFoundError):
                    state = path.stat()
                    if not path.name.startswith("."):
                        files.append((state.st_mtime, state.st_size, path))
                    elif time.time() - state.st_mtime > _ABANDONED:
                        path.unlink()
            excess = sum(size for _, size, _ in files) - self.limit if self.limit is not None else 0
            for _, size, path in sorted(files):
                if excess <= 0:
                    break
                path.unlink(missing_ok=True)  # a file that is open stays readable to its end
                excess -= size
