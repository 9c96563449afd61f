"""What captioning objectives share: the model, and from supervised tokens to gradients.

All supervise exactly the same tokens of a caption: its pieces and EOT (L of them); SOT never.
B captions of T tokens (SOT, pieces, EOT, padding), ``lengths`` counting SOT…EOT.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from mdc.config import Backbone, OnTokens
from mdc.loader.batch import CaptionBatch
from mdc.models.captioner import Captioner
from mdc.models.initial import seeded
from mdc.models.precision import autocast
from mdc.objectives.micro_batches import slices, trimmed
from mdc.processes.group import Group


class Supervision(NamedTuple):
    """inputs, targets (B, T) int64; weights (B, T) float32, zero where nothing is supervised; normaliser: a scalar."""

    inputs: Tensor
    targets: Tensor
    weights: Tensor
    normaliser: Tensor


#: (batch, size of the global batch) → its supervision; all randomness comes with the batch
Supervise = Callable[[CaptionBatch, int], Supervision]


def build_captioner(
    backbone: Backbone | OnTokens, vocabulary_size: int, context_length: int, causal: bool, seed: int
) -> Captioner:
    """A captioner with the initial weights of ``seed``; the global generator is left as it was."""
    # PyTorch's layers draw weights of their own, which ours then replace
    with seeded(seed, "replaced"):
        return Captioner(backbone, vocabulary_size, context_length, causal=causal, seed=seed)


class CaptioningObjective:
    """Cross-entropy of the supervised tokens, weighted, over the normaliser.

    The normaliser is the global batch's, so neither accumulation nor the number of processes changes a loss.
    """

    def __init__(
        self,
        model: Captioner,
        supervise: Supervise,
        batch_size: int,
        precision: str,
        group: Group,
        seen: Callable[[CaptionBatch], CaptionBatch] | None = None,
    ) -> None:
        """``seen``: what is made of a batch before anything else, if not the batch itself."""
        self.model, self.supervise, self.batch_size = model, supervise, batch_size
        self.precision, self.group = precision, group
        self._seen = seen or (lambda batch: batch)

    def _sum(self, batch: CaptionBatch, target: Supervision, rows: slice) -> Tensor:
        # a micro-batch is trimmed to its own longest caption
        lengths = batch.lengths[rows]
        columns = slice(0, trimmed(int(lengths.max()), target.inputs.shape[1]))
        images = batch.images[rows]
        with autocast(images.device, self.precision):
            return self.model(
                self.model.encoder.prepared(images),
                target.inputs[rows, columns],
                lengths,
                target.targets[rows, columns],
                target.weights[rows, columns],
            )

    def backward(self, batch: CaptionBatch, micro_batches: int) -> dict[str, Tensor | float]:
        batch = self._seen(batch)
        target = self.supervise(batch, self.batch_size)
        supervised, tokens = self.group.sum(torch.stack([target.normaliser, (batch.lengths - 1).sum()]))
        normaliser = supervised.clamp(min=1)
        total = torch.zeros((), device=target.weights.device)
        for rows in slices(len(batch), micro_batches):
            loss = self._sum(batch, target, rows) / normaliser
            loss.backward()
            total += loss.detach()
        return {"loss": self.group.sum(total), "tokens": tokens}

    @torch.no_grad()
    def evaluate(self, batch: CaptionBatch) -> tuple[Tensor, Tensor]:
        batch = self._seen(batch)
        # held-out batches may be short: their times are stratified within each
        target = self.supervise(batch, len(batch))
        return self._sum(batch, target, slice(None)), target.normaliser

    def after_step(self) -> None:
        pass
