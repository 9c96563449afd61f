"""The k-NN probe: k nearest training items by cosine, votes weighted by exp(cosine / temperature), without training.

As DINO's evaluation has it (Caron et al., 2021: k = 20, temperature 0.07), on the feature that the linear probe reads.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from mdc.extensions.neighbours.kinds import Neighbours
from mdc.plan.jobs.model import ProbeJob
from mdc.plan.records import UserError

TOKENS = False
#: cosines in memory at once, of some test items with all training items: 64 MiB
_COSINES = 2**24
_ROWS = 1024  # test items at once, at most: limits the memory of their neighbours' labels


def fit(
    job: ProbeJob, train: Tensor, targets: Tensor, classes: int, test: Tensor, device: torch.device
) -> tuple[Tensor, dict[str, Any]]:
    """Shares of the votes, and no notes; see :func:`votes`."""
    head = job.head
    assert isinstance(head, Neighbours)
    return votes(train.to(device), targets, test.to(device), classes, head.k, head.temperature), {}


@torch.no_grad()
def votes(train: Tensor, targets: Tensor, test: Tensor, classes: int, k: int, temperature: float) -> Tensor:
    """Shares (N, K) float32 on the CPU of the votes for each class, of ``test`` (N, D) by ``train`` (T, D).

    ``targets`` (T,) int64 of one label: shares add up to 1. ``targets`` (T, K) of zeros and ones: each the share of positives.
    UserError if there are fewer than ``k`` training items.
    """
    if len(train) < k:
        raise UserError(f"{len(train)} training items, fewer than k = {k} neighbours")
    bank = F.normalize(train, dim=1).t()
    shares = torch.zeros(len(test), classes)
    rows = min(_ROWS, max(1, _COSINES // len(train)))
    for chunk, out in zip(test.split(rows), shares.split(rows), strict=True):
        nearest = (F.normalize(chunk, dim=1) @ bank).topk(k, dim=1)
        # softmax divides a row by a constant: shares do not change, and nothing overflows
        weights, labels = torch.softmax(nearest.values / temperature, dim=1).cpu(), targets[nearest.indices.cpu()]
        if targets.ndim == 2:
            out.copy_((weights[:, None] @ labels.float())[:, 0])
        else:
            out.scatter_add_(1, labels, weights)
    return shares
