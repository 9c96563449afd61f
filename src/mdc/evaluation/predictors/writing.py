"""Decoding of captioners: by unmasking (paper, section 3.2, equation 6) or by beam search.

N' counts BPE tokens: a masked model starts from SOT, N' masks and a visible EOT, and never predicts SOT or EOT at the N' places.
A model that has learnt where captions end (finetuned with a canvas) starts from SOT and masks alone and predicts EOT; the caption
ends at the first. Images are encoded once, and an image's caption does not depend on its batch.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from mdc.diffusion.beam import Next, beam_search
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
from mdc.evaluation.predictors.folded import AnyCaptioner, by_length, hidden_states, in_order, logit_blocks, read_images
from mdc.evaluation.predictors.stepwise import stepwise
from mdc.models.memory import Memory
from mdc.models.precision import autocast
from mdc.models.text import Vocabulary
from mdc.plan.config.caption import Beam, Guide, Unmasking


@dataclass(frozen=True)
class DecodedCaption:
    """``pieces``: the caption's tokens, without SOT and EOT. ``log_prob``: Σ of ``confidence``, and of a predicted EOT's.

    Per token ``step``: when it was decoded, from 1, or 0 if it was given; ``confidence``: its log probability then.
    ``calls``: decoder calls for this caption, independent of its batch.
    """

    pieces: tuple[int, ...]
    log_prob: float
    step: tuple[int, ...]
    confidence: tuple[float, ...]
    calls: int


class Guiding:
    """A CLIP that guides captions of some images. ``read``: captions as token ids → unit embeddings (R, E); ``images``
    (I, E) unit embeddings of the images, in the order of those that the captioner looked at."""

    def __init__(self, read: Callable[[Sequence[Sequence[int]]], Tensor], images: Tensor) -> None:
        self.read, self.images = read, images

    def similarity(self, captions: Sequence[Sequence[int]], images: Sequence[int]) -> Tensor:
        """The cosine of each caption [SOT, pieces…, EOT] and its image, (R,) float32; equal captions are read once."""
        places = {caption: place for place, caption in enumerate(dict.fromkeys(map(tuple, captions)))}
        texts = self.read(list(places))
        places_of = torch.tensor([places[tuple(caption)] for caption in captions], device=texts.device)
        return (self.images[list(images)] * texts[places_of]).sum(dim=-1)


class Writer:
    """``batch_tokens``: tokens that are computed at a time, a matter of memory alone."""

    def __init__(
        self,
        model: AnyCaptioner,
        vocabulary: Vocabulary,
        precision: str,
        device: torch.device,
        batch_tokens: int = 8192,
    ) -> None:
        self.model = model.to(device).eval()
        self.vocabulary, self.precision, self.device, self.batch_tokens = vocabulary, precision, device, batch_tokens

    def look(self, images: Tensor) -> Memory:
        """images (I, 3, S, S) uint8 → what the decoder reads of them, computed once."""
        return read_images(self.model, images.to(self.device), self.precision)

    # --- masked models --------------------------------------------------------------------------------------------------

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
            return hidden_states(self.model, framed[:, None], part)[:, 0, 1 : 1 + tokens.shape[1]][where]

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

    # --- autoregressive models ------------------------------------------------------------------------------------------

    def searched(self, memory: Memory, policy: Beam, reverse: bool = False) -> list[DecodedCaption]:
        """A caption of each image of ``memory``; ``reverse``: by a right-to-left model."""
        size = max(self.batch_tokens // (policy.num_beams * (policy.max_tokens + 2)), 1)
        captions = []
        for start in range(0, len(memory), size):
            part = memory.of(range(start, min(start + size, len(memory))))
            following = stepwise(self.model, part, policy.max_tokens + 1, self.precision)
            calls = torch.zeros(len(part), dtype=torch.int64, device=self.device)

            def counted(
                images: Tensor, parents: Tensor, tokens: Tensor, following: Next = following, calls: Tensor = calls
            ) -> Tensor:
                calls[images] += 1
                return following(images, parents, tokens)

            searched = beam_search(
                counted,
                len(part),
                num_beams=policy.num_beams,
                start=self.vocabulary.sot,
                end=self.vocabulary.eot,
                min_tokens=policy.min_tokens,
                max_tokens=policy.max_tokens,
                length_penalty=policy.length_penalty,
                device=self.device,
            )
            for hypothesis, count in zip(searched, calls.tolist(), strict=True):
                pieces, confidence = hypothesis.tokens[:-1], hypothesis.log_probs[:-1]
                step = tuple(range(1, len(pieces) + 1))
                if reverse:
                    pieces, confidence, step = pieces[::-1], confidence[::-1], step[::-1]
                captions.append(DecodedCaption(pieces, hypothesis.log_prob, step, confidence, count))
        return captions


def _policy(policy: Unmasking) -> Policy:
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
