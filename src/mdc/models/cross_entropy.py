"""Weighted cross-entropy against a large vocabulary, without keeping the logits."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


class _WeightedCrossEntropy(torch.autograd.Function):
    """Σ wᵢ · CEᵢ over chunks of rows; the gradient is made in the same pass.

    Plain autograd keeps N × V logits and their softmax (1.5 GB each for 8,000 rows of CLIP's vocabulary) and walks
    them several times. Here one chunk of logits lives at a time and becomes its own gradient in place.
    """

    @staticmethod
    def forward(ctx: Any, hidden: Tensor, weight: Tensor, targets: Tensor, weights: Tensor, chunk: int) -> Tensor:
        needs_grad = any(ctx.needs_input_grad[:2])
        total = torch.zeros((), dtype=torch.float32, device=hidden.device)
        compute = hidden.dtype
        matrix = weight.to(compute)
        grad_hidden = torch.empty_like(hidden) if needs_grad else None
        grad_weight = torch.zeros(weight.shape, dtype=torch.float32, device=weight.device) if needs_grad else None
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
        ctx.save_for_backward(grad_hidden, grad_weight)
        ctx.weight_dtype = weight.dtype
        return total

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        grad_hidden, grad_weight = ctx.saved_tensors
        if grad_hidden is None:
            return None, None, None, None, None
        return grad_hidden * grad.to(grad_hidden.dtype), (grad_weight * grad).to(ctx.weight_dtype), None, None, None


def weighted_cross_entropy_sum(
    hidden: Tensor, weight: Tensor, targets: Tensor, weights: Tensor, chunk: int = 1024
) -> Tensor:
    """Σᵢ weightsᵢ · (−log softmax(hiddenᵢ · weightᵀ)[targetsᵢ]): a scalar in nats.

    hidden (N, W), weight (V, W), targets (N,) int64 below V, weights (N,) float. No row gives zero. Logits are made in
    hidden's dtype and normalised in float32. Differentiable once, in hidden and weight.
    """
    if hidden.is_cuda and torch.is_autocast_enabled("cuda"):
        hidden = hidden.to(torch.get_autocast_dtype("cuda"))
    elif hidden.device.type == "cpu" and torch.is_autocast_enabled("cpu"):
        hidden = hidden.to(torch.get_autocast_dtype("cpu"))
    with torch.autocast(hidden.device.type, enabled=False):
        result: Tensor = _WeightedCrossEntropy.apply(hidden, weight, targets, weights, chunk)
    return result
