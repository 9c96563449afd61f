"""Locks on file systems that are not like this machine's: NFS, which looks at how a file was opened, and those without any."""

import errno
import fcntl
import os
from pathlib import Path
from typing import Any

import pytest

from mdc.data.obtain.orders import worker_lock
from mdc.plan.processes.gpus import claim_gpus
from mdc.plan.processes.lock import locked
from mdc.plan.records import UserError

REAL = fcntl.flock


def _nfs(file: Any, how: int) -> None:
    """NFSv4 makes a lock of bytes of it, which has to be one of what the file was opened for."""
    access = fcntl.fcntl(file, fcntl.F_GETFL) & os.O_ACCMODE
    if access == (os.O_WRONLY if how & fcntl.LOCK_SH else os.O_RDONLY):
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))
    REAL(file, how)


def _without(number: int) -> Any:
    def flock(file: Any, how: int) -> None:
        raise OSError(number, os.strerror(number))

    return flock


def _claim(folder: Path) -> None:
    for handle in claim_gpus(1, "mdc test", folder / "gpus"):
        os.close(handle)


def _hold(context: Any) -> None:
    with context:
        pass


#: what takes locks → how it does
DECODINGS = {
    "a run": lambda folder: _hold(locked(folder)),
    "a run that may wait": lambda folder: _hold(locked(folder, wait=True)),
    "a shared folder": lambda folder: _hold(locked(folder, shared=True)),
    "GPUs": _claim,
    "a downloading worker": lambda folder: _hold(worker_lock(folder, fcntl.LOCK_SH)),
    "a downloading crew": lambda folder: _hold(worker_lock(folder, fcntl.LOCK_EX)),
}


def test_every_lock_can_be_had_on_nfs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    monkeypatch.setattr(fcntl, "flock", _nfs)
    for way in DECODINGS.values():
        way(tmp_path)


@pytest.mark.parametrize("number", [errno.ENOSYS, errno.EBADF, errno.ENOLCK, errno.EOPNOTSUPP])
def test_without_locks_one_line_says_where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    monkeypatch.setattr(fcntl, "flock", _without(number))
    for name, way in DECODINGS.items():
        with pytest.raises(UserError, match="keeps no locks") as error:
            way(tmp_path)
        assert str(tmp_path) in str(error.value) and os.strerror(number) in str(error.value), name
