"""Beam search over a left-to-right model: the captions of the highest score, of which greedy decoding is a beam of one.

At each step all continuations of the beams compete for as many places as there are beams. One that ends there is finished
and leaves its place empty, so a beam of one is greedy decoding, and a beam as wide as the tree is a search of all captions
(Sutskever et al., 2014). A caption of n pieces and EOT has the score Σ log p / (n + 1)^length_penalty: its log likelihood with
``length_penalty`` 0, the per-token mean with 1.

Nothing here knows a model: a caller gives log probabilities of the next token. Images are searched together and do not
influence each other.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

#: (images (I,), parents (I, B) int64, tokens (I, B) int64) → log p of the next token (I, B, V) float32.
#: Of each image that is still searched, beam b goes on from the former beam parents[:, b] with the token tokens[:, b].
Next = Callable[[Tensor, Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class Hypothesis:
    """``tokens``: pieces and EOT, with their ``log_probs`` in nats; ``score``: what it was chosen by."""

    tokens: tuple[int, ...]
    log_probs: tuple[float, ...]
    score: float

    @property
    def log_prob(self) -> float:
        """Σ log p of the tokens."""
        return math.fsum(self.log_probs)


def beam_search(
    following: Next,
    images: int,
    *,
    num_beams: int,
    start: int,
    end: int,
    min_tokens: int,
    max_tokens: int,
    length_penalty: float,
    device: torch.device | str = "cpu",
) -> list[Hypothesis]:
    """The best finished hypothesis of each of ``images`` images.

    ``start``, ``end``: SOT and EOT; SOT is never written, and EOT ends a caption. ``min_tokens`` and ``max_tokens`` (≥ min_tokens
    ≥ 0): of its pieces; both the same force a length. An image is done when no caption that goes on can overtake its best
    finished one.
    """
    if not (num_beams >= 1 and 0 <= min_tokens <= max_tokens):
        raise ValueError(
            f"a beam of {num_beams} with {min_tokens} to {max_tokens} tokens: "
            "the beam is at least 1 and 0 ≤ min_tokens ≤ max_tokens"
        )
    alive = torch.arange(images, device=device)
    best: list[Hypothesis | None] = [None] * images
    # one beam lives at first; the others have no likelihood
    totals = torch.full((images, num_beams), -math.inf, dtype=torch.float64, device=device)
    totals[:, 0] = 0
    history = torch.empty((images, num_beams, 0), dtype=torch.int64, device=device)
    reached = torch.empty((images, num_beams, 0), dtype=torch.float64, device=device)  # Σ log p up to each token
    ends = torch.tensor([end], device=device)
    parents = torch.arange(num_beams, device=device).expand(images, num_beams)
    tokens = torch.full((images, num_beams), start, dtype=torch.int64, device=device)
    for pieces in range(max_tokens + 1):  # that a caption has before this token
        log_probs = following(alive, parents, tokens).double()
        log_probs[..., start] = -math.inf
        if pieces < min_tokens:
            log_probs[..., end] = -math.inf
        if pieces == max_tokens:  # only EOT can follow
            log_probs = torch.full_like(log_probs, -math.inf).index_copy_(-1, ends, log_probs[..., end, None])
        joint = (totals[..., None] + log_probs).flatten(1)
        kept = joint.topk(min(num_beams, joint.shape[1]), dim=1)
        totals, parents, tokens = kept.values, kept.indices // log_probs.shape[2], kept.indices % log_probs.shape[2]
        past = parents[..., None].expand(*parents.shape, pieces)
        history = torch.cat([history.gather(1, past), tokens[..., None]], dim=2)
        reached = torch.cat([reached.gather(1, past), totals[..., None]], dim=2)
        ended = tokens == end
        _finish(best, alive, history, reached, ended, (pieces + 1) ** length_penalty)
        totals = totals.masked_fill(ended, -math.inf)
        # what a living beam can reach at most: no further loss, over the longest caption
        bound = totals.amax(dim=1) / (max_tokens + 1) ** length_penalty
        ahead = [-math.inf if (one := best[image]) is None else one.score for image in alive.tolist()]
        going = bound > torch.tensor(ahead, dtype=torch.float64, device=device)
        if not bool(going.any()):
            break
        if not bool(going.all()):
            # those that are done leave; the caller is told by the images that it is asked for
            kept_of = (alive, totals, parents, tokens, history, reached)
            alive, totals, parents, tokens, history, reached = (one[going] for one in kept_of)
    return [_found(one) for one in best]


def _found(one: Hypothesis | None) -> Hypothesis:
    if one is None:
        raise ValueError("no caption has a probability above 0 (the model's logits are not finite)")
    return one


def _finish(
    best: list[Hypothesis | None], alive: Tensor, history: Tensor, reached: Tensor, ended: Tensor, norm: float
) -> None:
    """Keep each image's best of the beams that end here, ``ended`` (I, B); of equals the first."""
    values, beams = reached[..., -1].masked_fill(~ended, -math.inf).max(dim=1)
    for row, (image, value, beam) in enumerate(zip(alive.tolist(), values.tolist(), beams.tolist(), strict=True)):
        former = best[image]
        if value > -math.inf and (former is None or value / norm > former.score):
            sums = [0.0, *reached[row, beam].tolist()]
            steps = tuple(after - before for before, after in itertools.pairwise(sums))
            best[image] = Hypothesis(tuple(history[row, beam].tolist()), steps, value / norm)
