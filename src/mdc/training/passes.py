"""Forward and backward passes with gradients summed over processes, by PyTorch's DistributedDataParallel."""

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from typing import Any, TypeVar

from torch import nn

from mdc.plan.processes.group import Group, translate_peer_failure

T = TypeVar("T")


class Passes:
    """``work`` of ``model`` on the parts of a batch; gradients are summed over ``group`` during the last part's backward pass.

    DistributedDataParallel divides by the number of processes, but losses are already divided by the global batch's normaliser;
    so multiply them by ``world`` before backward.
    """

    def __init__(self, model: nn.Module, work: Callable[..., Any], group: Group) -> None:
        self.world = group.world
        self._work = work
        self._shared: nn.parallel.DistributedDataParallel | None = None
        if not group.alone and any(parameter.requires_grad for parameter in model.parameters()):
            # torch 2.11 lacks the new name
            warnings.filterwarnings("ignore", ".*`broadcast_buffers` is deprecated")
            with translate_peer_failure():
                self._shared = nn.parallel.DistributedDataParallel(
                    _Pass(model, work),
                    broadcast_buffers=False,
                    gradient_as_bucket_view=True,
                    # otherwise buckets are rebuilt after the first step, also of a resumed run, which changes rounding
                    find_unused_parameters=True,
                )

    def send_in_bf16(self) -> None:
        """Round gradients to bf16 for communication."""
        if self._shared is not None:
            from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import bf16_compress_hook

            self._shared.register_comm_hook(None, bf16_compress_hook)

    def each(self, parts: Sequence[T]) -> Iterator[T]:
        """The parts one by one; the loop's body runs forward and backward of each."""
        for number, part in enumerate(parts, 1):
            with self._shared.no_sync() if self._shared is not None and number < len(parts) else nullcontext():
                yield part

    def __call__(self, *inputs: Any) -> Any:
        """``work`` of a part."""
        return (self._shared or self._work)(*inputs)


class _Pass(nn.Module):
    """A function of a model as a module, which is what DistributedDataParallel takes."""

    def __init__(self, model: nn.Module, work: Callable[..., Any]) -> None:
        super().__init__()
        self.model, self._work = model, work

    def forward(self, *inputs: Any) -> Any:
        return self._work(*inputs)
