"""States that are written while training goes on: an L/14's has 6 GB, and a step need not wait for a disk.

When one is due follows from time alone, so that no scale has to know how long its runs and its saves take.
"""

from __future__ import annotations

import threading
import time
from contextlib import AbstractContextManager
from types import TracebackType

from torch import nn
from torch.optim import AdamW

from mdc.training.average import AveragedWeights
from mdc.training.kept import KeptWeights
from mdc.training.state import Position, States

SHARE = 0.02  # of a run's time, that saving may take


class Saver(AbstractContextManager["Saver"]):
    """Copies a run's state into memory and writes it in a thread, one at a time. Leaving the block waits for the last one.

    ``every``: the least seconds from one state to the next; 0: one after every step, whatever that costs.

    What goes wrong in the thread is raised by the next call, and by :meth:`settle`.
    """

    def __init__(self, states: States, kept: KeptWeights | None, every: int) -> None:
        self._states, self._kept, self._every = states, kept, every
        self._since, self._took = time.monotonic(), 0.0  # the last state's end, and the seconds that it took
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None
        self._step = 0

    def due(self) -> bool:
        """Whether a state is to be saved now: when ``every`` seconds have passed, and enough for saving to stay below SHARE."""
        if not self._every:
            return True
        writes = self._thread is not None and self._thread.is_alive()
        return not writes and time.monotonic() - self._since >= max(self._every, self._took / SHARE)

    def begin(
        self,
        model: nn.Module,
        optimizer: AdamW,
        position: Position,
        average: AveragedWeights | None = None,
    ) -> None:
        """Start to save; what the model becomes from now on does not matter."""
        self.settle()
        began = time.monotonic()
        snapshot = self._states.snapshot(model, optimizer, position, average)

        def write() -> None:
            try:
                self._states.write(snapshot)
            except BaseException as error:
                self._error = error
            self._since = time.monotonic()
            self._took = self._since - began

        self._step = position.step
        self._thread = threading.Thread(target=write, name="save")
        self._thread.start()

    def settle(self) -> None:
        """Wait for the state that is being written, and forget what it makes superfluous."""
        if self._thread is None:
            return
        self._thread.join()
        self._thread = None
        if self._error is not None:
            error, self._error = self._error, None
            raise error
        if self._kept is not None:
            self._kept.after_save(self._step)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.settle()
        elif self._thread is not None:  # the run has ended for another reason; the state stays good
            self._thread.join()
