"""The objective ``mask_and_replace``: undo a diffusion that masks and replaces a caption's tokens (MC-Diffusion).

Of a sample at time t, drawn uniformly from 1…T, each of the L places adds

    T · KL(q(x_{t−1} | x_t, x_0) ‖ p(x_{t−1} | x_t))  +  λT(2 − t/T) · (−log p(x_0 | x_t)),

where at t = 1 the first term is −T · log p(x_0 | x_1), 0 at a visible token if none is ever replaced. The mean over t of the
first, summed over places, is the bound on −log p(caption); it alone is measured on held-out pairs. The loss is the mean over all
B·L places: a caption is filled up with EOT to L places, which are learnt like any other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from mdc.data.loader.batch import CaptionBatch
from mdc.extensions.mc_diffusion.mask_and_replace.bound_gradient import BoundOfRows
from mdc.extensions.mc_diffusion.mask_and_replace.diffusion import BoundWeights, bound_weights, corrupt
from mdc.extensions.mc_diffusion.mask_and_replace.method import MaskAndReplace
from mdc.extensions.mc_diffusion.mask_and_replace.model import DiffusionCaptioner
from mdc.extensions.mc_diffusion.words.read import read_words
from mdc.models.logits import sum_over_logits
from mdc.models.precision import autocast
from mdc.plan.jobs.model import PretrainJob
from mdc.training.objectives.micro_batches import slices
from mdc.training.objectives.objective import Needs, Setup
from mdc.training.passes import Passes

if TYPE_CHECKING:
    from mdc.training.corpus import Corpus


build_model = DiffusionCaptioner


def needs(method: MaskAndReplace) -> Needs:
    """See :class:`mdc.training.objectives.objective.ObjectiveModule`."""
    return Needs(filled=True)


class Noised(NamedTuple):
    """Captions x0 (B, L) as classes, x_t (B, L) with [MASK], times t (B,)."""

    x0: Tensor
    x_t: Tensor
    t: Tensor


class Part(NamedTuple):
    """A micro-batch: images as the batch has them; captions; ``lost`` (b, M) bool or None: dropped vectors of the condition;
    and the weights of each of the b·L places in the bound and in the auxiliary term, (b·L,) float32."""

    images: Tensor
    noised: Noised
    lost: Tensor | None
    weights: BoundWeights
    surprise: Tensor


class MaskAndReplaceObjective:
    """See :class:`mdc.training.objectives.objective.Objective`. ``length``: places of a caption."""

    def __init__(self, model: DiffusionCaptioner, setup: Setup, length: int) -> None:
        self.model, self.schedule = model, model.schedule
        self.batch_size, self.precision, self.group = setup.batch_size, setup.precision, setup.group
        self.length, self.auxiliary = length, setup.method.auxiliary
        self.passes = Passes(model, self._sums, setup.group)

    def noised(self, batch: CaptionBatch, global_batch: int) -> Noised:
        """The batch's captions with its noise."""
        assert batch.token_draws is not None
        places = slice(1, 1 + self.length)
        x0 = self.model.class_of(batch.tokens[:, places])
        t = self.schedule.draw_times(batch.jitter, batch.place, global_batch)
        return Noised(x0, corrupt(x0, t, self.schedule, batch.uniforms[:, places], batch.token_draws[:, places]), t)

    def prepare(self, batch: CaptionBatch, micro_batches: int = 1, held_out: bool = False) -> list[Part]:
        noised = self.noised(batch, len(batch) if held_out else self.batch_size)
        guidance = None if held_out else self.model.guidance
        where = None
        if guidance is not None:
            assert batch.image_draws is not None
            where = lost(batch.image_draws, guidance.degraded, guidance.mask_rate)
        return [
            self.part(
                batch.images[rows], Noised(*(value[rows] for value in noised)), None if where is None else where[rows]
            )
            for rows in slices(len(batch), micro_batches)
        ]

    def part(self, images: Tensor, noised: Noised, where: Tensor | None = None) -> Part:
        """A micro-batch of noised captions; ``where``: the dropped vectors of the condition."""
        steps, times = self.schedule.steps, noised.t
        weights = bound_weights(noised.x0, noised.x_t, times - 1, times, self.schedule).flat()
        surprise = (self.auxiliary * steps * (2 - times / steps))[:, None].expand(noised.x0.shape).flatten()
        return Part(images, noised, where, weights, surprise)

    def backward(self, prepared: list[Part]) -> dict[str, Tensor]:
        normaliser = self.batch_size * self.length
        sums = []
        for part in self.passes.each(prepared):
            loss, bound = self.passes(part)
            loss = loss / normaliser
            (loss * self.passes.world).backward()
            sums.append(torch.stack([loss.detach(), bound / normaliser]))
        loss, bound = self.group.sum(torch.stack(sums).sum(dim=0))
        return {"loss": loss, "bound": bound}

    @torch.no_grad()
    def evaluate(self, prepared: list[Part]) -> tuple[Tensor, Tensor]:
        """The bound alone, in nats per place, with the whole condition."""
        (part,) = prepared
        _, bound = self._sums(part)
        return bound, torch.tensor(float(part.noised.x0.numel()))

    def after_step(self) -> None:
        pass

    def _sums(self, part: Part) -> tuple[Tensor, Tensor]:
        """The loss (bound plus auxiliary term) and the bound, each summed over all places, in nats."""
        images, noised = part.images, part.noised
        with autocast(images.device, self.precision):
            condition = self.model.encoder.prepared(images)
            if part.lost is not None:
                condition = self.model.degraded(condition, part.lost)
            hidden = self.model.text(noised.x_t, noised.t, self.model.remember(condition))
            return self.terms(hidden, part)

    def terms(self, hidden: Tensor, part: Part) -> tuple[Tensor, Tensor]:
        """The same from hidden states (b, L, W)."""
        x0, replaces = part.noised.x0.flatten(), self.schedule.replaced > 0
        of_rows = BoundOfRows(x0, part.weights, self.schedule.steps, part.surprise, replaces)
        loss, others = sum_over_logits(hidden.flatten(0, 1), self.model.head.weight, of_rows, values=2)
        return loss, others[0]


def lost(draws: Tensor, degraded: float, mask_rate: float | None) -> Tensor:
    """Which vectors of each sample's condition are dropped, (B, M) bool. ``draws`` (B, 1 + M) in [0, 1): one for the sample,
    one for each vector; without a ``mask_rate`` a degraded sample loses all."""
    chosen = draws[:, :1] < degraded
    each = draws[:, 1:] < mask_rate if mask_rate is not None else torch.ones_like(draws[:, 1:], dtype=torch.bool)
    return chosen & each


def of_run(job: PretrainJob, corpus: Corpus) -> dict[str, Any]:
    imported = corpus.input_below("words")
    method: Any = job.method
    words = imported and read_words(imported, method.words_sha256, job.job, corpus.vocabulary)
    return {"length": corpus.length, "words": words}


def build_objective(
    model: DiffusionCaptioner, setup: Setup, length: int | None = None, words: Tensor | None = None
) -> MaskAndReplaceObjective:
    """See :class:`mdc.training.objectives.objective.ObjectiveModule`.

    ``length``: places of a caption, stored in the model; None: as stored. ``words``: embeddings (K, W) of others for its classes.
    """
    if words is not None:
        model.text.take_embeddings(words)
    if length is not None:
        model.length.fill_(length)
    return MaskAndReplaceObjective(model, setup, int(model.length) if length is None else length)
