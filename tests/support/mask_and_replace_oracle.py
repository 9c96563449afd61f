"""Mask-and-replace diffusion as it is defined, in probabilities and float64: Bayes' rule, and the bound as a divergence.

Shapes: B captions, L places, K classes; class K is [MASK]. ``stride`` goes from time s to t.
"""

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from mdc.extensions.mc_diffusion.mask_and_replace.diffusion import ReplaceSchedule, Stride


def posterior(p: Tensor, x_t: Tensor, stride: Stride) -> Tensor:
    """p(x_s | x_t) = Σ_k q(x_s | x_t, x_0 = k) p(x_0 = k | x_t), (B, L, K + 1), from p (B, L, K) and x_t (B, L) int64.

    By Bayes' rule q(x_s | x_t, k) = q(x_t | x_s) q(x_s | k) / q(x_t | k). A start k from which x_t cannot come has no share; a
    class that can come from no start stays.
    """
    p, number = p.double(), p.shape[-1]
    alpha, beta, gamma, alpha_s, beta_s, gamma_s, alpha_t, beta_t, gamma_t = (
        value[:, None, None] for value in vars(stride).values()
    )
    masked = (x_t == number)[..., None]
    shown = one_hot(x_t, number + 1)[..., :number].double()
    to_t = torch.where(masked, gamma_t, alpha_t * shown + beta_t)  # q(x_t | x_0 = k)
    w = torch.where(to_t > 0, p / to_t.clamp(min=1e-300), 0.0)
    whole = w.sum(dim=-1, keepdim=True)
    classes = torch.where(masked, gamma, alpha * shown + beta) * (alpha_s * w + beta_s * whole)
    found = torch.cat([classes, torch.where(masked, gamma_s * whole, 0.0)], dim=-1)
    total = found.sum(dim=-1, keepdim=True)
    return torch.where(total > 0, found / total.clamp(min=1e-300), one_hot(x_t, number + 1))


def bound(p: Tensor, x0: Tensor, x_t: Tensor, s: Tensor, t: Tensor, schedule: ReplaceSchedule) -> Tensor:
    """What each place adds to the bound on −log p(x_0) over the strides from t (B,) down to s (B,), (B, L) float64 in nats.

    KL(q(x_s | x_t, x_0) ‖ p(x_s | x_t)), which over the last stride, to s = 0, is −log p(x_s = x_0 | x_t).
    """
    stride = schedule.stride(s, t)
    true = posterior(one_hot(x0, p.shape[-1]), x_t, stride)
    model = posterior(p, x_t, stride)
    possible = true > 0
    ratio = torch.where(possible, true, 1.0).log() - torch.where(possible, model, 1.0).log()
    return (true * ratio).sum(dim=-1)
