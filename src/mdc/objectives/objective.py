"""One object per method that turns a batch into gradients, however many micro-batches it takes.

The trainer knows nothing else about methods. A new method is an entry in params.yaml and, if it is neither masked,
autoregressive nor contrastive, one more class here.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Protocol as Interface

import torch
from torch import Tensor

from mdc.config import Method, ProtocolPretrain
from mdc.data.images import normalise
from mdc.data.loader import Batch
from mdc.models.captioner import Captioner
from mdc.models.contrastive import Contrastive
from mdc.models.precision import autocast
from mdc.objectives.captioning import Supervision, supervise
from mdc.objectives.contrastive import contrastive_loss, duplicate_share


class Objective(Interface):
    """What the trainer asks of a method."""

    def backward(self, batch: Batch, micro_batches: int) -> dict[str, Tensor | float]:
        """Add the gradient of the whole batch's loss to the parameters; the returned ``loss`` is that loss in nats."""
        ...

    def evaluate(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """(sum, count) of the loss on a held-out batch, without gradients."""
        ...

    def after_step(self) -> None:
        """What must hold after the optimiser moved."""
        ...


class CaptioningObjective:
    """ARC, MDC and every other masked or autoregressive entry.

    The normaliser is the whole batch's, so accumulation changes nothing but memory.
    """

    def __init__(
        self,
        model: Captioner,
        method: Method,
        protocol: ProtocolPretrain,
        mask_id: int,
        batch_size: int,
        precision: str,
    ) -> None:
        self.model, self.method, self.protocol = model, method, protocol
        self.mask_id, self.batch_size, self.precision = mask_id, batch_size, precision

    def _supervise(self, batch: Batch, global_batch: int) -> Supervision:
        return supervise(self.method, self.protocol, batch, self.mask_id, global_batch)

    def _sum(self, batch: Batch, target: Supervision, rows: slice) -> Tensor:
        # a micro-batch is trimmed to its own longest caption
        lengths = batch["lengths"][rows]
        length = trimmed(int(lengths.max()), target.inputs.shape[1])
        columns = slice(0, length)
        images = batch["images"][rows]
        with autocast(images.device, self.precision):
            return self.model(
                normalise(images),
                target.inputs[rows, columns],
                lengths,
                target.targets[rows, columns],
                target.weights[rows, columns],
            )

    def backward(self, batch: Batch, micro_batches: int) -> dict[str, Tensor | float]:
        target = self._supervise(batch, self.batch_size)
        normaliser = target.normaliser.clamp(min=1)
        total = torch.zeros((), device=target.weights.device)
        for rows in slices(len(batch["lengths"]), micro_batches):
            loss = self._sum(batch, target, rows) / normaliser
            loss.backward()
            total += loss.detach()
        return {"loss": total, "tokens": (batch["lengths"] - 1).sum()}

    @torch.no_grad()
    def evaluate(self, batch: Batch) -> tuple[Tensor, Tensor]:
        # held-out batches may be short: their times are stratified within each
        target = self._supervise(batch, len(batch["lengths"]))
        return self._sum(batch, target, slice(None)), target.normaliser

    def after_step(self) -> None:
        pass


class ContrastiveObjective:
    """CLIP and CLIP-LB. With accumulation the loss is still the full batch's (as GradCache does it):

    embed all micro-batches without a graph, take the loss's gradient with respect to the embeddings, then embed each
    micro-batch again with a graph and push its part of that gradient through. Exact, since nothing is random.
    """

    def __init__(self, model: Contrastive, mask_duplicates: bool, precision: str) -> None:
        self.model, self.mask_duplicates, self.precision = model, mask_duplicates, precision

    def _embed(self, batch: Batch, rows: slice) -> tuple[Tensor, Tensor]:
        images = batch["images"][rows]
        lengths = batch["lengths"][rows]
        length = trimmed(int(lengths.max()), batch["tokens"].shape[1])
        with autocast(images.device, self.precision):
            return self.model(normalise(images), batch["tokens"][rows, :length], lengths)

    def _loss(self, image: Tensor, text: Tensor, batch: Batch) -> Tensor:
        captions = batch["caption_hash"] if self.mask_duplicates else None
        return contrastive_loss(image, text, self.model.scale(), captions)

    def backward(self, batch: Batch, micro_batches: int) -> dict[str, Tensor | float]:
        duplicates = duplicate_share(batch["caption_hash"])
        if micro_batches == 1:
            loss = self._loss(*self._embed(batch, slice(None)), batch)
            loss.backward()
        else:
            parts = list(slices(len(batch["lengths"]), micro_batches))
            with torch.no_grad():
                embedded = [self._embed(batch, rows) for rows in parts]
            image = torch.cat([e[0] for e in embedded]).requires_grad_()
            text = torch.cat([e[1] for e in embedded]).requires_grad_()
            loss = self._loss(image, text, batch)
            loss.backward()  # reaches the embeddings and the logit scale
            assert image.grad is not None and text.grad is not None
            for rows in parts:
                torch.autograd.backward(self._embed(batch, rows), (image.grad[rows], text.grad[rows]))
        return {"loss": loss.detach(), "logit_scale": self.model.scale().detach(), "duplicate_share": duplicates}

    @torch.no_grad()
    def evaluate(self, batch: Batch) -> tuple[Tensor, Tensor]:
        count = torch.tensor(len(batch["lengths"]))
        return self._loss(*self._embed(batch, slice(None)), batch) * count, count

    def after_step(self) -> None:
        self.model.clamp_scale()


def trimmed(longest: int, available: int, multiple: int = 8) -> int:
    """A length that holds the longest caption, rounded up so that few shapes occur, within what is there."""
    return min(-(-longest // multiple) * multiple, available)


def slices(size: int, parts: int) -> Iterator[slice]:
    """``parts`` slices of nearly equal length that cover range(size)."""
    edges = [size * i // parts for i in range(parts + 1)]
    return (slice(a, b) for a, b in pairwise(edges))


def build_objective(
    model: Captioner | Contrastive,
    method: Method,
    protocol: ProtocolPretrain,
    mask_id: int,
    batch_size: int,
    precision: str,
    duplicate_share: float = 0.0,
) -> Objective:
    """The objective of a method's entry.

    ``batch_size`` is the global one: it decides the strata of t. ``duplicate_share`` is the corpus's, as its manifest
    tells it: above the protocol's limit CLIP leaves equal captions out of each other's negatives.
    """
    if isinstance(model, Contrastive):
        return ContrastiveObjective(model, duplicate_share > protocol.mask_duplicates_over, precision)
    return CaptioningObjective(model, method, protocol, mask_id, batch_size, precision)
