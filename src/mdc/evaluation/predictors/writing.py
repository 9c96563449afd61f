"""Captions written by a captioner: by unmasking (paper, section 3.2, equation 6) or by beam search.

N' counts BPE tokens: a masked model starts from SOT, N' masks and a visible EOT, and neither SOT nor EOT is ever written
into the N' places. One that has learnt where captions end (a finetuning with a canvas) starts from SOT and masks alone and
writes EOT itself; what stands behind the first EOT is not of the caption. Images are read once, and an image's caption does
not depend on what is captioned beside it.
"""

from __future__ import annotations

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
class Written:
    """``pieces``: the caption's tokens, without SOT and EOT. ``log_prob``: Σ of ``confidence`` and of that of an EOT that
    the model wrote.

    Of each piece ``step``: when it was written, from 1, or 0 if it was given; ``confidence``: its log probability then.
    ``calls``: how often the decoder was called for it, which one that is written beside it does not change.
    """

    pieces: tuple[int, ...]
    log_prob: float
    step: tuple[int, ...]
    confidence: tuple[float, ...]
    calls: int


class Guiding:
    """A CLIP that has a say in captions of some images. ``read``: captions as token ids → unit embeddings (R, E); ``images``
    (I, E) unit embeddings of the images, in the order of those that the captioner looked at."""

    def __init__(self, read: Callable[[Sequence[Sequence[int]]], Tensor], images: Tensor) -> None:
        self.read, self.images = read, images

    def similarity(self, captions: Sequence[Sequence[int]], images: Sequence[int]) -> Tensor:
        """The cosine of each caption [SOT, pieces…, EOT] and its image, (R,) float32; equal captions are read once."""
        places = {caption: place for place, caption in enumerate(dict.fromkeys(map(tuple, captions)))}
        texts = self.read(list(places))
        which = torch.tensor([places[tuple(caption)] for caption in captions], device=texts.device)
        return (self.images[list(images)] * texts[which]).sum(dim=-1)


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
    ) -> list[Written]:
        """A caption of each image of ``memory``. ``keys``: the images' names, from which what is drawn follows. ``guiding``: for
        a policy with a guide."""
        mask = self.vocabulary.mask_id
        tried = [
            self._completed(memory, [[mask] * length] * len(memory), policy, keys, guiding) for length in policy.lengths
        ]
        found = []
        for of_image in zip(*tried, strict=True):
            scores = [one.log_prob / n**policy.length_penalty for one, n in zip(of_image, policy.lengths, strict=True)]
            best = of_image[scores.index(max(scores))]
            found.append(replace(best, calls=sum(one.calls for one in of_image)))
        return found

    def filled(
        self, memory: Memory, templates: Sequence[Sequence[int]], policy: Unmasking, keys: Sequence[str]
    ) -> list[Written]:
        """The template of each image with its masks filled in: pieces, with ``vocabulary.mask_id`` where one is missing.

        A template says where the caption ends: behind its last place, where EOT is visible, and at none of its gaps, also if
        ``policy.ends``. An EOT in a gap would take the words with it that are given behind it.
        """
        return self._completed(memory, templates, policy.model_copy(update={"ends": False}), keys)

    def _completed(
        self,
        memory: Memory,
        templates: Sequence[Sequence[int]],
        policy: Unmasking,
        keys: Sequence[str],
        guiding: Guiding | None = None,
    ) -> list[Written]:
        found: list[tuple[int, Written]] = []
        for places in by_length([len(one) for one in templates], lambda length: self.batch_tokens // (length + 2)):
            tokens = torch.tensor([list(templates[place]) for place in places], device=self.device)
            if policy.guide is not None:
                assert guiding is not None
                done = self._guided(memory.of(places), tokens, policy.guide, guiding, places)
            else:
                noise = _Noise(policy, [keys[place] for place in places], tokens.shape[1])
                done = self._unmask(memory.of(places), tokens, policy, noise)
            written = map(self._cut, done.tokens.tolist(), done.step.tolist(), done.confidence.tolist())
            found += zip(places, written, strict=True)
        return in_order(found)

    def _cut(self, pieces: list[int], step: list[int], confidence: list[float]) -> Written:
        """A caption up to the EOT that it was given by the model, if there is one."""
        end = pieces.index(self.vocabulary.eot) if self.vocabulary.eot in pieces else len(pieces)
        sure = tuple(confidence[:end])
        return Written(tuple(pieces[:end]), sum(confidence[: end + 1]), tuple(step[:end]), sure, max(step, default=0))

    @torch.no_grad()
    def _guided(
        self, memory: Memory, tokens: Tensor, guide: Guide, guiding: Guiding, images: Sequence[int]
    ) -> Unmasked:
        """tokens (C, N') of pieces and masks; ``images``: the places of ``memory``'s C images in ``guiding``."""
        sot, eot = self.vocabulary.sot, self.vocabulary.eot

        def propose(tokens: Tensor, where: Tensor, rows: Tensor) -> Candidates:
            hidden = self._hidden(memory, tokens, where, rows)
            found = torch.empty(len(hidden), self.model.head.weight.shape[0], device=self.device)
            with autocast(self.device, self.precision):
                for block, logits in logit_blocks(self.model, hidden):
                    logits[:, [sot, eot]] = -torch.inf
                    found[block] = logits.log_softmax(dim=-1)
            return likeliest(found, where, guide.candidates)

        def liken(tokens: Tensor, masked: Tensor, rows: Tensor) -> Tensor:
            # a CLIP has no mask: it reads the pieces that are there, in their order
            captions = [
                [sot, *(piece for piece, hidden in zip(some, gone, strict=True) if not hidden), eot]
                for some, gone in zip(tokens.tolist(), masked.tolist(), strict=True)
            ]
            return guiding.similarity(captions, [images[row] for row in rows.tolist()]).to(self.device)

        return unmask_guided(propose, liken, tokens, tokens == self.vocabulary.mask_id, guide.weight)

    def _hidden(self, memory: Memory, tokens: Tensor, where: Tensor, rows: Tensor, end: bool = True) -> Tensor:
        """Hidden states of the masked places, (M, W), of the captions ``rows`` of ``memory``. ``end``: EOT stands behind them."""
        frame = torch.tensor([self.vocabulary.sot, self.vocabulary.eot], device=self.device).expand(len(rows), 2)
        framed = torch.cat([frame[:, :1], tokens, frame[:, 1 : 1 + end]], dim=1)
        part = memory if len(rows) == len(memory) else memory.of(rows)
        with autocast(self.device, self.precision):
            return hidden_states(self.model, framed[:, None], part)[:, 0, 1 : 1 + tokens.shape[1]][where]

    @torch.no_grad()
    def _unmask(self, memory: Memory, tokens: Tensor, policy: Unmasking, noise: _Noise) -> Unmasked:
        """tokens (C, N') of pieces and masks, for the C images of ``memory``."""
        vocabulary = self.vocabulary
        # a model that ends its caption itself sees no EOT, and may write it anywhere but at once
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
                    likeliest_there = greedy(logits)
                    confidence[block] = likeliest_there[1]
                    proposed[block], log_probs[block] = (
                        likeliest_there
                        if policy.temperature is None
                        else drawn(logits, policy.temperature, uniforms[block])
                    )
            nothing = torch.zeros(tokens.shape, device=self.device)
            return (
                torch.zeros_like(tokens).masked_scatter(where, proposed),
                nothing.masked_scatter(where, log_probs),
                nothing.masked_scatter(where, confidence),
            )

        turns = None if noise.turns is None else noise.turns.to(self.device)
        return unmask(propose, tokens, tokens == self.vocabulary.mask_id, _policy(policy), turns)

    # --- autoregressive models ------------------------------------------------------------------------------------------

    def searched(self, memory: Memory, policy: Beam, reverse: bool = False) -> list[Written]:
        """A caption of each image of ``memory``; ``reverse``: by a model that writes the pieces from the last to the first."""
        size = max(self.batch_tokens // (policy.num_beams * (policy.max_tokens + 2)), 1)
        found = []
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
            for one, count in zip(searched, calls.tolist(), strict=True):
                pieces, confidence = one.tokens[:-1], one.log_probs[:-1]
                step = tuple(range(1, len(pieces) + 1))
                if reverse:
                    pieces, confidence, step = pieces[::-1], confidence[::-1], step[::-1]
                found.append(Written(pieces, one.log_prob, step, confidence, count))
        return found


def _policy(policy: Unmasking) -> Policy:
    if policy.ancestral is not None:
        return all_of_them
    if policy.threshold is not None:
        least = policy.threshold
        return lambda confidence, where: confident_enough(confidence, where, least)
    return lambda confidence, where: most_confident(confidence, where, policy.tokens_per_step)


class _Noise:
    """Uniform numbers of each image, step and place: they depend on the seed, the image's key and the step alone. ``turns``
    (N, L): when each place is shown, if chance says so."""

    def __init__(self, policy: Unmasking, keys: Sequence[str], length: int) -> None:
        self.length = length
        self.generators = self.turns = None
        if policy.temperature is not None:
            self.generators = [
                np.random.default_rng([policy.seed, length, *key.encode("utf-8", "surrogatepass")]) for key in keys
            ]
            # numbers of all steps, so that a row that ends early draws no others
            self.numbers = torch.stack([torch.from_numpy(g.random((length, length))) for g in self.generators])
            if policy.ancestral is not None:
                uniforms = torch.stack([torch.from_numpy(g.random(length)) for g in self.generators])
                self.turns = ancestral_turns(uniforms, policy.ancestral)

    def of(self, rows: Sequence[int], step: int) -> Tensor:
        if self.generators is None:
            return torch.zeros(len(rows), self.length)
        return self.numbers[list(rows), step - 1]
