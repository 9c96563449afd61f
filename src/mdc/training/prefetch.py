"""The way of batches to the device: prepared on the host, copied beside the steps before."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor

from mdc.data.loader.batch import CaptionBatch
from mdc.training.objectives.micro_batches import each_tensor


class DeviceBatch(NamedTuple):
    """A batch on its device as its objective prepared it, and the names of its samples."""

    prepared: Any
    keys: list[str]


def prefetch_to_device(
    batches: Iterable[CaptionBatch], prepare: Callable[[CaptionBatch], Any], device: torch.device
) -> Iterator[DeviceBatch]:
    """``batches``, each prepared and brought to ``device``.

    On a GPU the copy starts from pinned memory on a stream of its own, so that it runs while the step before computes; whoever
    uses the batch waits for it on the device alone.
    """
    stream = torch.cuda.Stream(device) if device.type == "cuda" else None
    for batch in batches:
        yield DeviceBatch(_copied(prepare(batch), device, stream), batch.keys)


def _copied(prepared: Any, device: torch.device, stream: torch.cuda.Stream | None) -> Any:
    if stream is None:
        return each_tensor(prepared, lambda tensor: tensor.to(device))
    with torch.cuda.stream(stream):
        copy = each_tensor(prepared, lambda tensor: _pinned(tensor).to(device, non_blocking=True))
    used_by = torch.cuda.current_stream(device)
    used_by.wait_stream(stream)
    # the memory must not be given to the next copy while a step still reads it
    each_tensor(copy, lambda tensor: _recorded(tensor, used_by))
    return copy


def _pinned(tensor: Tensor) -> Tensor:
    return tensor if tensor.is_pinned() else tensor.contiguous().pin_memory()


def _recorded(tensor: Tensor, stream: torch.cuda.Stream) -> Tensor:
    tensor.record_stream(stream)
    return tensor
