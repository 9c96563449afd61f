"""Work with less: in a child process whose limits and modules may be changed, on a full disk, without root's powers."""

import ctypes
import os
import resource
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager


def forked(work: Callable[[], object]) -> int:
    """The exit status of a child that does ``work``: 0, 1 after an exception (printed), minus the signal that ended it."""
    child = os.fork()
    if child == 0:
        try:
            work()
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@contextmanager
def full_disk(most: int) -> Iterator[None]:
    """The nearest to one that needs no mount: no file may grow beyond ``most`` bytes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@contextmanager
def without_root_powers() -> Iterator[None]:
    """Root may read and write anywhere; here it may not, though its user stays the same."""
    libc = ctypes.CDLL(None)
    head, before = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()  # version 3, this thread
    assert libc.capget(head, before) == 0
    effective = before[0] & ~(1 << 1 | 1 << 2)  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
    assert libc.capset(head, (ctypes.c_uint32 * 6)(effective, *before[1:])) == 0
    try:
        yield
    finally:
        assert libc.capset(head, before) == 0
