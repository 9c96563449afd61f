"""The passes of a step whose gradients become their sums over a run's processes, by PyTorch's DistributedDataParallel."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from typing import Any, TypeVar

from torch import nn

from mdc.plan.processes.group import Group, translate_peer_failure

T = TypeVar("T")


class Passes:
    """``work`` of ``model`` on the parts of a batch, whose gradients are summed over ``group`` while the last part's backward
    pass runs. In a group of one nothing else happens.

    DistributedDataParallel divides by the number of processes, while our losses divide by the global batch's normaliser
    already; so whatever is differentiated is multiplied by ``world`` first.
    """

    def __init__(self, model: nn.Module, work: Callable[..., Any], group: Group) -> None:
        self.world = group.world
        self._work = work
        self._shared: nn.parallel.DistributedDataParallel | None = None
        if not group.alone and any(parameter.requires_grad for parameter in model.parameters()):
            # what it shall be called now, torch 2.11 lacks
            warnings.filterwarnings("ignore", ".*`broadcast_buffers` is deprecated")
            with translate_peer_failure():
                self._shared = nn.parallel.DistributedDataParallel(
                    _Pass(model, work),
                    broadcast_buffers=False,
                    gradient_as_bucket_view=True,
                    # or buckets are made anew after the first step, also of a run that resumes, which rounds sums otherwise
                    find_unused_parameters=True,
                )

    def send_in_bf16(self) -> None:
        """Gradients are rounded to bf16 on their way between processes."""
        if self._shared is not None:
            from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import bf16_compress_hook

            self._shared.register_comm_hook(None, bf16_compress_hook)

    def each(self, parts: Sequence[T]) -> Iterator[T]:
        """The parts one by one; the loop's body makes forward and backward pass of each."""
        for number, part in enumerate(parts, 1):
            with self._shared.no_sync() if self._shared is not None and number < len(parts) else nullcontext():
                yield part

    def __call__(self, *inputs: Any) -> Any:
        """What ``work`` makes of a part."""
        return (self._shared or self._work)(*inputs)


class _Pass(nn.Module):
    """A function of a model as a module, which is what DistributedDataParallel takes."""

    def __init__(self, model: nn.Module, work: Callable[..., Any]) -> None:
        super().__init__()
        self.model, self._work = model, work

    def forward(self, *inputs: Any) -> Any:
        return self._work(*inputs)
