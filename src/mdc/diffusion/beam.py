"""Beam search over a left-to-right model; greedy decoding is a beam of one.

At each step all continuations of the beams compete for ``num_beams`` slots. A hypothesis that ends is finished and leaves its
slot empty (Sutskever et al., 2014). A caption of n tokens and EOT scores Σ log p / (n + 1)^length_penalty: its log likelihood
with ``length_penalty`` 0, the per-token mean with 1.

The caller supplies the log probabilities of the next token. Images are searched together and do not influence each other.
"""

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

#: (images (I,), parents (I, B) int64, tokens (I, B) int64) → log p of the next token (I, B, V) float32.
#: For each image still searched, beam b extends the previous beam parents[:, b] with the token tokens[:, b].
Next = Callable[[Tensor, Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class Hypothesis:
    """``tokens`` and EOT, with their ``log_probs`` in nats; ``score``: what it is ranked by."""

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

    ``start``, ``end``: SOT and EOT; SOT is never predicted. ``min_tokens`` ≤ ``max_tokens`` count tokens without EOT; equal
    values force a length. An image is done when no unfinished caption can overtake its best finished one."""
    if not (num_beams >= 1 and 0 <= min_tokens <= max_tokens):
        raise ValueError(
            f"a beam of {num_beams} with {min_tokens} to {max_tokens} tokens: "
            "the beam is at least 1 and 0 ≤ min_tokens ≤ max_tokens"
        )
    alive = torch.arange(images, device=device)
    best: list[Hypothesis | None] = [None] * images
    # at first only one beam has a likelihood
    totals = torch.full((images, num_beams), -math.inf, dtype=torch.float64, device=device)
    totals[:, 0] = 0
    history = torch.empty((images, num_beams, 0), dtype=torch.int64, device=device)
    reached = torch.empty((images, num_beams, 0), dtype=torch.float64, device=device)  # Σ log p up to each token
    ends = torch.tensor([end], device=device)
    parents = torch.arange(num_beams, device=device).expand(images, num_beams)
    tokens = torch.full((images, num_beams), start, dtype=torch.int64, device=device)
    for pieces in range(max_tokens + 1):  # of the caption before this token
        log_probs = following(alive, parents, tokens).double()
        log_probs[..., start] = -math.inf
        if pieces < min_tokens:
            log_probs[..., end] = -math.inf
        if pieces == max_tokens:  # only EOT can follow
            log_probs = torch.full_like(log_probs, -math.inf).index_copy_(-1, ends, log_probs[..., end, None])
        joint = (totals[..., None] + log_probs).flatten(1)
        top = joint.topk(min(num_beams, joint.shape[1]), dim=1)
        totals, parents, tokens = top.values, top.indices // log_probs.shape[2], top.indices % log_probs.shape[2]
        past = parents[..., None].expand(*parents.shape, pieces)
        history = torch.cat([history.gather(1, past), tokens[..., None]], dim=2)
        reached = torch.cat([reached.gather(1, past), totals[..., None]], dim=2)
        ended = tokens == end
        _finish(best, alive, history, reached, ended, (pieces + 1) ** length_penalty)
        totals = totals.masked_fill(ended, -math.inf)
        # the best score that an unfinished beam can still reach
        bound = totals.amax(dim=1) / (max_tokens + 1) ** length_penalty
        ahead = [-math.inf if (leader := best[image]) is None else leader.score for image in alive.tolist()]
        going = bound > torch.tensor(ahead, dtype=torch.float64, device=device)
        if not bool(going.any()):
            break
        if not bool(going.all()):
            # finished images leave; the caller sees it by ``images``
            state = (alive, totals, parents, tokens, history, reached)
            alive, totals, parents, tokens, history, reached = (tensor[going] for tensor in state)
    finished = [hypothesis for hypothesis in best if hypothesis is not None]
    if len(finished) < images:
        raise ValueError("no caption has a probability above 0 (the model's logits are not finite)")
    return finished


def _finish(
    best: list[Hypothesis | None], alive: Tensor, history: Tensor, reached: Tensor, ended: Tensor, norm: float
) -> None:
    """Update each image's best with the beams that end at this step, ``ended`` (I, B); the first of equals wins."""
    values, beams = reached[..., -1].masked_fill(~ended, -math.inf).max(dim=1)
    for row, (image, value, beam) in enumerate(zip(alive.tolist(), values.tolist(), beams.tolist(), strict=True)):
        previous = best[image]
        if value > -math.inf and (previous is None or value / norm > previous.score):
            sums = [0.0, *reached[row, beam].tolist()]
            steps = tuple(after - before for before, after in itertools.pairwise(sums))
            best[image] = Hypothesis(tuple(history[row, beam].tolist()), steps, value / norm)
