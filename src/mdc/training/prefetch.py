"""Prefetching: batches are prepared on the host and copied to the device during earlier steps."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils._pytree import tree_map_only

from mdc.data.loader.batch import CaptionBatch


class DeviceBatch(NamedTuple):
    """A batch on its device, prepared by its objective, and the keys of its samples."""

    prepared: Any
    keys: list[str]


def prefetch_to_device(
    batches: Iterable[CaptionBatch], prepare: Callable[[CaptionBatch], Any], device: torch.device
) -> Iterator[DeviceBatch]:
    """``batches``, each prepared and copied to ``device``.

    On a GPU the copy is from pinned memory on a stream of its own, so that it overlaps with the step before; only the device's
    current stream waits for it.
    """
    stream = torch.cuda.Stream(device) if device.type == "cuda" else None
    for batch in batches:
        yield DeviceBatch(_copied(prepare(batch), device, stream), batch.keys)


def _copied(prepared: Any, device: torch.device, stream: torch.cuda.Stream | None) -> Any:
    if stream is None:
        return tree_map_only(Tensor, lambda tensor: tensor.to(device), prepared)
    with torch.cuda.stream(stream):
        copy = tree_map_only(Tensor, lambda tensor: _pinned(tensor).to(device, non_blocking=True), prepared)
    used_by = torch.cuda.current_stream(device)
    used_by.wait_stream(stream)
    # the next copy must not reuse the memory while a step still reads it
    tree_map_only(Tensor, lambda tensor: _recorded(tensor, used_by), copy)
    return copy


def _pinned(tensor: Tensor) -> Tensor:
    return tensor if tensor.is_pinned() else tensor.contiguous().pin_memory()


def _recorded(tensor: Tensor, stream: torch.cuda.Stream) -> Tensor:
    tensor.record_stream(stream)
    return tensor
