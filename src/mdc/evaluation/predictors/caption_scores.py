"""Scores of captions by a captioner's likelihood or its substitutes (paper, section 4.2, equations 7 and 8).

All scores are in nats, over every token that training supervises: L tokens, the BPE tokens and EOT. Estimators without
sampling have no standard error. Pairs of an image and a caption are scored in batches of captions of equal length, whatever their
images.

Captions of equal length get the same masks, so that their scores do not differ by the masks. Captions of other lengths share
the share l/L of masked tokens and the order of the places, in which EOT has a key of its own. A draw depends on the item
alone.
"""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from mdc.diffusion.direction import right_to_left
from mdc.diffusion.likelihood import (
    controlled_terms,
    mask_counts,
    masked_places,
    mean_of_groups,
    next_revealed,
    range_counts,
    shifted,
    single_masks,
)
from mdc.evaluation.predictors.folded import (
    AnyCaptioner,
    by_length,
    confidences,
    hidden_states,
    in_order,
    log_probabilities,
    read_images,
)
from mdc.models.memory import Memory
from mdc.models.precision import autocast

#: independently shifted groups of samples; their spread is the standard error (docs/scoring.md)
GROUPS = 16


@dataclass(frozen=True)
class Draws:
    """The draws of the item of this name for up to ``samples`` samples, a multiple of 16, of captions of up to ``places`` tokens
    (the context length). Fewer samples are a prefix of the same draws; another ``places`` gives other draws. Drawn on first
    use."""

    item: str
    seed: int
    samples: int
    places: int

    def __post_init__(self) -> None:
        if self.samples < GROUPS or self.samples % GROUPS:
            raise ValueError(f"{self.samples} samples: must be a multiple of {GROUPS}")

    @cached_property
    def _drawn(self) -> tuple[Tensor, Tensor]:
        """Offsets (G,) of the shares of masked tokens, keys (m, G, places) of places; in [0, 1)."""
        digest = hashlib.blake2b(f"{self.seed} {self.item}".encode("utf-8", "replace"), digest_size=16).digest()
        rng = np.random.Generator(np.random.Philox(key=int.from_bytes(digest)))
        offsets, keys = rng.random(GROUPS), rng.random((self.samples // GROUPS, GROUPS, self.places))
        return torch.from_numpy(offsets), torch.from_numpy(keys)

    def masks(self, length: int, counts_of: Callable[[Tensor], Tensor], count: int) -> Tensor:
        """The first ``count`` samples of each group, (G, count, L) bool for a caption of L = ``length`` tokens.

        ``counts_of``: points in [0, 1) → numbers of masked tokens. A sample does not depend on ``count``.
        """
        offsets, keys = self._drawn
        keys = keys[:count].transpose(0, 1)
        counts = counts_of(shifted(offsets, count, base=2))
        return masked_places(counts, torch.cat([keys[..., 1:length], keys[..., :1]], dim=-1))


@dataclass(frozen=True)
class Pair:
    """``image``: its number in a memory. ``tokens``: [SOT, pieces…, EOT]. ``item``: the number of its draws."""

    image: int
    tokens: Sequence[int]
    item: int = 0


@dataclass(frozen=True)
class Scored:
    """``value`` in nats, its standard ``error`` (0 without sampling), and the contribution of each of the L ``tokens``.

    ``groups`` (G,) float64: the value by each of the 16 groups of draws alone, None without sampling.
    """

    value: float
    error: float
    tokens: Tensor
    groups: Tensor | None = None


class CaptionScorer:
    """``mask_id``: the input id of [MASK]. ``batch_tokens``: tokens that are computed at a time, a matter of memory alone."""

    def __init__(
        self, model: AnyCaptioner, mask_id: int, precision: str, device: torch.device, batch_tokens: int = 8192
    ) -> None:
        self.model = model.to(device).eval()
        self.mask_id, self.precision, self.device, self.batch_tokens = mask_id, precision, device, batch_tokens

    def look(self, images: Tensor) -> Memory:
        """images (I, 3, S, S) uint8 → what the decoder reads of them, computed once."""
        return read_images(self.model, images.to(self.device), self.precision)

    # --- one pass per caption -----------------------------------------------------------------------------------------

    def autoregressive(self, memory: Memory, pairs: Sequence[Pair], reverse: bool = False) -> list[Scored]:
        """Σ log p(c_i | c_<i, V) (equation 7); ``reverse``: for a model trained on pieces from right to left."""

        def scores(tokens: Tensor, memory: Memory, _: Sequence[Pair]) -> Tensor:
            lengths = torch.full((len(tokens),), tokens.shape[1], device=tokens.device)
            inputs = right_to_left(tokens, lengths) if reverse else tokens
            hidden = self._hidden(inputs[:, None], memory)[:, 0, :-1]
            log_probs = self._log_probs(hidden.flatten(0, 1), inputs[:, 1:].flatten()).view(len(tokens), -1)
            return torch.cat([log_probs[:, :-1].flip(1), log_probs[:, -1:]], dim=1) if reverse else log_probs

        return self._exact(memory, pairs, scores)

    def parallel(self, memory: Memory, pairs: Sequence[Pair]) -> list[Scored]:
        """Σ log p(c_i | all masked, V): every token from the fully masked caption, in one pass (parallel decoding)."""

        def scores(tokens: Tensor, memory: Memory, _: Sequence[Pair]) -> Tensor:
            where = torch.ones(len(tokens), 1, tokens.shape[1] - 1, dtype=torch.bool)
            return self.masked(tokens, memory, where)[:, 0]

        return self._exact(memory, pairs, scores)

    # --- one pass per token ---------------------------------------------------------------------------------------------

    def pseudo_likelihood(self, memory: Memory, pairs: Sequence[Pair]) -> list[Scored]:
        """Σ log p(c_i | all other tokens, V) (Salazar et al., 2020)."""

        def scores(tokens: Tensor, memory: Memory, _: Sequence[Pair]) -> Tensor:
            length = tokens.shape[1] - 1
            where = single_masks(length).expand(len(tokens), length, length)
            return self.masked(tokens, memory, where).sum(dim=1)

        return self._exact(memory, pairs, scores, versions=lambda length: length)

    def heuristic(self, memory: Memory, pairs: Sequence[Pair]) -> list[Scored]:
        """The paper's N steps: from the fully masked caption, at each step the masked place of the highest confidence adds
        the log probability of its true token, which is then shown.

        Options of one image have the same state until a place is revealed in which they differ; equal states are computed once.
        """

        def scores(tokens: Tensor, memory: Memory, pairs: Sequence[Pair]) -> Tensor:
            images = torch.tensor([pair.image for pair in pairs], device=self.device)
            where = torch.ones(tokens[:, 1:].shape, dtype=torch.bool, device=self.device)
            terms = torch.zeros(where.shape, device=self.device)
            captions = torch.arange(len(tokens), device=self.device)
            for _step in range(where.shape[1]):
                visible = self._corrupted(tokens, where[:, None])[:, 0]
                first, state = _distinct(torch.cat([images[:, None], visible], dim=1))
                part = memory if len(first) == len(tokens) else memory.of(first)  # avoid a copy
                hidden = self._hidden(visible[first, None], part)[:, 0, 1:]
                hidden_at = where[first]
                confidence = torch.zeros(hidden_at.shape, device=self.device)
                confidence.masked_scatter_(hidden_at, self._confidences(hidden[hidden_at]))
                chosen = next_revealed(confidence, hidden_at)[state]
                log_probs = self._log_probs(hidden[state, chosen], tokens[captions, 1 + chosen])
                terms[captions, chosen] = log_probs
                where[captions, chosen] = False
            return terms

        return self._exact(memory, pairs, scores)

    # --- by sampling --------------------------------------------------------------------------------------------------

    def monte_carlo(
        self,
        memory: Memory,
        pairs: Sequence[Pair],
        draws: Sequence[Draws],
        samples: int,
        t_range: tuple[float, float] | None = None,
    ) -> list[Scored]:
        """The bound of equation 8 by ``samples`` masks of each pair's item, a multiple of 16, in ``draws``.

        ``t_range``: instead the mean of its terms over the numbers of masks in this range alone, which is no bound.
        """
        batches = self.samples(memory, pairs, draws, samples // GROUPS, t_range)
        return in_order(
            placed
            for chosen, log_probs, where in batches
            for placed in zip(chosen, scored(log_probs, where), strict=True)
        )

    def samples(
        self,
        memory: Memory,
        pairs: Sequence[Pair],
        draws: Sequence[Draws],
        count: int,
        t_range: tuple[float, float] | None = None,
    ) -> Iterator[tuple[list[int], Tensor, Tensor]]:
        """The first ``count`` samples of each of the 16 groups, a batch of pairs of equal length at a time.

        Yields the places of C pairs, log p of their tokens where they are masked (C, G, m, L) float32, and where that is.
        """
        for chosen, tokens in self.batches(pairs, lambda length: GROUPS * count):
            length = tokens.shape[1] - 1
            counts_of = _counts(length, t_range)
            masks = {item: draws[item].masks(length, counts_of, count) for item in {pairs[p].item for p in chosen}}
            where = torch.stack([masks[pairs[p].item] for p in chosen])
            part = memory.of([pairs[p].image for p in chosen])
            yield chosen, self.masked(tokens, part, where.flatten(1, 2)).cpu().view(where.shape), where

    @torch.no_grad()
    def masked(self, tokens: Tensor, memory: Memory, where: Tensor, read: Tensor | None = None) -> Tensor:
        """log p of the true token at every masked place, or only at those to ``read``, (C, n, L) float32, 0 elsewhere.

        tokens (C, T) int64 with T = L + 1; ``where`` and ``read`` (C, n, L) bool; ``memory`` of the C images. Versions are
        computed ``batch_tokens`` tokens at a time.
        """
        where = where.to(self.device)
        read = where if read is None else read.to(self.device)
        rows = max(self.batch_tokens // (len(tokens) * tokens.shape[1]), 1)
        parts = []
        for hidden_at, part in zip(where.split(rows, dim=1), read.split(rows, dim=1), strict=True):
            hidden = self._hidden(self._corrupted(tokens, hidden_at), memory)[:, :, 1:]
            truth = tokens[:, None, 1:].expand(part.shape)
            log_probs = self._log_probs(hidden[part], truth[part])
            parts.append(torch.zeros(part.shape, device=self.device).masked_scatter(part, log_probs))
        return torch.cat(parts, dim=1)

    # --- inside -------------------------------------------------------------------------------------------------------

    def _corrupted(self, tokens: Tensor, where: Tensor) -> Tensor:
        """tokens (C, T), where (C, n, L) → (C, n, T) with [MASK] where it says; SOT stays."""
        versions = tokens[:, None].expand(-1, where.shape[1], -1)
        return torch.cat([versions[..., :1], versions[..., 1:].masked_fill(where, self.mask_id)], dim=-1)

    def _hidden(self, tokens: Tensor, memory: Memory) -> Tensor:
        with autocast(self.device, self.precision):
            return hidden_states(self.model, tokens, memory)

    def _log_probs(self, hidden: Tensor, targets: Tensor) -> Tensor:
        with autocast(self.device, self.precision):
            return log_probabilities(self.model, hidden, targets)

    def _confidences(self, hidden: Tensor) -> Tensor:
        with autocast(self.device, self.precision):
            return confidences(self.model, hidden)

    @torch.no_grad()
    def _exact(
        self,
        memory: Memory,
        pairs: Sequence[Pair],
        scores: Callable[[Tensor, Memory, Sequence[Pair]], Tensor],
        versions: Callable[[int], int] = lambda length: 1,
    ) -> list[Scored]:
        """Scores without sampling: ``scores`` gives each token's contribution, (C, L); ``versions`` of a caption per call."""
        scored_pairs: list[tuple[int, Scored]] = []
        for chosen, tokens in self.batches(pairs, versions):
            part = memory.of([pairs[p].image for p in chosen])
            terms = scores(tokens, part, [pairs[p] for p in chosen]).double().cpu()
            scored_pairs += [
                (place, Scored(float(values.sum()), 0.0, values)) for place, values in zip(chosen, terms, strict=True)
            ]
        return in_order(scored_pairs)

    def batches(self, pairs: Sequence[Pair], versions: Callable[[int], int]) -> Iterator[tuple[list[int], Tensor]]:
        """Places of pairs of equal length, and their tokens (C, T): as many as ``batch_tokens`` allows, at least one."""
        lengths = [len(pair.tokens) for pair in pairs]
        for chosen in by_length(lengths, lambda length: self.batch_tokens // (length * versions(length - 1))):
            yield chosen, torch.tensor([list(pairs[p].tokens) for p in chosen], device=self.device)


def _distinct(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Of rows (N, K): the first occurrence of each distinct row, (D,), and the number of each row's among these, (N,)."""
    distinct, group = rows.unique(dim=0, return_inverse=True)
    places = torch.arange(len(rows), device=rows.device)
    if len(distinct) == len(rows):
        return places, places
    first = torch.full((len(distinct),), len(rows), device=rows.device).scatter_reduce(0, group, places, "amin")
    return first, group


def _counts(length: int, t_range: tuple[float, float] | None) -> Callable[[Tensor], Tensor]:
    if t_range is None:
        return lambda points: mask_counts(points, length)
    low, high = t_range
    return lambda points: range_counts(points, length, low, high)


def scored(log_probs: Tensor, where: Tensor) -> list[Scored]:
    """Scores of C captions from their samples, (C, G, m, L) each."""
    terms = controlled_terms(log_probs, where)
    sums = terms.sum(dim=-1)
    values, errors = mean_of_groups(sums)
    parts = zip(values, errors, terms.mean(dim=(-3, -2)), sums.mean(dim=-1), strict=True)
    return [Scored(float(value), float(error), tokens, groups) for value, error, tokens, groups in parts]
