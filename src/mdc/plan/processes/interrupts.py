"""SIGINT and SIGTERM, taken note of so that a training leaves where nothing is lost."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from contextlib import AbstractContextManager
from types import FrameType
from typing import Any

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_ONE = 1.0  # seconds in which signals count as one: what a cluster sends to all processes, a launcher passes on to them too


class Interrupted(Exception):
    """A job has left because signal ``number`` came; the message says what is kept."""

    def __init__(self, message: str, number: int) -> None:
        super().__init__(message)
        self.number = number

    @classmethod
    def saved(cls, number: int, step: int, steps: int) -> Interrupted:
        """Of a training whose state after ``step`` of ``steps`` steps is saved."""
        how = signal.Signals(number).name
        return cls(f"ended by {how}; saved at step {step} of {steps}; rerun to resume", number)


class LostPeer(Exception):
    """Another process of this run is gone. That process reports the reason itself."""


class Interrupts(AbstractContextManager["Interrupts"]):
    """While its block runs, the first SIGINT or SIGTERM stands in ``number`` (0: none came) and does nothing else; a second one
    ends the process at once. If the block does not answer the first by raising Interrupted, it acts at the block's end.
    Beside the main thread, where Python takes no signals, nothing changes."""

    number = 0

    def __enter__(self) -> Interrupts:
        here = threading.current_thread() is threading.main_thread()
        self._before: dict[signal.Signals, Any] = {n: signal.signal(n, self._take) for n in _SIGNALS} if here else {}
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        if self.number and kind is not Interrupted:
            signal.raise_signal(self.number)

    def _take(self, number: int, _: FrameType | None) -> None:
        if not self.number:
            self.number, self._since = number, time.monotonic()
        elif time.monotonic() - self._since >= _ONE:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)


def end_with_parent() -> None:
    """A process of a pool ends with the one that started it, however that ends."""
    parent = multiprocessing.parent_process()

    def watch() -> None:
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def leave_to_parent() -> None:
    """Take no SIGINT and no SIGTERM, which reach a whole group of processes: whoever started this one ends it when it is done."""
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_IGN)
