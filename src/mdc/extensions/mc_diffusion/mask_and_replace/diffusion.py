"""Mask-and-replace diffusion: a token stays, is replaced, or becomes [MASK], which is absorbing (MC-Diffusion).

K classes, T steps. q(x_t | x_0) keeps a token with ᾱ_t + β̄_t, gives any other class with β̄_t each, and masks with γ̄_t, where
ᾱ_t + K·β̄_t + γ̄_t = 1. ᾱ_t = 1 − t/T falls linearly, and what it loses goes to [MASK] and to the classes in fixed shares.
Without replacement (``replaced`` 0) this is absorbing diffusion, as MDC has it at t/T.

All transitions from t to any s < t are exact and cost O(K): the matrices Q are never built. Shapes: B captions, L places.

By Bayes' rule p(x_s | x_t) = Σ_k q(x_s | x_t, x_0 = k) p_k, with p_k = p(x_0 = k | x_t), is for x_t = [MASK]: a class k has
(γ/γ̄_t)(ᾱ_s p_k + β̄_s), [MASK] has γ̄_s/γ̄_t. For x_t = j it is no [MASK], and with w_k = p_k / (ᾱ_t[k = j] + β̄_t) a class k
has (α[k = j] + β)(ᾱ_s w_k + β̄_s Σw). Without replacement a visible token stays."""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from mdc.diffusion.sampling import Unmasked

#: number of a stride, from 0 → uniform numbers that decide the fate of each place, and its class
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
    """``masked`` and ``replaced``: the shares of tokens that are [MASK], or replaced by a random class, at time T."""

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
        """The id of [MASK]: the number of classes."""
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
        alpha, unmasked = alpha_t / alpha_s, (1 - gamma_t) / (1 - gamma_s)
        beta = ((unmasked - alpha) / self.classes).clamp(min=0) if self.replaced else torch.zeros_like(alpha)
        return Stride(alpha, beta, 1 - unmasked, alpha_s, self.beta_bar(s), gamma_s, alpha_t, self.beta_bar(t), gamma_t)

    def between(self, s: int, t: int, device: torch.device | None = None) -> Stride:
        """The stride from ``s`` to ``t`` for all captions alike."""
        return self.stride(torch.tensor([s], device=device), torch.tensor([t], device=device))

    def draw_times(self, jitter: Tensor, place: Tensor, batch: int) -> Tensor:
        """Times (B,) int64, uniform on 1…T, for samples at ``place`` (B,) of a global batch of ``batch``; stratified:
        jitter (B,) in [0, 1) is the place within the sample's stratum."""
        share = (place.double() + jitter.double()) / batch
        return (1 + (share * self.steps).floor().long()).clamp(max=self.steps)


def corrupt(tokens: Tensor, t: Tensor, schedule: ReplaceSchedule, fate: Tensor, class_draw: Tensor) -> Tensor:
    """A draw of q(x_t | x_0): tokens (B, L) int64 of classes, t (B,) → (B, L).

    ``fate`` (B, L) in [0, 1) decides between [MASK], another class and no change; ``class_draw`` (B, L) in [0, 1) chooses the
    class. They are two numbers because β̄ of a single class is smaller than the steps of a float32.
    """
    masked = schedule.gamma_bar(t)[:, None]
    replaced = masked + schedule.classes * schedule.beta_bar(t)[:, None]
    random_classes = (class_draw.double() * schedule.classes).floor().long().clamp(max=schedule.classes - 1)
    replaced_tokens = torch.where(fate < replaced, random_classes, tokens)
    return torch.where(fate < masked, schedule.mask_id, replaced_tokens)


class BoundWeights(NamedTuple):
    """Weights of the terms of the bound at each place, (B, L) float32 each; see :mod:`.bound_gradient`.

    ``j``: the visible class (int64; arbitrary at [MASK]), ``own``: whether it is x_0's, ``shown``: 1 where a visible class
    counts. ``inverse_j`` and ``inverse``: the 1 / (ᾱ_t + β̄_t) and 1 / β̄_t of the w_k, 1 of a [MASK].
    """

    j: Tensor
    own: Tensor
    surprise: Tensor
    certain: Tensor
    shown: Tensor
    each: Tensor
    at_x0: Tensor
    at_j: Tensor
    r: Tensor
    inverse_j: Tensor
    inverse: Tensor

    def of(self, where: slice) -> "BoundWeights":
        """Those of some rows."""
        return BoundWeights._make(value[where] for value in self)

    def flat(self) -> "BoundWeights":
        """As (B·L,)."""
        return BoundWeights._make(value.flatten() for value in self)


def bound_weights(x0: Tensor, x_t: Tensor, s: Tensor, t: Tensor, schedule: ReplaceSchedule) -> BoundWeights:
    """Of the stride from t (B,) down to s (B,); x0, x_t (B, L) int64."""
    q = {name: value[:, None] for name, value in vars(schedule.stride(s, t)).items()}
    masked, own, last = x_t == schedule.mask_id, x0 == x_t, (s == 0)[:, None]
    # to s = 0 nothing but the surprise is used; a β̄ above 0 keeps the rest finite
    alpha_s, beta_s = q["alpha_s"], torch.where(last, q["beta_t"], q["beta_s"])
    c = q["gamma"] / q["gamma_t"]
    if schedule.replaced:
        surprise, diverges = last.double().expand(x0.shape), (~last).double().expand(x0.shape)
        r, own_alpha = alpha_s / beta_s, torch.where(own, q["alpha"], 0.0)
        v = 1 / (torch.where(own, q["alpha_t"], 0.0) + q["beta_t"])
        q_0 = (own_alpha + q["beta"]) * (alpha_s + beta_s) * v
        certain = torch.where(masked, c * (alpha_s + beta_s) * r.log1p(), v.log() + q_0 * r.log1p())
        each = torch.where(masked, c * beta_s, v * q["beta"] * beta_s)
        at_x0 = torch.where(masked, c * alpha_s, v * q["beta"] * alpha_s)
        at_j = torch.where(masked, 0.0, v * q["alpha"] * (beta_s + torch.where(own, alpha_s, 0.0)))
        inverse_j, inverse = 1 / (q["alpha_t"] + q["beta_t"]), 1 / q["beta_t"]
    else:  # a place that shows its token keeps it
        surprise = torch.where(masked, c * alpha_s, 0.0)
        diverges = certain = each = at_x0 = at_j = torch.zeros_like(surprise)
        r = inverse_j = inverse = torch.ones_like(alpha_s)
    return BoundWeights(
        j=x_t.clamp(max=schedule.classes - 1),
        own=own,
        surprise=surprise.float(),
        certain=(diverges * certain).float(),
        shown=torch.where(masked, 0.0, diverges).float(),
        each=(diverges * each).float(),
        at_x0=(diverges * at_x0).float(),
        at_j=(diverges * at_j).float(),
        r=r.expand(x0.shape).float(),
        inverse_j=torch.where(masked, 1.0, inverse_j).float(),
        inverse=torch.where(masked, 1.0, inverse).float(),
    )


#: (tokens (N, L), the time t) → log p(x_0 | x_t), (N, L, K)
Predict = Callable[[Tensor, int], Tensor]


def ancestral(
    predict: Predict, start: Tensor, moments: Sequence[int], schedule: ReplaceSchedule, numbers: Numbers
) -> Unmasked:
    """x_0 by drawing x_s from the posterior at each stride of ``moments``, which fall from T to 0; start (N, L) at time T.

    ``numbers``: of stride n, from 0, (what, which), (N, L) float64 in [0, 1) each.
    """
    tokens, step = start, torch.zeros_like(start)
    confidence = torch.zeros(start.shape, dtype=torch.float64, device=start.device)
    for number, (t, s) in enumerate(itertools.pairwise(moments)):
        log_x0 = predict(tokens, t)
        sampled = draw(log_x0, tokens, schedule.between(s, t, tokens.device), *numbers(number))
        changed = sampled != tokens
        log_prob = log_x0.gather(-1, sampled.clamp(max=schedule.classes - 1)[..., None]).squeeze(-1).double()
        step, confidence = torch.where(changed, number + 1, step), torch.where(changed, log_prob, confidence)
        tokens = sampled
    return Unmasked(tokens, step, confidence)


def draw(log_x0: Tensor, x_t: Tensor, stride: Stride, fate: Tensor, class_draw: Tensor) -> Tensor:
    """A draw of p(x_s | x_t), (N, L) int64, without building it.

    A place that is [MASK] stays so with γ̄_s/γ̄_t. Otherwise its class is one of p with ᾱ_s : K·β̄_s, or any. A place that shows
    j keeps it with (α + β)(ᾱ_s w_j + β̄_s Σw); otherwise it gets another class k, of those with weights p_k, or any, with ᾱ_s
    Σ_{k≠j} w_k : (K − 1) β̄_s Σw. ``fate`` (N, L) float64 in [0, 1) decides whether a place changes, ``class_draw`` (N, L)
    float64 which class it gets. Probabilities of all classes are summed only where one is drawn."""
    classes = log_x0.shape[-1]
    q = {name: value.double()[:, None] for name, value in vars(stride).items()}
    masked = x_t == classes
    j = x_t.clamp(max=classes - 1)
    p_j = log_x0.gather(-1, j[..., None]).squeeze(-1).double().exp()
    rest = (1 - p_j).clamp(min=0)

    stays_masked = q["gamma_s"] / q["gamma_t"]
    any_class = classes * q["beta_s"]
    # what a place that shows a class may become; without replacement it stays
    w_j, w_rest = p_j / (q["alpha_t"] + q["beta_t"]), rest / q["beta_t"].clamp(min=1e-300)
    other = q["beta"] * (q["alpha_s"] * w_rest + (classes - 1) * q["beta_s"] * (w_j + w_rest))
    own = (q["alpha"] + q["beta"]) * (q["alpha_s"] * w_j + q["beta_s"] * (w_j + w_rest))
    keeps = torch.where(q["beta_t"] > 0, own / (own + other), torch.ones_like(own))
    of_p = torch.where(masked, q["alpha_s"], q["alpha_s"] * w_rest)
    of_any = torch.where(masked, any_class, (classes - 1) * q["beta_s"] * (w_j + w_rest))

    stays = torch.where(masked, stays_masked, keeps)
    sampled, moves = x_t.clone(), fate.double() >= stays
    # the remainder of ``fate`` is uniform on [0, 1) again
    left = ((fate.double() - stays) / (1 - stays).clamp(min=1e-300)).clamp(0, 1)
    by_model = moves & (left < of_p / (of_p + of_any).clamp(min=1e-300))
    uniform = moves & ~by_model
    # any class, but not the one that is shown
    count = torch.where(masked, classes, classes - 1)
    free = (class_draw.double() * count).floor().long().minimum(count - 1)
    free = torch.where(~masked & (free >= j), free + 1, free)
    sampled = torch.where(uniform, free, sampled)
    if bool(by_model.any()):
        shares = log_x0[by_model].double().exp()
        shown = ~masked[by_model]
        shares[shown.nonzero().squeeze(-1), j[by_model][shown]] = 0.0
        shares = shares.cumsum(dim=-1)
        aim = (class_draw[by_model].double() * shares[:, -1])[:, None]
        chosen = torch.searchsorted(shares, aim, right=True).squeeze(-1).clamp(max=classes - 1)
        sampled = sampled.masked_scatter(by_model, chosen)
    return sampled


def stationary(schedule: ReplaceSchedule, fate: Tensor, class_draw: Tensor) -> Tensor:
    """Tokens at time T, independent of the caption: [MASK] or a class; ``fate``, ``class_draw`` as in :func:`corrupt`."""
    random_classes = (class_draw.double() * schedule.classes).floor().long().clamp(max=schedule.classes - 1)
    return torch.where(fate < schedule.masked, schedule.mask_id, random_classes)


def times(steps: int, count: int) -> list[int]:
    """``count`` strides from T = ``steps`` down to 0, as even as whole numbers are: count + 1 times."""
    if not 1 <= count <= steps:
        raise ValueError(f"{count} strides: 1 to {steps} are possible")
    return [round(steps * (count - n) / count) for n in range(count + 1)]
