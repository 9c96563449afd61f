"""Diffusion by mask and replace: a token stays, becomes another one, or becomes [MASK], which absorbs (MC-Diffusion).

K classes, T steps. q(x_t | x_0) keeps a token with ᾱ_t + β̄_t, gives any other class with β̄_t each, and masks with γ̄_t, where
ᾱ_t + K·β̄_t + γ̄_t = 1. ᾱ_t = 1 − t/T falls evenly, and what it loses goes to [MASK] and to the classes in fixed shares. Without
replacement (``replaced`` 0) this is absorbing diffusion, as MDC has it at t/T.

All transitions from t to any s < t are exact and cost O(K): the matrices Q are never built. Shapes: B captions, L places.
Everything is in log space and float32 at least.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

#: stands for log 0: the gradient of logaddexp(−inf, −inf) is not a number
NEVER = -1e30

#: number of a stride, from 0 → uniform numbers for what becomes of a place, and which class it becomes
Numbers = Callable[[int], tuple[Tensor, Tensor]]


@dataclass(frozen=True)
class Stride:
    """From time s up to t, of each caption, (B,) float64: x_t is x_s with ``alpha``, one of the classes with ``beta`` each,
    [MASK] with ``gamma``; the ``_s`` and ``_t`` are the same from time 0."""

    alpha: Tensor
    beta: Tensor
    gamma: Tensor
    alpha_s: Tensor
    beta_s: Tensor
    gamma_s: Tensor
    alpha_t: Tensor
    beta_t: Tensor
    gamma_t: Tensor


@dataclass(frozen=True)
class ReplaceSchedule:
    """``masked`` and ``replaced``: the shares of tokens that are [MASK], or drawn anew from all classes, at time T."""

    classes: int
    steps: int
    masked: float = 0.9
    replaced: float = 0.1

    def __post_init__(self) -> None:
        if self.classes < 2 or self.steps < 1:
            raise ValueError(f"{self.classes} classes and {self.steps} steps: at least 2 and 1 are needed")
        if not (self.masked > 0 and self.replaced >= 0 and math.isclose(self.masked + self.replaced, 1.0)):
            raise ValueError(f"masked {self.masked} and replaced {self.replaced}: above 0, not below 0, and 1 together")

    @property
    def mask_id(self) -> int:
        """[MASK]: the first number that is no class."""
        return self.classes

    def alpha_bar(self, t: Tensor) -> Tensor:
        """ᾱ_t (B,) float64 of times (B,) int64 in 0…T."""
        return 1 - t.double() / self.steps

    def beta_bar(self, t: Tensor) -> Tensor:
        """β̄_t, of one class."""
        return self.replaced * t.double() / self.steps / self.classes

    def gamma_bar(self, t: Tensor) -> Tensor:
        """γ̄_t."""
        return self.masked * t.double() / self.steps

    def stride(self, s: Tensor, t: Tensor) -> Stride:
        """The transition from ``s`` to ``t``, both (B,) int64 with 0 ≤ s < t ≤ T."""
        if bool((s >= t).any()) or bool((s < 0).any()) or bool((t > self.steps).any()):
            raise ValueError(f"times {s.tolist()} and {t.tolist()}: 0 ≤ s < t ≤ {self.steps} is needed")
        alpha_s, gamma_s = self.alpha_bar(s), self.gamma_bar(s)
        alpha_t, gamma_t = self.alpha_bar(t), self.gamma_bar(t)
        # ᾱ_s is 0 at s = T only, which is no start; 1 − γ̄_s is 0 there at most
        alpha, kept = alpha_t / alpha_s, (1 - gamma_t) / (1 - gamma_s)
        beta = ((kept - alpha) / self.classes).clamp(min=0) if self.replaced else torch.zeros_like(alpha)
        return Stride(alpha, beta, 1 - kept, alpha_s, self.beta_bar(s), gamma_s, alpha_t, self.beta_bar(t), gamma_t)

    def draw_times(self, jitter: Tensor, place: Tensor, batch: int) -> Tensor:
        """Times (B,) int64, uniform on 1…T, for samples at ``place`` (B,) of a global batch of ``batch``; stratified:
        jitter (B,) in [0, 1) is the place within the sample's stratum."""
        share = (place.double() + jitter.double()) / batch
        return (1 + (share * self.steps).floor().long()).clamp(max=self.steps)


def corrupt(tokens: Tensor, t: Tensor, schedule: ReplaceSchedule, what: Tensor, which: Tensor) -> Tensor:
    """A draw of q(x_t | x_0): tokens (B, L) int64 of classes, t (B,) → (B, L).

    ``what`` (B, L) in [0, 1) decides between [MASK], another class and none; ``which`` (B, L) in [0, 1) is the class. They are
    two numbers, because β̄ of a single class is smaller than the steps of a float32.
    """
    masked = schedule.gamma_bar(t)[:, None]
    replaced = masked + schedule.classes * schedule.beta_bar(t)[:, None]
    drawn = (which.double() * schedule.classes).floor().long().clamp(max=schedule.classes - 1)
    found = torch.where(what < replaced, drawn, tokens)
    return torch.where(what < masked, schedule.mask_id, found)


@dataclass(frozen=True)
class Posterior:
    """Of each place the log probability of each class at time s, (B, L, K), and of [MASK], (B, L)."""

    classes: Tensor
    mask: Tensor

    def with_mask(self) -> Tensor:
        """Both together, (B, L, K + 1)."""
        return torch.cat([self.classes, self.mask[..., None]], dim=-1)


def posterior(log_x0: Tensor, x_t: Tensor, stride: Stride) -> Posterior:
    """p(x_s | x_t) = Σ_k q(x_s | x_t, x_0 = k) p(x_0 = k | x_t), from log p(x_0 | x_t) (B, L, K), x_t (B, L) int64.

    With x_t = [MASK]: a class k has (γ/γ̄_t)(ᾱ_s p_k + β̄_s), [MASK] γ̄_s/γ̄_t. With x_t = j it is no [MASK], and with
    w_k = p_k / (ᾱ_t[k = j] + β̄_t) a class k has (α[k = j] + β)(ᾱ_s w_k + β̄_s Σw). Without replacement a visible token stays.
    """
    number = log_x0.shape[-1]
    log = {name: _log(value)[:, None] for name, value in vars(stride).items()}
    masked = x_t == number
    p = log_x0.float()

    of_mask = (log["gamma"] - log["gamma_t"])[..., None] + torch.logaddexp(
        log["alpha_s"][..., None] + p, log["beta_s"][..., None]
    )
    j = x_t.clamp(max=number - 1)[..., None]
    if bool((stride.beta_t == 0).all()):  # no limit of the general formula
        of_class = torch.full_like(p, NEVER).scatter(-1, j, 0.0)
    else:
        # at j both terms of a sum, elsewhere the second alone
        own_t = torch.logaddexp(log["alpha_t"], log["beta_t"])[..., None]
        w = p - log["beta_t"][..., None]
        w = w.scatter(-1, j, p.gather(-1, j) - own_t)
        whole = w.logsumexp(dim=-1, keepdim=True)
        inner = torch.logaddexp(log["alpha_s"][..., None] + w, log["beta_s"][..., None] + whole)
        own = torch.logaddexp(log["alpha"], log["beta"])[..., None]
        of_class = inner + log["beta"][..., None]
        of_class = of_class.scatter(-1, j, inner.gather(-1, j) + own)
    mask = torch.where(masked, (log["gamma_s"] - log["gamma_t"]).expand(masked.shape), NEVER)
    return Posterior(torch.where(masked[..., None], of_mask, of_class).clamp(min=NEVER), mask.clamp(min=NEVER))


def true_posterior(x0: Tensor, x_t: Tensor, stride: Stride, classes: int) -> Posterior:
    """q(x_s | x_t, x_0) for x0 (B, L) int64."""
    certain = torch.full((*x0.shape, classes), NEVER, device=x0.device)
    return posterior(certain.scatter(-1, x0[..., None], 0.0), x_t, stride)


def divergence(true: Posterior, model: Posterior) -> Tensor:
    """KL(true ‖ model) in nats of each place, (B, L). Where one token is [MASK], both give [MASK] the same probability."""
    q = true.classes
    term = q.exp() * (q - model.classes)
    return term.masked_fill(q <= NEVER / 2, 0.0).sum(dim=-1)


def bound_terms(log_x0: Tensor, x0: Tensor, x_t: Tensor, s: Tensor, t: Tensor, schedule: ReplaceSchedule) -> Tensor:
    """What each place adds to the bound on −log p(x_0) over the stride from t (B,) down to s (B,), (B, L) in nats.

    KL(q(x_s | x_t, x_0) ‖ p(x_s | x_t)); over the last stride, to s = 0, −log p(x_0 | x_t). Their sum over the strides of
    :func:`times`, in the mean over x_t, is the bound: at T nothing of x_0 is left, so there is no other term.
    """
    stride = schedule.stride(s, t)
    kl = divergence(true_posterior(x0, x_t, stride, schedule.classes), posterior(log_x0, x_t, stride))
    last = -log_x0.float().gather(-1, x0[..., None]).squeeze(-1)
    return torch.where((s == 0)[:, None], last, kl)


#: (tokens (N, L), times (N,) int64) → log p(x_0 | x_t), (N, L, K)
Predict = Callable[[Tensor, Tensor], Tensor]


def ancestral(
    predict: Predict, start: Tensor, moments: Sequence[int], schedule: ReplaceSchedule, numbers: Numbers
) -> Tensor:
    """x_0 by drawing x_s from the posterior at each stride of ``moments``, which fall from T to 0; start (N, L) at time T.

    ``numbers``: of stride n, from 0, (what, which), (N, L) float64 in [0, 1) each.
    """
    tokens = start
    for number, (t, s) in enumerate(itertools.pairwise(moments)):
        at = torch.full((len(tokens),), t, device=tokens.device)
        stride = schedule.stride(torch.full_like(at, s), at)
        tokens = draw(posterior(predict(tokens, at), tokens, stride), *numbers(number))
    return tokens


def draw(found: Posterior, what: Tensor, which: Tensor) -> Tensor:
    """A state of each place by the inverse of the distribution function, in float64: [MASK] where ``what`` is below its
    probability, otherwise the class that ``which`` falls on."""
    shares = found.classes.double().softmax(dim=-1).cumsum(dim=-1)
    aim = (which.double() * shares[..., -1])[..., None]
    classes = torch.searchsorted(shares, aim, right=True).squeeze(-1).clamp(max=shares.shape[-1] - 1)
    return torch.where(what.double() < found.mask.double().exp(), shares.shape[-1], classes)


def stationary(schedule: ReplaceSchedule, what: Tensor, which: Tensor) -> Tensor:
    """Places at time T, where nothing of the caption is left: [MASK] or a class; ``what``, ``which`` as in :func:`corrupt`."""
    drawn = (which.double() * schedule.classes).floor().long().clamp(max=schedule.classes - 1)
    return torch.where(what < schedule.masked, schedule.mask_id, drawn)


def times(steps: int, count: int) -> list[int]:
    """``count`` strides from T = ``steps`` down to 0, as even as whole numbers are: count + 1 times."""
    if not 1 <= count <= steps:
        raise ValueError(f"{count} strides: 1 to {steps} are possible")
    return [round(steps * (count - n) / count) for n in range(count + 1)]


def _log(value: Tensor) -> Tensor:
    """In float32, with ``NEVER`` for 0; taken in float64, where 1 − γ̄ and its like still have their digits."""
    return torch.where(value > 0, value.clamp(min=1e-300).log(), NEVER).float()
