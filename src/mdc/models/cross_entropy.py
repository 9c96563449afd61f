"""Weighted cross-entropy against a large vocabulary, one chunk of logits at a time."""

from collections.abc import Callable
from importlib.util import find_spec

import torch
from torch import Tensor

from mdc.models.logits import computed_in, sum_over_logits

#: (logits (n, V), targets (n,), weights (n,), whether the gradient replaces the logits) → losses (n,)
Kernel = Callable[[Tensor, Tensor, Tensor, bool], Tensor]


#: whether the kernel may be used where it works; set by the recipe
kernel_allowed = True


def weighted_cross_entropy_sum(
    hidden: Tensor, weight: Tensor, targets: Tensor, weights: Tensor, chunk: int | None = None
) -> Tensor:
    """Σᵢ weightsᵢ · (−log softmax(hiddenᵢ · weightᵀ)[targetsᵢ]): a scalar in nats.

    hidden (N, W), weight (V, W), targets (N,) int64 below V, weights (N,) float. No row gives zero. Differentiable once, in
    hidden and weight; dtypes and ``chunk`` as :func:`mdc.models.logits.sum_over_logits` has them.

    On CUDA each chunk passes :mod:`mdc.models.fused_cross_entropy`, if Triton is installed and its kernel works.
    """
    kernel = kernel_for(hidden.device, computed_in(hidden))

    def of_rows(logits: Tensor, where: slice, differentiate: bool) -> Tensor:
        if kernel is not None:
            return kernel(logits, targets[where], weights[where].to(torch.float32), differentiate).sum()[None]
        scale = weights[where].to(logits.dtype)
        labels = targets[where, None]
        right = logits.gather(1, labels).squeeze(1)
        top = logits.amax(dim=1)
        # exponentials are taken once: their sums normalise, and they themselves become the gradient
        exponentials = logits.sub_(top[:, None]).exp_()
        sums = exponentials.sum(dim=1)
        if differentiate:
            # d CE / d logits = softmax − one-hot, in place of the logits
            delta = exponentials.mul_((scale / sums)[:, None])
            delta.scatter_add_(1, labels, -scale[:, None])
        return (scale * (sums.log() + top - right)).sum()[None]

    return sum_over_logits(hidden, weight, of_rows, chunk=chunk, as_made=kernel is not None)[0]


def kernel_for(device: torch.device, dtype: torch.dtype) -> Kernel | None:
    """The kernel that computes a block of ``dtype`` on ``device`` in one launch; None: use PyTorch's operations."""
    if (
        not kernel_allowed
        or device.type != "cuda"
        or dtype not in (torch.float32, torch.bfloat16)
        or find_spec("triton") is None
    ):
        return None
    # without CUDA, Triton is not loaded and need not be installed
    from mdc.models.fused_cross_entropy import cross_entropy_, works

    return cross_entropy_ if works(device, dtype) else None
