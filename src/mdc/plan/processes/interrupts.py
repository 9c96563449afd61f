"""Deferred SIGINT and SIGTERM, so that a training saves its state before it ends."""

import multiprocessing
import os
import signal
import threading
import time
from contextlib import AbstractContextManager
from types import FrameType
from typing import Any

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_ONE = 1.0  # seconds in which signals count as one: a cluster signals all processes, and a launcher passes it on to them again


class Interrupted(Exception):
    """A job ended because of signal ``number``; the message says what is saved."""

    def __init__(self, message: str, number: int) -> None:
        super().__init__(message)
        self.number = number

    @classmethod
    def saved(cls, number: int, step: int, steps: int) -> "Interrupted":
        """For a training whose state after ``step`` of ``steps`` steps is saved."""
        name = signal.Signals(number).name
        return cls(f"ended by {name}; saved at step {step} of {steps}; rerun to resume", number)


class LostPeer(Exception):
    """Another process of this run is gone. That process reports the reason itself."""


class Interrupts(AbstractContextManager["Interrupts"]):
    """While its block runs, the first SIGINT or SIGTERM only sets ``number`` (0: none); a second one ends the process at once. If
    the block does not raise Interrupted, the signal is raised again at its end. Outside the main thread, where Python takes no
    signals, it does nothing."""

    number = 0

    def __enter__(self) -> "Interrupts":
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
    """End this process of a pool when its parent ends."""
    parent = multiprocessing.parent_process()

    def watch() -> None:
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def leave_to_parent() -> None:
    """Ignore SIGINT and SIGTERM, which reach a whole process group: the parent ends this process."""
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_IGN)
