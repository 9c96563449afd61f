"""Work in a child process that has all that this one has imported, whose limits and modules may be changed."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable


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
