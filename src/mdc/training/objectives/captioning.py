"""What captioning objectives share: from supervised tokens to gradients.

All supervise exactly the same L tokens of a caption: its BPE tokens and EOT; SOT never.
B captions of T tokens (SOT, BPE tokens, EOT, padding); ``lengths`` count SOT…EOT.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor

from mdc.data.loader.batch import CaptionBatch
from mdc.models.image_text import ImageText
from mdc.models.packing import Packing, packing
from mdc.models.precision import autocast
from mdc.training.objectives.micro_batches import slices, trimmed
from mdc.training.objectives.objective import Setup
from mdc.training.passes import Passes


class Supervision(NamedTuple):
    """inputs, targets (B, T) int64; weights (B, T) float32, zero where nothing is supervised; normaliser: a scalar.

    With k versions of each caption all are (kB, T), the second versions after the first. ``extra_inputs``: further keyword
    arguments of the model's ``forward``, (B, …) each.
    """

    inputs: Tensor
    targets: Tensor
    weights: Tensor
    normaliser: Tensor
    extra_inputs: Mapping[str, Tensor] = {}


#: (batch, samples that its times are spread over) → its supervision; all randomness comes with the batch
Supervise = Callable[[CaptionBatch, int], Supervision]

_CROSS_ENTROPY = {"loss": 1.0}


class Part(NamedTuple):
    """A micro-batch as the model takes it: N real tokens, of which n are supervised.

    images (b, …) as the batch has them; inputs (N,) int64; chosen (n,) int64, which of the inputs; targets (n,) int64; weights
    (n,) float32; ``extra_inputs`` as :class:`Supervision` has it.
    """

    images: Tensor
    inputs: Tensor
    packing: Packing
    chosen: Tensor
    targets: Tensor
    weights: Tensor
    extra_inputs: dict[str, Tensor]


class Prepared(NamedTuple):
    """A batch in its parts; ``counts`` (2,): its loss's normaliser, and the tokens that could be supervised."""

    parts: list[Any]
    counts: Tensor


class CaptioningObjective:
    """Cross-entropy of the supervised tokens, weighted, over the normaliser.

    The normaliser is the global batch's, so neither accumulation nor the number of processes changes a loss.
    """

    def __init__(
        self,
        model: ImageText,
        supervise: Supervise | None,
        setup: Setup,
        transform: Callable[[CaptionBatch], CaptionBatch] | None = None,
        terms: Mapping[str, float] = _CROSS_ENTROPY,
    ) -> None:
        """``transform``: applied to each batch first. ``terms``: name → weight of each sum that the model returns, the
        cross-entropy first; the others are not part of the held-out loss."""
        self.model, self.supervise, self.batch_size = model, supervise, setup.batch_size
        self.precision, self.group = setup.precision, setup.group
        self._transform, self._terms = transform or (lambda batch: batch), terms
        self.passes = Passes(model, self._sums, setup.group)

    def prepare(self, batch: CaptionBatch, micro_batches: int = 1, held_out: bool = False) -> Prepared:
        batch = self._transform(batch)
        # held-out batches may be short: times are stratified within each
        assert self.supervise is not None
        target = self.supervise(batch, len(batch) if held_out else self.batch_size)
        parts = [_part(batch, target, rows) for rows in slices(len(batch), micro_batches)]
        return Prepared(parts, torch.stack([target.normaliser, (batch.lengths - 1).sum()]))

    def _sums(self, part: Part) -> Tensor:
        """The weighted sum of each term."""
        images, *rest, extra_inputs = part
        with autocast(images.device, self.precision):
            losses: Tensor = self.model(self.model.encoder.prepared(images), *rest, **extra_inputs)
        # a weight of 1 changes no bit
        pairs = zip(losses.reshape(-1).unbind(), self._terms.values(), strict=True)
        return torch.stack([loss * weight for loss, weight in pairs])

    def backward(self, prepared: Prepared) -> dict[str, Tensor]:
        supervised, tokens = self.group.sum(prepared.counts.clone())
        normaliser = supervised.clamp(min=1)
        losses_of_parts = []
        for part in self.passes.each(prepared.parts):
            losses = self.passes(part) / normaliser
            (losses.sum() * self.passes.world).backward()
            losses_of_parts.append(losses.detach())
        total = self.group.sum(torch.stack(losses_of_parts).sum(dim=0))
        return {**dict(zip(self._terms, total.unbind(), strict=True)), "tokens": tokens}

    @torch.no_grad()
    def evaluate(self, prepared: Prepared) -> tuple[Tensor, Tensor]:
        return torch.stack([self._sums(part)[0] for part in prepared.parts]).sum(), prepared.counts[0]

    def after_step(self) -> None:
        pass


def _part(batch: CaptionBatch, target: Supervision, rows: slice) -> Part:
    versions = len(target.inputs) // len(batch)
    lengths = batch.lengths[rows].repeat(versions)
    columns = slice(0, trimmed(int(lengths.max()), target.inputs.shape[1]))
    where = packing(lengths, columns.stop)

    def real(values: Tensor) -> Tensor:
        return values.unflatten(0, (versions, -1))[:, rows, columns].reshape(-1)[where.places]

    weights = real(target.weights)
    chosen = weights.nonzero().squeeze(1)
    targets, extra = real(target.targets)[chosen], {name: value[rows] for name, value in target.extra_inputs.items()}
    return Part(batch.images[rows], real(target.inputs), where, chosen, targets, weights[chosen], extra)
