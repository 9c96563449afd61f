"""Scores of captions by a masked model: the bound of equation 8, and what is used in its place (paper, section 4.2)."""

from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor

from mdc.diffusion.likelihood import (
    controlled_terms,
    mask_counts,
    mean_of_groups,
    next_revealed,
    range_counts,
    single_masks,
)
from mdc.evaluation.predictors.caption_scores import GROUPS, CaptionScorer, Draws, Pair, Scored
from mdc.evaluation.predictors.folded import confidences, in_order
from mdc.methods.masked.method import MaskedMethod
from mdc.models.memory import Memory
from mdc.models.precision import autocast
from mdc.plan.config.method import Method


class Scorer(CaptionScorer):
    # --- one pass per caption -----------------------------------------------------------------------------------------

    def parallel(self, memory: Memory, pairs: Sequence[Pair]) -> list[Scored]:
        """Σ log p(c_i | all masked, V): every token from the fully masked caption, in one pass (parallel decoding)."""

        def scores(tokens: Tensor, memory: Memory, _: Sequence[Pair]) -> Tensor:
            where = torch.ones(len(tokens), 1, tokens.shape[1] - 1, dtype=torch.bool)
            return self.masked(tokens, memory, where)[:, 0]

        return self.exact(memory, pairs, scores)

    # --- one pass per token ---------------------------------------------------------------------------------------------

    def pseudo_likelihood(self, memory: Memory, pairs: Sequence[Pair]) -> list[Scored]:
        """Σ log p(c_i | all other tokens, V) (Salazar et al., 2020)."""

        def scores(tokens: Tensor, memory: Memory, _: Sequence[Pair]) -> Tensor:
            length = tokens.shape[1] - 1
            where = single_masks(length).expand(len(tokens), length, length)
            return self.masked(tokens, memory, where).sum(dim=1)

        return self.exact(memory, pairs, scores, versions=lambda length: length)

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
                hidden = self.hidden(visible[first, None], part)[:, 0, 1:]
                hidden_at = where[first]
                confidence = torch.zeros(hidden_at.shape, device=self.device)
                confidence.masked_scatter_(hidden_at, self._confidences(hidden[hidden_at]))
                chosen = next_revealed(confidence, hidden_at)[state]
                log_probs = self.log_probs(hidden[state, chosen], tokens[captions, 1 + chosen])
                terms[captions, chosen] = log_probs
                where[captions, chosen] = False
            return terms

        return self.exact(memory, pairs, scores)

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
            hidden = self.hidden(self._corrupted(tokens, hidden_at), memory)[:, :, 1:]
            truth = tokens[:, None, 1:].expand(part.shape)
            log_probs = self.log_probs(hidden[part], truth[part])
            parts.append(torch.zeros(part.shape, device=self.device).masked_scatter(part, log_probs))
        return torch.cat(parts, dim=1)

    # --- inside -------------------------------------------------------------------------------------------------------

    def _corrupted(self, tokens: Tensor, where: Tensor) -> Tensor:
        """tokens (C, T), where (C, n, L) → (C, n, T) with [MASK] where it says; SOT stays."""
        versions = tokens[:, None].expand(-1, where.shape[1], -1)
        return torch.cat([versions[..., :1], versions[..., 1:].masked_fill(where, self.mask_id)], dim=-1)

    def _confidences(self, hidden: Tensor) -> Tensor:
        with autocast(self.device, self.precision):
            return confidences(self.model, hidden)


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


def score(
    scorer: Scorer,
    method: Method,
    estimator: str,
    visual: Memory,
    pairs: Sequence[Pair],
    draws: Sequence[Draws],
    samples: int,
) -> list[Scored]:
    """See :class:`mdc.evaluation.predictors.score.ScoreModule`."""
    if estimator in ("parallel", "heuristic", "pseudo_likelihood"):
        return list(getattr(scorer, estimator)(visual, pairs))
    t_range = method.t_range if isinstance(method, MaskedMethod) and estimator != "monte_carlo" else None
    return scorer.monte_carlo(visual, pairs, draws, samples, t_range)
