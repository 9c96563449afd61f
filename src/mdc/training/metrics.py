"""What steps measured, read some steps later, so that no step waits for the device."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from mdc.plan.processes.group import Group
from mdc.plan.records import UserError

#: steps that a GPU may be ahead of what is read of it
MAX_LAG = 4


def max_lag(device: torch.device) -> int:
    """Steps after which is read what a step measured."""
    return MAX_LAG if device.type == "cuda" else 0


_ASKED = "asked"


class Measured(NamedTuple):
    """What step ``step`` (from 0) measured, by name."""

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
    """Takes what each step measured and gives it back as numbers: at once on a CPU, ``MAX_LAG`` steps later on a GPU.

    UserError with the step and its samples if a loss or a gradient norm is not finite. The weights in memory may be bad by then,
    so nothing may be saved, validated or kept before :meth:`flush` was read to its end.

    With each step goes what its processes ask for, a number each (``ask``); ``asked`` is the greatest one that was read. All
    processes have read the same steps whenever they look, so they see the same, and none has waited for it.
    """

    def __init__(self, device: torch.device, group: Group, ask: Callable[[], int] = int) -> None:
        self._device, self._group, self._lag = device, group, max_lag(device)
        self._pending: deque[_Pending] = deque()
        self._ask, self.asked = ask, 0

    def add(self, step: int, values: Mapping[str, Tensor], keys: list[str], **known: float) -> list[Measured]:
        """Take the scalars of ``step``, which are the same on all processes, and what is ``known`` on the host already; what can
        be read by now."""
        asked = self._group.most(torch.full((), float(self._ask()), device=self._device))
        values = {**values, _ASKED: asked}
        # on their way to the host together, in float64: whole numbers stay exact
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
        """All the rest; waits for the device."""
        return list(self._read(0))

    def _read(self, left: int) -> Iterator[Measured]:
        while len(self._pending) > left:
            one = self._pending.popleft()
            if one.copied is not None:
                one.copied.synchronize()
            values = dict(zip(one.names, one.values.tolist(), strict=True))
            self.asked = max(self.asked, int(values.pop(_ASKED)))
            for name, what in (("loss", "loss"), ("grad_norm", "gradient norm")):
                if not math.isfinite(values[name]):
                    # both are the global batch's, so all processes come here or none does
                    keys = [key for part in self._group.gather_objects(one.keys) for key in part]
                    raise UserError(_not_finite(one.step, f"{what} is {values[name]}", keys))
            yield Measured(one.step, values | one.known)


def _not_finite(step: int, what: str, keys: list[str]) -> str:
    shown = ", ".join(keys[:8]) + (f", … ({len(keys)} in all)" if len(keys) > 8 else "")
    return (
        f"training stopped at step {step}: the {what}; samples of this batch: {shown}; "
        "hint: lower lr, lengthen warmup_steps, set clip_norm (1.0), or use precision fp32; "
        "the last good checkpoint is kept"
    )
