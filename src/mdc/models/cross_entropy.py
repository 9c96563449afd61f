"""Weighted cross-entropy against a large vocabulary, one chunk of logits at a time."""

from __future__ import annotations

import torch
from torch import Tensor

from mdc.models.logits import sum_over_logits


def weighted_cross_entropy_sum(
    hidden: Tensor, weight: Tensor, targets: Tensor, weights: Tensor, chunk: int | None = None
) -> Tensor:
    """Σᵢ weightsᵢ · (−log softmax(hiddenᵢ · weightᵀ)[targetsᵢ]): a scalar in nats.

    hidden (N, W), weight (V, W), targets (N,) int64 below V, weights (N,) float. No row gives zero. Differentiable once, in
    hidden and weight; dtypes and ``chunk`` as :func:`mdc.models.logits.sum_over_logits` has them.
    """

    def of_rows(logits: Tensor, where: slice, differentiate: bool) -> Tensor:
        labels, scale = targets[where, None], weights[where].to(torch.float32)
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

    return sum_over_logits(hidden, weight, of_rows, chunk=chunk)[0]
