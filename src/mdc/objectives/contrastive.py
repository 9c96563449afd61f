"""The objective ``contrastive``: each image must pick its caption from the batch, each caption its image (CLIP, OpenCLIP)."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from mdc.config import Backbone, Method, OnTokens, ProtocolPretrain
from mdc.formats.images import normalise
from mdc.loader.batch import CaptionBatch
from mdc.models.contrastive import Contrastive
from mdc.models.initial import seeded
from mdc.models.precision import autocast
from mdc.objectives.micro_batches import slices, trimmed
from mdc.processes.group import ALONE, Group
from mdc.records import UserError


def contrastive_loss(
    image: Tensor, text: Tensor, scale: Tensor, captions: Tensor | None = None, rows: range | None = None
) -> Tensor:
    """Mean of the two cross-entropies over a batch, a scalar in nats; with ``rows``, what these rows' images and
    captions add to it: the parts of a batch sum to its loss.

    image, text (B, E) unit rows; scale a scalar factor; captions (B,) int64, equal numbers for equal captions: such
    pairs are no negatives of each other and leave each other's softmax. None masks nothing.
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


def duplicate_share(captions: Tensor) -> float:
    """Share of a batch's samples whose caption stands more than once in it."""
    _, inverse, counts = captions.unique(return_inverse=True, return_counts=True)
    return float((counts[inverse] > 1).float().mean())


class ContrastiveObjective:
    """CLIP and CLIP-LB: the loss of the whole global batch, in however many parts it is computed (as GradCache does it).

    All micro-batches are embedded without a graph, then the processes hand each other their embeddings. Each takes the
    part of the loss that belongs to its own images and captions, against everyone's; the gradient of an embedding is
    the sum of what all parts say about it. Then each micro-batch is embedded again with a graph, through which its part of that
    gradient is pushed. Exact, since nothing is random. A single micro-batch keeps its graph from the first time.
    """

    def __init__(self, model: Contrastive, mask_duplicates: bool, precision: str, group: Group = ALONE) -> None:
        self.model, self.mask_duplicates, self.precision, self.group = model, mask_duplicates, precision, group

    def _embed(self, batch: CaptionBatch, rows: slice) -> tuple[Tensor, Tensor]:
        images = batch.images[rows]
        lengths = batch.lengths[rows]
        length = trimmed(int(lengths.max()), batch.tokens.shape[1])
        with autocast(images.device, self.precision):
            return self.model(normalise(images), batch.tokens[rows, :length], lengths)

    def backward(self, batch: CaptionBatch, micro_batches: int) -> dict[str, Tensor | float]:
        captions = self.group.gather(batch.caption_hash)
        parts = list(slices(len(batch), micro_batches))
        with torch.set_grad_enabled(len(parts) == 1):
            embedded = [self._embed(batch, rows) for rows in parts]
        image, text = (torch.cat([piece.detach() for piece in side]) for side in zip(*embedded, strict=True))
        loss, of_image, of_text = self._embedding_gradients(image, text, captions)
        for rows in parts:
            again = embedded[0] if len(parts) == 1 else self._embed(batch, rows)
            torch.autograd.backward(again, (of_image[rows], of_text[rows]))
        return {
            "loss": loss,
            "logit_scale": self.model.scale().detach(),
            "duplicate_share": duplicate_share(captions),
        }

    def _embedding_gradients(self, image: Tensor, text: Tensor, captions: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The global batch's loss, and its gradient in this process's embeddings image and text (b, E) each.

        What the own part of the loss says about the logit scale is added to that parameter's gradient.
        """
        image = self.group.gather(image).requires_grad_()
        text = self.group.gather(text).requires_grad_()
        own = self.group.own_rows(len(image))
        loss = contrastive_loss(image, text, self.model.scale(), captions if self.mask_duplicates else None, own)
        loss.backward()
        assert image.grad is not None and text.grad is not None
        both = self.group.sum(torch.stack([image.grad, text.grad]))[:, own.start : own.stop]
        return self.group.sum(loss.detach()), both[0], both[1]

    @torch.no_grad()
    def evaluate(self, batch: CaptionBatch) -> tuple[Tensor, Tensor]:
        image, text = self._embed(batch, slice(None))
        captions = batch.caption_hash if self.mask_duplicates else None
        count = torch.tensor(len(batch))
        return contrastive_loss(image, text, self.model.scale(), captions) * count, count

    def after_step(self) -> None:
        self.model.clamp_scale()


def build_model(
    method: Method,
    backbone: Backbone | OnTokens,
    protocol: ProtocolPretrain,
    vocabulary_size: int,
    context_length: int,
    seed: int,
) -> Contrastive:
    """See :class:`mdc.objectives.objective.ObjectiveModule`."""
    if not isinstance(backbone, Backbone):
        raise UserError(
            f"{method.label}: a contrastive method trains its encoder and cannot stand on {backbone.frozen.job}"
        )
    # PyTorch's layers draw weights of their own, which ours then replace
    with seeded(seed, "replaced"):
        return Contrastive(
            backbone,
            vocabulary_size,
            context_length,
            causal=protocol.clip_text_attention == "causal",
            temperature=protocol.temperature,
            max_logit_scale=protocol.max_logit_scale,
            seed=seed,
        )


def build_objective(
    model: Contrastive,
    method: Method,
    protocol: ProtocolPretrain,
    mask_id: int,
    batch_size: int,
    precision: str,
    duplicate_share: float = 0.0,
    group: Group = ALONE,
) -> ContrastiveObjective:
    """See :class:`mdc.objectives.objective.ObjectiveModule`.

    Where ``duplicate_share`` is above the protocol's limit, equal captions leave each other's negatives.
    """
    return ContrastiveObjective(model, duplicate_share > protocol.mask_duplicates_over, precision, group)
