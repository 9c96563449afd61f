"""What captioning objectives share: from supervised tokens to gradients.

All supervise exactly the same tokens of a caption: its pieces and EOT (L of them); SOT never.
B captions of T tokens (SOT, pieces, EOT, padding), ``lengths`` counting SOT…EOT.
"""

from __future__ import annotations

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

    Of k versions of each caption all are (kB, T), the second version's after the first's. ``told``: what a model's ``forward`` is
    told of each caption besides, by name, (B, …) each.
    """

    inputs: Tensor
    targets: Tensor
    weights: Tensor
    normaliser: Tensor
    told: Mapping[str, Tensor] = {}


#: (batch, samples that its times are spread over) → its supervision; all randomness comes with the batch
Supervise = Callable[[CaptionBatch, int], Supervision]

_CROSS_ENTROPY = {"loss": 1.0}


class Part(NamedTuple):
    """A micro-batch as the model takes it: N real tokens, of which n are supervised.

    images (b, …) as the batch has them; inputs (N,) int64; chosen (n,) int64, which of the inputs; targets (n,) int64; weights
    (n,) float32; ``told`` as :class:`Supervision` has it.
    """

    images: Tensor
    inputs: Tensor
    packing: Packing
    chosen: Tensor
    targets: Tensor
    weights: Tensor
    told: dict[str, Tensor]


class Prepared(NamedTuple):
    """A batch in its parts; ``counts`` (2,): what its loss is divided by, and its tokens that could be supervised."""

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
        seen: Callable[[CaptionBatch], CaptionBatch] | None = None,
        terms: Mapping[str, float] = _CROSS_ENTROPY,
    ) -> None:
        """``seen``: what is made of a batch before anything else, if not the batch itself. ``terms``: what the model gives the
        sums of, each with its weight, the cross-entropy first; the others are learnt beside it, measured on no held-out pair."""
        self.model, self.supervise, self.batch_size = model, supervise, setup.batch_size
        self.precision, self.group = setup.precision, setup.group
        self._seen, self._terms = seen or (lambda batch: batch), terms
        self.passes = Passes(model, self._sums, setup.group)

    def prepare(self, batch: CaptionBatch, micro_batches: int = 1, held_out: bool = False) -> Prepared:
        batch = self._seen(batch)
        # held-out batches may be short: their times are stratified within each
        assert self.supervise is not None
        target = self.supervise(batch, len(batch) if held_out else self.batch_size)
        parts = [_part(batch, target, rows) for rows in slices(len(batch), micro_batches)]
        return Prepared(parts, torch.stack([target.normaliser, (batch.lengths - 1).sum()]))

    def _sums(self, part: Part) -> Tensor:
        """Of each term its sum, weighted."""
        images, *rest, told = part
        with autocast(images.device, self.precision):
            found: Tensor = self.model(self.model.encoder.prepared(images), *rest, **told)
        # a product with 1 is no other number, so that a loss of one term is the model's own
        pairs = zip(found.reshape(-1).unbind(), self._terms.values(), strict=True)
        return torch.stack([one * weight for one, weight in pairs])

    def backward(self, prepared: Prepared) -> dict[str, Tensor]:
        supervised, tokens = self.group.sum(prepared.counts.clone())
        normaliser = supervised.clamp(min=1)
        found = []
        for part in self.passes.each(prepared.parts):
            losses = self.passes(part) / normaliser
            (losses.sum() * self.passes.world).backward()
            found.append(losses.detach())
        total = self.group.sum(torch.stack(found).sum(dim=0))
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
    told = {name: value[rows] for name, value in target.told.items()}
    return Part(
        batch.images[rows], real(target.inputs), where, chosen, real(target.targets)[chosen], weights[chosen], told
    )


def kept_patches(draws: Tensor | None, share: float | None) -> dict[str, Tensor]:
    """What a decoder is told that reads a ``share`` of N patch tokens alone: which ones, ``kept`` (B, k) int64, rising, at least
    one of each image; nothing without a share, or without ``draws`` (B, 1 + N), as held-out batches have none."""
    if draws is None or share is None:
        return {}
    count = max(round(share * (draws.shape[1] - 1)), 1)
    return {"kept": draws[:, 1:].argsort(dim=1)[:, :count].sort(dim=1).values}
