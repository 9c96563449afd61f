"""Weighted cross-entropy against a large vocabulary, one chunk of logits at a time."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

#: logits that a CPU's cache holds (a fifth faster at 8,000 pieces), and rows that a GPU takes at a time
_CACHED, _ROWS = 1 << 20, 1024


def weighted_cross_entropy_sum(
    hidden: Tensor, weight: Tensor, targets: Tensor, weights: Tensor, chunk: int | None = None
) -> Tensor:
    """Σᵢ weightsᵢ · (−log softmax(hiddenᵢ · weightᵀ)[targetsᵢ]): a scalar in nats.

    hidden (N, W), weight (V, W), targets (N,) int64 below V, weights (N,) float. No row gives zero. Logits are made in
    hidden's dtype, or autocast's, and normalised in float32. Differentiable once, in hidden and weight. ``chunk``: rows of
    logits that live at a time, by default what a processor's cache holds, or 1,024.
    """
    device = hidden.device.type
    if chunk is None:
        chunk = min(max(_CACHED // weight.shape[0], 128), _ROWS) if device == "cpu" else _ROWS
    compute = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else hidden.dtype
    with torch.autocast(device, enabled=False):
        # a Function's own forward cannot tell whether somebody asks for gradients
        if torch.is_grad_enabled() and (hidden.requires_grad or weight.requires_grad):
            result: Tensor = _WeightedCrossEntropy.apply(hidden, weight, targets, weights, chunk, compute)
            return result
        return _value_and_gradients(hidden.to(compute), weight, targets, weights, chunk, differentiate=False)[0]


class _WeightedCrossEntropy(torch.autograd.Function):
    """The gradient is made in the same pass as the value.

    Plain autograd keeps N × V logits and their softmax (1.5 GB each for 8,000 rows of CLIP's vocabulary) and walks
    them several times. Here one chunk of logits lives at a time and becomes its own gradient in place.
    """

    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, targets: Tensor, weights: Tensor, chunk: int, compute: torch.dtype
    ) -> Tensor:
        low = hidden.to(compute)
        total, *gradients = _value_and_gradients(low, weight, targets, weights, chunk, differentiate=True)
        ctx.save_for_backward(*gradients)
        ctx.dtypes = hidden.dtype, weight.dtype
        return total

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        grad_hidden, grad_weight = ctx.saved_tensors
        # grad is 1/normaliser. Rounded to bf16, or multiplied in bf16 with numbers that were rounded before, it would make
        # the encoder's whole gradient up to 0.4 per cent too large or too small
        exact = torch.promote_types(grad.dtype, grad_hidden.dtype)
        of_hidden = (grad_hidden.to(exact) * grad).to(ctx.dtypes[0])
        return of_hidden, (grad_weight * grad).to(ctx.dtypes[1]), None, None, None, None


def _value_and_gradients(
    hidden: Tensor, weight: Tensor, targets: Tensor, weights: Tensor, chunk: int, differentiate: bool
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """The sum, and its gradients in hidden (hidden's dtype) and weight (float32) if they are asked for."""
    total = torch.zeros((), dtype=torch.float32, device=hidden.device)
    compute = hidden.dtype
    matrix = weight.to(compute)
    grad_hidden = torch.empty_like(hidden) if differentiate else None
    grad_weight = torch.zeros(weight.shape, dtype=torch.float32, device=weight.device) if differentiate else None
    # one block of logits for all chunks: fresh memory costs more than the arithmetic on a CPU
    block = torch.empty(min(chunk, hidden.shape[0]), weight.shape[0], dtype=compute, device=hidden.device)
    for start in range(0, hidden.shape[0], chunk):
        rows = hidden[start : start + chunk]
        labels = targets[start : start + chunk, None]
        scale = weights[start : start + chunk].to(torch.float32)
        logits = torch.mm(rows, matrix.t(), out=block[: len(rows)]).to(torch.float32)
        right = logits.gather(1, labels).squeeze(1)
        top = logits.amax(dim=1)
        # exponentials are taken once: their sums normalise, and they themselves become the gradient
        exponentials = logits.sub_(top[:, None]).exp_()
        sums = exponentials.sum(dim=1)
        total += (scale * (sums.log() + top - right)).sum()
        if grad_hidden is not None and grad_weight is not None:
            # d CE / d logits = softmax − one-hot, in place of the logits
            delta = exponentials.mul_((scale / sums)[:, None])
            delta.scatter_add_(1, labels, -scale[:, None])
            delta_low = delta.to(compute)
            torch.mm(delta_low, matrix, out=grad_hidden[start : start + chunk])
            if compute == torch.float32:
                grad_weight.addmm_(delta.t(), rows)
            else:
                grad_weight += (delta_low.t() @ rows).to(torch.float32)
    return total, grad_hidden, grad_weight
