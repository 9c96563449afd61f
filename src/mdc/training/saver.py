"""Asynchronous saving of states: an L/14's state has 6 GB, and a step should not wait for the disk.

When a state is due depends on time only, so no scale has to configure it.
"""

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager

from torch import Tensor, nn
from torch.optim import AdamW

from mdc.training.average import AveragedWeights
from mdc.training.state import Position, States, copied

SHARE = 0.02  # the largest share of a run's time spent on saving


class Saver(AbstractContextManager["Saver"]):
    """Copies a run's state into memory and writes it in a thread, one at a time; then the thread calls ``after`` with the state's
    step. Leaving the block waits for the last state. An error in the thread is raised by the next :meth:`begin` or :meth:`wait`.

    ``every``: the least seconds between two states; 0: one after every step.
    """

    def __init__(self, states: States, every: int, after: Callable[[int], object] = lambda step: None) -> None:
        self._states, self._every, self._after = states, every, after
        self._since, self._took = time.monotonic(), 0.0  # the last state's end, and the seconds that it took
        self._pool, self._saving = ThreadPoolExecutor(1, "save"), Future[None]()
        self._saving.set_result(None)

    def due(self) -> bool:
        """Whether to save a state now: ``every`` seconds have passed, and saving stays below SHARE of the time."""
        if not self._every:
            return True
        return self._saving.done() and time.monotonic() - self._since >= max(self._every, self._took / SHARE)

    def begin(
        self, model: nn.Module, optimizer: AdamW, position: Position, average: AveragedWeights | None = None
    ) -> None:
        """Start to save the present state."""
        self.wait()
        began = time.monotonic()
        self._saving = self._pool.submit(self._write, copied(model, optimizer, average), position, began)

    def wait(self) -> None:
        """Wait until the state is written."""
        self._saving.result()

    def _write(self, tensors: dict[str, Tensor], position: Position, began: float) -> None:
        self._states.write(tensors, position)
        self._since = time.monotonic()
        self._took = self._since - began
        self._after(position.step)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._pool.shutdown()
        if kind is None:  # an exception of the block takes precedence
            self.wait()
