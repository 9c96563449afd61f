"""CLIP's loss: each image must pick its caption from the batch, each caption its image (OpenCLIP)."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def contrastive_loss(image: Tensor, text: Tensor, scale: Tensor, captions: Tensor | None = None) -> Tensor:
    """Mean of the two cross-entropies over a batch, a scalar in nats.

    image, text (B, E) unit rows; scale a scalar factor; captions (B,) int64, equal numbers for equal captions: such
    pairs are no negatives of each other and leave each other's softmax. None masks nothing.
    """
    logits = scale * image @ text.t()
    if captions is not None:
        same = captions[:, None] == captions[None, :]
        same.fill_diagonal_(False)
        logits = logits.masked_fill(same, float("-inf"))
    labels = torch.arange(len(image), device=image.device)
    return (F.cross_entropy(logits, labels) + F.cross_entropy(logits.t(), labels)) / 2


def contrastive_part(image: Tensor, text: Tensor, scale: Tensor, captions: Tensor | None, rows: range) -> Tensor:
    """What the images and the captions of ``rows`` add to ``contrastive_loss``: the parts of a batch sum to it."""
    own = slice(rows.start, rows.stop)
    labels = torch.arange(rows.start, rows.stop, device=image.device)
    total = torch.zeros((), device=image.device)
    for queries, keys in ((image[own], text), (text[own], image)):
        logits = scale * queries @ keys.t()
        if captions is not None:
            same = captions[own, None] == captions[None, :]
            same.scatter_(1, labels[:, None], False)
            logits = logits.masked_fill(same, float("-inf"))
        total = total + F.cross_entropy(logits, labels, reduction="sum")
    return total / (2 * len(image))


def duplicate_share(captions: Tensor) -> float:
    """Share of a batch's samples whose caption stands more than once in it."""
    _, inverse, counts = captions.unique(return_inverse=True, return_counts=True)
    return float((counts[inverse] > 1).float().mean())
