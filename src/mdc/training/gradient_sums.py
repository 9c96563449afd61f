"""Gradients summed over processes while the backward pass still runs.

Gradients become ready from the last layer to the first. As soon as a bucket of them is complete its sum is under way, on the
network's own time; when the backward pass ends, little is left to wait for. PyTorch's DistributedDataParallel does so too, but
divides by the number of processes, while our losses divide by the global batch's normaliser already, and it wraps the model.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from mdc.plan.processes.group import Group, peers

BUCKET = 1 << 23  # numbers that are sent together: 32 MiB of fp32


class _Bucket:
    """Parameters whose gradients are summed together, and how many of them are not ready yet."""

    def __init__(self, parameters: list[nn.Parameter]) -> None:
        self.parameters = parameters
        self.missing = 0
        self.flat: Tensor | None = None
        self.work: Any = None


class GradientSums:
    """The sums of ``parameters``' gradients over the processes of ``group``.

    ``dtype``: what is sent, by default the gradients' own. Every process has to make the same parameters ready in the same order,
    which it does, because all compute the same graph; buckets are sent in their order whatever becomes ready first. In a group of
    one nothing happens.
    """

    def __init__(
        self, group: Group, parameters: Sequence[nn.Parameter], dtype: torch.dtype | None = None, size: int = BUCKET
    ) -> None:
        self._group, self._dtype = group, dtype
        self._buckets: list[_Bucket] = []
        self._sent = 0
        self._left: dict[nn.Parameter, int] = {}
        self._of: dict[nn.Parameter, _Bucket] = {}
        if group.alone:
            return
        # The last parameters' gradients come first. A single number, as CLIP's scale, is made apart from the rest, and no bucket
        # that waits for it may hold up the others.
        room = 0
        last_first = list(parameters)[::-1]
        ordered = sorted(last_first, key=lambda parameter: parameter.ndim == 0)
        for parameter in ordered:
            if not self._buckets or room + parameter.numel() > size:
                self._buckets.append(_Bucket([]))
                room = 0
            self._buckets[-1].parameters.append(parameter)
            self._of[parameter] = self._buckets[-1]
            room += parameter.numel()
            parameter.register_post_accumulate_grad_hook(self._ready)

    def begin(self, parts: int) -> None:
        """A step begins, whose backward passes add to each gradient ``parts`` times; one that is added to less often is sent at
        the end."""
        self._sent = 0
        self._left = dict.fromkeys(self._of, parts)
        for bucket in self._buckets:
            bucket.missing, bucket.flat, bucket.work = len(bucket.parameters), None, None

    def finish(self) -> None:
        """Wait until every gradient is the sum over all processes."""
        while self._sent < len(self._buckets):
            self._send(self._buckets[self._sent])
        for bucket in self._buckets:
            if bucket.flat is None:
                continue
            with peers():
                bucket.work.wait()
            gradients = _gradients(bucket)
            for gradient, part in zip(gradients, bucket.flat.split([g.numel() for g in gradients]), strict=True):
                gradient.copy_(part.view_as(gradient))
            bucket.flat = bucket.work = None

    def _ready(self, parameter: nn.Parameter) -> None:
        self._left[parameter] = self._left.get(parameter, 0) - 1
        if self._left[parameter]:
            return
        self._of[parameter].missing -= 1
        while self._sent < len(self._buckets) and not self._buckets[self._sent].missing:
            self._send(self._buckets[self._sent])

    def _send(self, bucket: _Bucket) -> None:
        self._sent += 1
        gradients = _gradients(bucket)
        if not gradients:
            return
        bucket.flat = torch.cat([gradient.reshape(-1) for gradient in gradients]).to(self._dtype or gradients[0].dtype)
        with peers():
            bucket.work = torch.distributed.all_reduce(bucket.flat, async_op=True)


def _gradients(bucket: _Bucket) -> list[Tensor]:
    return [parameter.grad for parameter in bucket.parameters if parameter.grad is not None]
