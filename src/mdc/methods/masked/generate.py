"""Decoding of masked models by unmasking (paper, section 3.2, equation 6).

N' counts BPE tokens: a caption starts from SOT, N' masks and a visible EOT, and SOT and EOT are never predicted at the N' places.
A model that has learnt where captions end (finetuned with a canvas) starts from SOT and masks alone and predicts EOT; the caption
ends at the first.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from mdc.diffusion.guided import Candidates, likeliest, unmask_guided
from mdc.diffusion.sampling import (
    Policy,
    Unmasked,
    all_of_them,
    ancestral_turns,
    confident_enough,
    drawn,
    greedy,
    most_confident,
    unmask,
)
from mdc.evaluation.predictors import writing
from mdc.evaluation.predictors.folded import by_length, in_order, logit_blocks
from mdc.evaluation.predictors.writing import DecodedCaption, Guiding
from mdc.models.memory import Memory
from mdc.models.precision import autocast
from mdc.plan.config.decoding import Guide, Unmasking
from mdc.plan.config.method import Method


class Writer(writing.Writer):
    def unmasked(
        self, memory: Memory, policy: Unmasking, keys: Sequence[str], guiding: Guiding | None = None
    ) -> list[DecodedCaption]:
        """A caption of each image of ``memory``. ``keys``: the images' names, which seed the sampling. ``guiding``: for a policy
        with a guide."""
        mask = self.vocabulary.mask_id
        by_length = [
            self._completed(memory, [[mask] * length] * len(memory), policy, keys, guiding) for length in policy.lengths
        ]
        captions = []
        for candidates in zip(*by_length, strict=True):
            scores = [
                candidate.log_prob / n**policy.length_penalty
                for candidate, n in zip(candidates, policy.lengths, strict=True)
            ]
            best = candidates[scores.index(max(scores))]
            captions.append(replace(best, calls=sum(candidate.calls for candidate in candidates)))
        return captions

    def filled(
        self, memory: Memory, templates: Sequence[Sequence[int]], policy: Unmasking, keys: Sequence[str]
    ) -> list[DecodedCaption]:
        """The template of each image with its masks filled in: pieces, with ``vocabulary.mask_id`` where one is missing.

        The caption ends with the template, where EOT is visible; no gap can become EOT, also if ``policy.ends``.
        """
        return self._completed(memory, templates, policy.model_copy(update={"ends": False}), keys)

    def _completed(
        self,
        memory: Memory,
        templates: Sequence[Sequence[int]],
        policy: Unmasking,
        keys: Sequence[str],
        guiding: Guiding | None = None,
    ) -> list[DecodedCaption]:
        captions: list[tuple[int, DecodedCaption]] = []
        for places in by_length(
            [len(template) for template in templates], lambda length: self.batch_tokens // (length + 2)
        ):
            tokens = torch.tensor([list(templates[place]) for place in places], device=self.device)
            if policy.guide is not None:
                assert guiding is not None
                done = self._guided(memory.of(places), tokens, policy.guide, guiding, places)
            else:
                noise = _Noise(policy, [keys[place] for place in places], tokens.shape[1])
                done = self._unmask(memory.of(places), tokens, policy, noise)
            decoded = map(self._cut, done.tokens.tolist(), done.step.tolist(), done.confidence.tolist())
            captions += zip(places, decoded, strict=True)
        return in_order(captions)

    def _cut(self, pieces: list[int], step: list[int], confidence: list[float]) -> DecodedCaption:
        """A caption up to the EOT that the model predicted, if any."""
        end = pieces.index(self.vocabulary.eot) if self.vocabulary.eot in pieces else len(pieces)
        sure = tuple(confidence[:end])
        return DecodedCaption(
            tuple(pieces[:end]), sum(confidence[: end + 1]), tuple(step[:end]), sure, max(step, default=0)
        )

    @torch.no_grad()
    def _guided(
        self, memory: Memory, tokens: Tensor, guide: Guide, guiding: Guiding, images: Sequence[int]
    ) -> Unmasked:
        """tokens (C, N') of pieces and masks; ``images``: the places of ``memory``'s C images in ``guiding``."""
        sot, eot = self.vocabulary.sot, self.vocabulary.eot

        def propose(tokens: Tensor, where: Tensor, rows: Tensor) -> Candidates:
            hidden = self._hidden(memory, tokens, where, rows)
            log_probs = torch.empty(len(hidden), self.model.head.weight.shape[0], device=self.device)
            with autocast(self.device, self.precision):
                for block, logits in logit_blocks(self.model, hidden):
                    logits[:, [sot, eot]] = -torch.inf
                    log_probs[block] = logits.log_softmax(dim=-1)
            return likeliest(log_probs, where, guide.candidates)

        def liken(tokens: Tensor, masked: Tensor, rows: Tensor) -> Tensor:
            # CLIP has no [MASK]: it reads the visible tokens in order
            captions = [
                [sot, *(piece for piece, hidden in zip(pieces, hidden_places, strict=True) if not hidden), eot]
                for pieces, hidden_places in zip(tokens.tolist(), masked.tolist(), strict=True)
            ]
            return guiding.similarity(captions, [images[row] for row in rows.tolist()]).to(self.device)

        return unmask_guided(propose, liken, tokens, tokens == self.vocabulary.mask_id, guide.weight)

    def _hidden(self, memory: Memory, tokens: Tensor, where: Tensor, rows: Tensor, end: bool = True) -> Tensor:
        """Hidden states of the masked places, (M, W), of the captions ``rows`` of ``memory``. ``end``: with a visible EOT."""
        frame = torch.tensor([self.vocabulary.sot, self.vocabulary.eot], device=self.device).expand(len(rows), 2)
        framed = torch.cat([frame[:, :1], tokens, frame[:, 1 : 1 + end]], dim=1)
        part = memory if len(rows) == len(memory) else memory.of(rows)
        with autocast(self.device, self.precision):
            return self.model.hidden_states(framed[:, None], part)[:, 0, 1 : 1 + tokens.shape[1]][where]

    @torch.no_grad()
    def _unmask(self, memory: Memory, tokens: Tensor, policy: Unmasking, noise: "_Noise") -> Unmasked:
        """tokens (C, N') of pieces and masks, for the C images of ``memory``."""
        vocabulary = self.vocabulary
        # a model that predicts EOT may do so anywhere but at the first place
        barred = [vocabulary.sot] if policy.ends else [vocabulary.sot, vocabulary.eot]

        def propose(tokens: Tensor, where: Tensor, rows: Tensor, step: int) -> tuple[Tensor, Tensor, Tensor]:
            first = (torch.arange(tokens.shape[1], device=self.device) == 0).expand(tokens.shape)[where]
            hidden = self._hidden(memory, tokens, where, rows, end=not policy.ends)
            with autocast(self.device, self.precision):
                uniforms = noise.of(rows.tolist(), step)[where.cpu()].to(self.device)
                proposed = torch.empty(len(hidden), dtype=torch.int64, device=self.device)
                log_probs, confidence = torch.empty(2, len(hidden), device=self.device)
                for block, logits in logit_blocks(self.model, hidden):
                    logits[:, barred] = -torch.inf
                    logits[:, vocabulary.eot].masked_fill_(first[block], -torch.inf)
                    best = greedy(logits)
                    confidence[block] = best[1]
                    proposed[block], log_probs[block] = (
                        best if policy.temperature is None else drawn(logits, policy.temperature, uniforms[block])
                    )
            zeros = torch.zeros(tokens.shape, device=self.device)
            return (
                torch.zeros_like(tokens).masked_scatter(where, proposed),
                zeros.masked_scatter(where, log_probs),
                zeros.masked_scatter(where, confidence),
            )

        turns = None if noise.turns is None else noise.turns.to(self.device)
        return unmask(propose, tokens, tokens == self.vocabulary.mask_id, _policy(policy), turns)


def _policy(policy: Unmasking) -> Policy:
    if (order := policy.order) is not None:
        choose = order.load().choose
        return lambda confidence, where: choose(order, confidence, where)
    if policy.ancestral is not None:
        return all_of_them
    if policy.threshold is not None:
        threshold = policy.threshold
        return lambda confidence, where: confident_enough(confidence, where, threshold)
    return lambda confidence, where: most_confident(confidence, where, policy.tokens_per_step)


class _Noise:
    """Uniform numbers of each image, step and place: they depend only on the seed, the image's key and the step. ``turns``
    (N, L): when each place is unmasked, for ancestral sampling."""

    def __init__(self, policy: Unmasking, keys: Sequence[str], length: int) -> None:
        self.length = length
        self.generators = self.turns = None
        if policy.temperature is not None:
            self.generators = [
                np.random.default_rng([policy.seed, length, *key.encode("utf-8", "surrogatepass")]) for key in keys
            ]
            # drawn for all steps, so that a row that ends early does not shift others
            self.numbers = torch.stack([torch.from_numpy(g.random((length, length))) for g in self.generators])
            if policy.ancestral is not None:
                uniforms = torch.stack([torch.from_numpy(g.random(length)) for g in self.generators])
                self.turns = ancestral_turns(uniforms, policy.ancestral)

    def of(self, rows: Sequence[int], step: int) -> Tensor:
        if self.generators is None:
            return torch.zeros(len(rows), self.length)
        return self.numbers[list(rows), step - 1]


def generate(
    writer: Writer,
    method: Method,
    visual: Memory,
    policy: Unmasking,
    keys: Sequence[str],
    guiding: Guiding | None,
) -> list[DecodedCaption]:
    """See :class:`mdc.evaluation.predictors.generate.GenerateModule`."""
    return writer.unmasked(visual, policy, keys, guiding)
