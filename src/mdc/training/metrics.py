"""Metrics of training steps, read some steps later, so that no step waits for the device."""

import math
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from mdc.plan.processes.group import Group
from mdc.plan.records import UserError

#: steps that a GPU may be ahead of the metrics that are read
MAX_LAG = 4


def max_lag(device: torch.device) -> int:
    """After how many steps a step's metrics are read."""
    return MAX_LAG if device.type == "cuda" else 0


_REQUEST = "request"


class Measured(NamedTuple):
    """The metrics of step ``step`` (from 0), by name."""

    step: int
    values: dict[str, float]


class _Pending(NamedTuple):
    step: int
    names: list[str]
    values: Tensor
    copied: torch.cuda.Event | None
    known: dict[str, float]
    keys: list[str]


class DeferredMetrics:
    """Takes the metrics of each step and returns them as numbers: at once on a CPU, ``MAX_LAG`` steps later on a GPU.

    UserError with the step and its samples if a loss or a gradient norm is not finite. The weights in memory may be bad by then:
    call :meth:`flush` before saving or validating.

    With each step every process sends a number, its ``request``; ``requested`` is the greatest one read so far. All processes
    have read the same steps at any point of the loop, so they see the same value, and none waits for it.
    """

    def __init__(self, device: torch.device, group: Group, request: Callable[[], int] = int) -> None:
        self._device, self._group, self._lag = device, group, max_lag(device)
        self._pending: deque[_Pending] = deque()
        self._ask, self.requested = request, 0

    def add(self, step: int, values: Mapping[str, Tensor], keys: list[str], **known: float) -> list[Measured]:
        """Take the scalars of ``step``, equal on all processes, and the values ``known`` on the host; returns readable steps."""
        request = self._group.most(torch.full((), float(self._ask()), device=self._device))
        values = {**values, _REQUEST: request}
        # copied to the host together, in float64: whole numbers stay exact
        together = torch.stack([value.detach().to(torch.float64) for value in values.values()])
        copied = None
        if together.device.type == "cuda":
            host = torch.empty(together.shape, dtype=together.dtype, pin_memory=True)
            together = host.copy_(together, non_blocking=True)
            copied = torch.cuda.Event()
            copied.record()
        self._pending.append(_Pending(step, list(values), together, copied, known, keys))
        return list(self._read(self._lag))

    def flush(self) -> list[Measured]:
        """All remaining metrics; waits for the device."""
        return list(self._read(0))

    def _read(self, left: int) -> Iterator[Measured]:
        while len(self._pending) > left:
            pending = self._pending.popleft()
            if pending.copied is not None:
                pending.copied.synchronize()
            values = dict(zip(pending.names, pending.values.tolist(), strict=True))
            self.requested = max(self.requested, int(values.pop(_REQUEST)))
            for name, quantity in (("loss", "loss"), ("grad_norm", "gradient norm")):
                if not math.isfinite(values[name]):
                    # both are the global batch's, so all processes come here or none does
                    keys = [key for part in self._group.gather_objects(pending.keys) for key in part]
                    raise UserError(_not_finite(pending.step, f"{quantity} is {values[name]}", keys))
            yield Measured(pending.step, values | pending.known)


def _not_finite(step: int, what: str, keys: list[str]) -> str:
    shown = ", ".join(keys[:8]) + (f", … ({len(keys)} in all)" if len(keys) > 8 else "")
    return (
        f"training stopped at step {step}: the {what}; samples of this batch: {shown}; "
        "hint: lower lr, lengthen warmup_steps, set clip_norm (1.0), or use precision fp32; "
        "the last good checkpoint is kept"
    )
