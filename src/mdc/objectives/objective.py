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
from mdc.formats.images import normalise
from mdc.loader.batches import Batch
from mdc.models.captioner import Captioner
from mdc.models.contrastive import Contrastive
from mdc.models.precision import autocast
from mdc.objectives.captioning import Supervision, supervise
from mdc.objectives.contrastive import contrastive_loss, contrastive_part, duplicate_share
from mdc.processes.group import ALONE, Group


class Objective(Interface):
    """What the trainer asks of a method."""

    def backward(self, batch: Batch, micro_batches: int) -> dict[str, Tensor | float]:
        """Add to the parameters the gradient that this process's part of the global batch contributes: over all
        processes these sum to the gradient of the global batch's loss. What is returned (``loss`` in nats, and more)
        is the global batch's, the same on all processes.
        """
        ...

    def evaluate(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """(sum, count) of the loss on a held-out batch that this process has whole, without gradients."""
        ...

    def after_step(self) -> None:
        """What must hold after the optimiser moved."""
        ...


class CaptioningObjective:
    """ARC, MDC and every other masked or autoregressive entry.

    The normaliser is the global batch's, so neither accumulation nor the number of processes changes a loss.
    """

    def __init__(
        self,
        model: Captioner,
        method: Method,
        protocol: ProtocolPretrain,
        mask_id: int,
        batch_size: int,
        precision: str,
        group: Group = ALONE,
    ) -> None:
        self.model, self.method, self.protocol = model, method, protocol
        self.mask_id, self.batch_size, self.precision, self.group = mask_id, batch_size, precision, group

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
        supervised, tokens = self.group.sum(torch.stack([target.normaliser, (batch["lengths"] - 1).sum()]))
        normaliser = supervised.clamp(min=1)
        total = torch.zeros((), device=target.weights.device)
        for rows in slices(len(batch["lengths"]), micro_batches):
            loss = self._sum(batch, target, rows) / normaliser
            loss.backward()
            total += loss.detach()
        return {"loss": self.group.sum(total), "tokens": tokens}

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

    Several processes hand each other their embeddings. Each takes the part of the loss that belongs to its own images
    and captions, against everyone's; the gradient of an embedding is the sum of what all parts say about it.
    """

    def __init__(self, model: Contrastive, mask_duplicates: bool, precision: str, group: Group = ALONE) -> None:
        self.model, self.mask_duplicates, self.precision, self.group = model, mask_duplicates, precision, group

    def _embed(self, batch: Batch, rows: slice) -> tuple[Tensor, Tensor]:
        images = batch["images"][rows]
        lengths = batch["lengths"][rows]
        length = trimmed(int(lengths.max()), batch["tokens"].shape[1])
        with autocast(images.device, self.precision):
            return self.model(normalise(images), batch["tokens"][rows, :length], lengths)

    def _loss(self, image: Tensor, text: Tensor, batch: Batch) -> Tensor:
        captions = batch["caption_hash"] if self.mask_duplicates else None
        return contrastive_loss(image, text, self.model.scale(), captions)

    def _embedding_gradients(self, image: Tensor, text: Tensor, captions: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The global batch's loss, and its gradient in this process's embeddings image and text (b, E) each.

        What the own part of the loss says about the logit scale is added to that parameter's gradient.
        """
        image = self.group.gather(image).requires_grad_()
        text = self.group.gather(text).requires_grad_()
        masked = captions if self.mask_duplicates else None
        own = self.group.own_rows(len(image))
        if self.group.alone:
            loss = contrastive_loss(image, text, self.model.scale(), masked)
        else:
            loss = contrastive_part(image, text, self.model.scale(), masked, own)
        loss.backward()
        assert image.grad is not None and text.grad is not None
        both = self.group.sum(torch.stack([image.grad, text.grad]))[:, own.start : own.stop]
        return self.group.sum(loss.detach()), both[0], both[1]

    def backward(self, batch: Batch, micro_batches: int) -> dict[str, Tensor | float]:
        captions = self.group.gather(batch["caption_hash"])
        if micro_batches == 1:
            embedded = self._embed(batch, slice(None))
            if self.group.alone:
                loss = self._loss(*embedded, batch)
                loss.backward()
            else:
                loss, *gradients = self._embedding_gradients(embedded[0].detach(), embedded[1].detach(), captions)
                torch.autograd.backward(embedded, gradients)
        else:
            parts = list(slices(len(batch["lengths"]), micro_batches))
            with torch.no_grad():
                pieces = [self._embed(batch, rows) for rows in parts]
            image, text = (torch.cat(side) for side in zip(*pieces, strict=True))
            loss, of_image, of_text = self._embedding_gradients(image, text, captions)
            for rows in parts:
                torch.autograd.backward(self._embed(batch, rows), (of_image[rows], of_text[rows]))
        return {
            "loss": loss.detach(),
            "logit_scale": self.model.scale().detach(),
            "duplicate_share": duplicate_share(captions),
        }

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
    group: Group = ALONE,
) -> Objective:
    """The objective of a method's entry.

    ``batch_size`` is the global one: it decides the strata of t. ``duplicate_share`` is the corpus's, as its manifest
    tells it: above the protocol's limit CLIP leaves equal captions out of each other's negatives. ``group``: the processes that
    share each batch.
    """
    if isinstance(model, Contrastive):
        return ContrastiveObjective(model, duplicate_share > protocol.mask_duplicates_over, precision, group)
    return CaptioningObjective(model, method, protocol, mask_id, batch_size, precision, group)
