"""Unmasking with a guide: each step reveals the token with the best sum of log probability and guide similarity.

Candidates are the likeliest pairs of a masked place and a token, over all masked places. Each step reveals the one with the
highest log probability plus ``weight`` times the guide's similarity of the image and the caption with that token. With a weight
of 0 this is the paper's decoding (:func:`mdc.diffusion.sampling.unmask` by the most confident place). The caller supplies
proposals and similarities. It tests a blog post's claim (docs/findings/guidance.md).

N captions of L places, C candidates.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from mdc.diffusion.sampling import Unmasked


@dataclass(frozen=True)
class Candidates:
    """For each of N captions the likeliest pairs, in descending order: ``places`` and ``pieces`` (N, C) int64, ``log_probs``
    (N, C) float32, −inf where there are fewer."""

    places: Tensor
    pieces: Tensor
    log_probs: Tensor


#: (tokens (N, L), where (N, L) bool, rows (N,)) → candidates; ``rows`` says which of the caller's captions these are
Propose = Callable[[Tensor, Tensor, Tensor], Candidates]
#: (captions with a candidate in them (R, L), what is still masked in them (R, L) bool, rows (R,)) → similarity (R,) float32
Liken = Callable[[Tensor, Tensor, Tensor], Tensor]


def likeliest(log_probs: Tensor, where: Tensor, count: int) -> Candidates:
    """The ``count`` likeliest pairs of each caption. ``log_probs`` (M, V) float32 of the M masked places in the order of
    ``where`` (N, L) bool; of equally likely pairs the first place comes first."""
    count = min(count, log_probs.shape[1])
    best = log_probs.topk(count, dim=-1)
    shape = (*where.shape, count)
    values = torch.full(shape, -torch.inf, device=where.device)
    pieces = torch.zeros(shape, dtype=torch.int64, device=where.device)
    values[where], pieces[where] = best.values, best.indices
    ordered = values.flatten(1).sort(dim=1, descending=True, stable=True)
    chosen = ordered.indices[:, :count]
    return Candidates(chosen // count, pieces.flatten(1).gather(1, chosen), ordered.values[:, :count])


def unmask_guided(propose: Propose, liken: Liken, tokens: Tensor, where: Tensor, weight: float) -> Unmasked:
    """Fill the masked places of ``tokens`` (N, L) int64, which are ``where`` (N, L) bool, one at each step.

    A finished caption gets no more proposals, so the batch does not change it. The confidence of a place is the log probability
    of its token, without the guide.
    """
    tokens, where = tokens.clone(), where.clone()
    steps, confidences = torch.zeros_like(tokens), torch.zeros(tokens.shape, dtype=torch.float64, device=tokens.device)
    step = 0
    while len(rows := where.any(dim=1).nonzero().squeeze(1)):
        step += 1
        proposed = propose(tokens[rows], where[rows], rows)
        captions, candidates = (proposed.log_probs > -torch.inf).nonzero(as_tuple=True)
        places, pieces = proposed.places[captions, candidates], proposed.pieces[captions, candidates]
        each = torch.arange(len(captions), device=tokens.device)
        tried, masked = tokens[rows][captions], where[rows][captions]
        tried[each, places], masked[each, places] = pieces, False
        value = torch.full_like(proposed.log_probs, -torch.inf)
        value[captions, candidates] = proposed.log_probs[captions, candidates] + weight * liken(
            tried, masked, rows[captions]
        )
        best = value.argmax(dim=1, keepdim=True)
        place = proposed.places.gather(1, best).squeeze(1)
        tokens[rows, place] = proposed.pieces.gather(1, best).squeeze(1)
        confidences[rows, place] = proposed.log_probs.gather(1, best).squeeze(1).double()
        steps[rows, place] = step
        where[rows, place] = False
    return Unmasked(tokens, steps, confidences)
