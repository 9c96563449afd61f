"""The objective ``contrastive``: softmax over the batch, image to caption and caption to image (CLIP, OpenCLIP)."""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from mdc.data.loader.batch import CaptionBatch
from mdc.methods.contrastive.model import Contrastive
from mdc.models.packing import Packing, packing
from mdc.models.precision import autocast
from mdc.training.objectives.micro_batches import slices, trimmed
from mdc.training.objectives.objective import Setup
from mdc.training.passes import Passes


def contrastive_loss(
    image: Tensor, text: Tensor, scale: Tensor, captions: Tensor | None = None, rows: range | None = None
) -> Tensor:
    """Mean of the two cross-entropies over a batch, a scalar in nats; with ``rows``, the contribution of these rows' images and
    captions: the parts of a batch sum to its loss.

    image, text (B, E) unit rows; scale a scalar factor; captions (B,) int64, equal numbers for equal captions: such pairs are no
    negatives of each other. None masks nothing.
    """
    if rows is None or len(rows) == len(image):
        logits = _masked(scale * image @ text.t(), captions, slice(None))
        labels = torch.arange(len(image), device=image.device)
        return (F.cross_entropy(logits, labels) + F.cross_entropy(logits.t(), labels)) / 2
    own = slice(rows.start, rows.stop)
    labels = torch.arange(rows.start, rows.stop, device=image.device)
    total = torch.zeros((), device=image.device)
    for queries, keys in ((image[own], text), (text[own], image)):
        logits = _masked(scale * queries @ keys.t(), captions, own)
        total = total + F.cross_entropy(logits, labels, reduction="sum")
    return total / (2 * len(image))


def _masked(logits: Tensor, captions: Tensor | None, rows: slice) -> Tensor:
    """``logits`` (b, B) of the batch's ``rows``, −∞ where another sample has the same caption."""
    if captions is None:
        return logits
    same = captions[rows, None] == captions[None, :]
    same.diagonal(rows.start or 0).fill_(False)
    return logits.masked_fill(same, float("-inf"))


def duplicate_share(captions: Tensor) -> Tensor:
    """Share of a batch's samples (B,) whose caption occurs more than once in it, a scalar."""
    return ((captions[:, None] == captions[None, :]).sum(dim=1) > 1).to(torch.float32).mean()


class Part(NamedTuple):
    """A micro-batch as the model takes it: images (b, 3, S, S) uint8; tokens (N,) int64, the real ones; ``ends`` (b,) int64,
    which of them are EOT."""

    images: Tensor
    tokens: Tensor
    packing: Packing
    ends: Tensor


class Prepared(NamedTuple):
    """A batch in its parts, and numbers (b,) int64 that are equal for equal captions."""

    parts: list[Part]
    captions: Tensor


class ContrastiveObjective:
    """CLIP and CLIP-LB: the loss of the whole global batch, whatever the number of parts (as GradCache).

    All micro-batches are embedded without a graph, then processes exchange embeddings. Each computes the loss of its own images
    and captions against everyone's; an embedding's gradient is the sum over processes. Then each micro-batch is embedded again
    with a graph, and its part of the gradient is backpropagated. Exact, since nothing is random. A single micro-batch is
    embedded once.

    Where ``duplicate_share`` is above the protocol's limit, equal captions are no negatives of each other.
    """

    def __init__(self, model: Contrastive, setup: Setup) -> None:
        self.model, self.precision, self.group = model, setup.precision, setup.group
        self.mask_duplicates = setup.duplicate_share > setup.protocol.mask_duplicates_over
        self.passes = Passes(model, self._embed, setup.group)

    def prepare(self, batch: CaptionBatch, micro_batches: int = 1, held_out: bool = False) -> Prepared:
        return Prepared([_part(batch, rows) for rows in slices(len(batch), micro_batches)], batch.caption_hash)

    def _embed(self, part: Part) -> tuple[Tensor, Tensor, Tensor]:
        """Embeddings (b, E) of images and captions, and the logit scale."""
        with autocast(part.images.device, self.precision):
            images = self.model.encoder.prepared(part.images)
            image, text = self.model(images, part.tokens, part.packing, part.ends)
        return image, text, self.model.scale()

    def backward(self, prepared: Prepared) -> dict[str, Tensor]:
        captions = self.group.gather(prepared.captions)
        parts = prepared.parts
        once = self.passes(*parts) if len(parts) == 1 else None
        with torch.no_grad():
            embedded = [once or self._embed(part) for part in parts]
        image, text, (scale, *_) = zip(*embedded, strict=True)
        loss, *gradients = self._gradients(
            torch.cat(image).detach(), torch.cat(text).detach(), scale.detach(), captions
        )
        sizes = [len(part.images) for part in parts]
        pieces = zip(parts, *(gradient.split(sizes) for gradient in gradients[:2]), strict=True)
        for part, of_image, of_text in self.passes.each(list(pieces)):
            of_scale = gradients[2] / len(parts)
            torch.autograd.backward(once or self.passes(part), (of_image, of_text, of_scale))
        return {"loss": loss, "logit_scale": scale.detach(), "duplicate_share": duplicate_share(captions)}

    def _gradients(
        self, image: Tensor, text: Tensor, scale: Tensor, captions: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """The global batch's loss, its gradients for this process's embeddings image and text (b, E), and the own part's
        gradient for the scale; gradients times the number of processes, as ``passes`` needs them."""
        image, text = (self.group.gather(side).requires_grad_() for side in (image, text))
        own = self.group.own_rows(len(image))
        loss = contrastive_loss(image, text, scale.requires_grad_(), captions if self.mask_duplicates else None, own)
        of_image, of_text, of_scale = torch.autograd.grad(loss * self.passes.world, (image, text, scale))
        both = self.group.sum(torch.stack([of_image, of_text]))[:, own.start : own.stop]
        return self.group.sum(loss.detach()), both[0], both[1], of_scale

    @torch.no_grad()
    def evaluate(self, prepared: Prepared) -> tuple[Tensor, Tensor]:
        (part,) = prepared.parts
        image, text, scale = self._embed(part)
        captions = prepared.captions if self.mask_duplicates else None
        return contrastive_loss(image, text, scale, captions) * len(image), torch.tensor(len(image))

    def after_step(self) -> None:
        self.model.clamp_scale()


def _part(batch: CaptionBatch, rows: slice) -> Part:
    lengths = batch.lengths[rows]
    length = trimmed(int(lengths.max()), batch.tokens.shape[1])
    where = packing(lengths, length)
    tokens = batch.tokens[rows, :length].reshape(-1)[where.places]
    return Part(batch.images[rows], tokens, where, lengths.cumsum(0) - 1)


build_model, build_objective = Contrastive, ContrastiveObjective
