"""A training step in which nothing is allocated and nothing computed: shapes and types alone go through the run's own code.

PyTorch's fake tensors say what every operation would return, and this module counts their bytes while they live.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only

from mdc.models import logits


class _NothingDrawn(TorchFunctionMode):
    """A fake tensor has no values, so no generator may be asked for them."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = dict(kwargs or {})
        if func is torch.randn:
            given.pop("generator", None)
        return func(*args, **given)


class Live(TorchDispatchMode):
    """Bytes of what is made in the block and still there: ``now``, and the most there were, ``peak``. ``apart``: tensors whose
    bytes are counted elsewhere, and the views of them."""

    def __init__(self, apart: list[Tensor]) -> None:
        super().__init__()
        self.now = self.peak = 0
        self._known: weakref.WeakKeyDictionary[Any, None] = weakref.WeakKeyDictionary()
        for tensor in apart:
            self._known[tensor.untyped_storage()] = None

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = func(*args, **(kwargs or {}))
        tree_map_only(Tensor, self._add, found)
        return found

    def _add(self, tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage not in self._known:
            size = storage.nbytes()
            self._known[storage] = None
            weakref.finalize(storage, self._gone, size).atexit = False
            self.now += size
            self.peak = max(self.peak, self.now)
        return tensor

    def _gone(self, size: int) -> None:
        self.now -= size


class _Kept:
    """A tensor on its way to the backward pass."""

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor


class Saved:
    """The most bytes that autograd keeps for the backward pass at a time, each memory counted once; ``apart`` as above."""

    def __init__(self, apart: list[Tensor]) -> None:
        self.now = self.peak = 0
        self._apart = {_place(tensor) for tensor in apart}
        self._holders: dict[int, int] = {}

    @contextmanager
    def counted(self) -> Iterator[None]:
        """Count what is saved while the block runs."""
        with torch.autograd.graph.saved_tensors_hooks(self._pack, lambda kept: kept.tensor):
            yield

    def _pack(self, tensor: Tensor) -> _Kept:
        place, kept = _place(tensor), _Kept(tensor)
        if place in self._apart:
            return kept
        size = tensor.untyped_storage().nbytes()
        if not self._holders.get(place):
            self.now += size
            self.peak = max(self.peak, self.now)
        self._holders[place] = self._holders.get(place, 0) + 1
        weakref.finalize(kept, self._let_go, place, size).atexit = False
        return kept

    def _let_go(self, place: int, size: int) -> None:
        self._holders[place] -= 1
        if not self._holders[place]:
            del self._holders[place]
            self.now -= size


def _place(tensor: Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)


@contextmanager
def unallocated(mode: FakeTensorMode, on_gpu: bool) -> Iterator[None]:
    """A block in which new tensors are fake ones of ``mode``; those of two modes do not meet.

    They say that they lie on a CPU, whose attention keeps what a GPU's does. ``on_gpu``: as many logits live at a time as there.
    """
    with ExitStack() as stack:
        if on_gpu:
            stack.enter_context(mock.patch.object(logits, "_CACHED", 1 << 60))
        stack.enter_context(mode)
        stack.enter_context(_NothingDrawn())
        yield
