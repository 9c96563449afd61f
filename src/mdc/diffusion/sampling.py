"""Decoding of a masked diffusion model: which places are unmasked at a step (paper, section 3.2, equation 6).

At each step the model proposes a token for every masked place. A policy chooses which proposals to accept; they are final.
It chooses by the confidence, the greatest log probability at a place, never by the proposed token: selecting sampled tokens by
their likelihood would change the distribution. The paper's policy accepts the single most confident place, so L places take L
steps. MDLM's ancestral sampler unmasks each place at a random step (:func:`ancestral_turns`). The caller supplies proposals.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

#: (tokens (N, L), where (N, L) bool, rows (N,), step) → proposed tokens (N, L) int64, their log probabilities (N, L) float32 and
#: the confidences (N, L) float32, read where a token is masked; ``rows`` says which of the caller's rows these are
Propose = Callable[[Tensor, Tensor, Tensor, int], tuple[Tensor, Tensor, Tensor]]
#: (confidence (N, L), where (N, L) bool) → which of the places ``where`` are shown, (N, L) bool: at least one in each row
Policy = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class Unmasked:
    """``tokens`` (N, L) int64; of each place the ``step`` (N, L) at which it was shown, from 1, or 0 if it was given, and the
    ``confidence`` (N, L) float64: the log probability in nats that its token had then, 0 if it was given."""

    tokens: Tensor
    step: Tensor
    confidence: Tensor


def unmask(propose: Propose, tokens: Tensor, where: Tensor, policy: Policy, turns: Tensor | None = None) -> Unmasked:
    """Fill the masked places of ``tokens`` (N, L) int64, which are ``where`` (N, L) bool, until none is left.

    ``turns`` (N, L) int64: a step unmasks only places of a row's earliest turn. A turn without places takes no step. A finished
    row gets no more proposals, so rows do not influence each other, and a row's last step counts its model calls.
    """
    tokens, where = tokens.clone(), where.clone()
    steps, confidences = torch.zeros_like(tokens), torch.zeros(tokens.shape, dtype=torch.float64, device=tokens.device)
    step = 0
    while len(rows := where.any(dim=1).nonzero().squeeze(1)):
        step += 1
        masked = due = where[rows]
        if turns is not None:
            left = turns[rows].masked_fill(~masked, torch.iinfo(turns.dtype).max)
            due = masked & (left == left.amin(dim=1, keepdim=True))
        proposed, log_probs, confidence = propose(tokens[rows], due, rows, step)
        shown = policy(confidence, due)
        assert bool((shown <= due).all()) and bool(shown.any(dim=1).all()), "a policy shows masked places, at least one"
        tokens[rows] = torch.where(shown, proposed, tokens[rows])
        steps[rows] = torch.where(shown, step, steps[rows])
        confidences[rows] = torch.where(shown, log_probs.double(), confidences[rows])
        where[rows] = masked & ~shown
    return Unmasked(tokens, steps, confidences)


# --- policies -------------------------------------------------------------------------------------------------------------


def most_confident(confidence: Tensor, where: Tensor, count: int = 1) -> Tensor:
    """The ``count`` masked places of the highest confidence, or all that are left; of equals the first.

    ``count`` 1 is the paper's policy; k takes L/k steps.
    """
    masked = torch.where(where, confidence, torch.full_like(confidence, -math.inf))
    rank = masked.argsort(dim=-1, descending=True, stable=True).argsort(dim=-1)
    return where & (rank < count)


def confident_enough(confidence: Tensor, where: Tensor, least: float) -> Tensor:
    """Every masked place whose likeliest token has at least the probability ``least``, and always the most confident one."""
    return where & ((confidence >= math.log(least)) | most_confident(confidence, where))


def all_of_them(confidence: Tensor, where: Tensor) -> Tensor:
    """Every masked place."""
    return where


# --- turns ----------------------------------------------------------------------------------------------------------------


def ancestral_turns(uniforms: Tensor, steps: int) -> Tensor:
    """The step at which MDLM's ancestral sampler of ``steps`` steps shows each place, from 0, of ``uniforms`` in [0, 1); int64.

    From t to s = t − 1/steps a masked place is shown with probability (t − s)/t, whatever the model says (Sahoo et al., 2024,
    equation 6, with α_t = 1 − t; the paper's equation 3). So each place's step is uniform and independent. It can be
    drawn beforehand, and a step that unmasks nothing needs no call of a model that does not depend on t.
    """
    return (uniforms * steps).long().clamp(max=steps - 1)


# --- proposals ------------------------------------------------------------------------------------------------------------


def greedy(logits: Tensor) -> tuple[Tensor, Tensor]:
    """The most likely token of each row of ``logits`` (R, V), (R,), and its log probability, (R,) float32."""
    logits = logits.float()
    best = logits.max(dim=-1)
    return best.indices, best.values - logits.logsumexp(dim=-1)


def drawn(logits: Tensor, temperature: float, uniforms: Tensor) -> tuple[Tensor, Tensor]:
    """A token of each row drawn from softmax(logits / temperature) by ``uniforms`` (R,) in [0, 1), and its log probability
    without the temperature."""
    log_probs = logits.float().log_softmax(dim=-1)
    # in float64: the inverse of the distribution function, so that one number draws a token
    shares = (log_probs.double() / temperature).softmax(dim=-1).cumsum(dim=-1)
    tokens = torch.searchsorted(shares, (uniforms.double() * shares[:, -1])[:, None], right=True).squeeze(1)
    tokens = tokens.clamp(max=logits.shape[-1] - 1)
    return tokens, log_probs.gather(1, tokens[:, None]).squeeze(1)
