"""How likely a caption is under a masked diffusion model: the bound of the paper's equation 8, and its relatives.

L tokens of a caption can be masked: its BPE tokens and EOT. A mask set S holds l of them, and log p_i is the model's log
probability of the true token at place i, given the tokens that are not in S. Equation 8 says

    log p(c) ≥ Σ_{l=1..L} E_{|S|=l} (1/l) Σ_{i∈S} log p_i  =  E_{l ~ U{1..L}} E_{|S|=l} (L/l) Σ_{i∈S} log p_i.

This module draws l and S, turns draws into a score, and has the masks that are not drawn. The caller supplies log
probabilities. G groups of m samples each are shifted independently, so the spread of the groups gives the standard error
although samples are stratified within a group (docs/scoring.md).
"""

import math

import torch
from torch import Tensor


def radical_inverse(count: int, base: int) -> Tensor:
    """Van der Corput's points 0…count − 1 in [0, 1), (count,) float64: the first baseᵏ of them are the multiples of base⁻ᵏ."""
    numbers = torch.arange(count)
    points, scale = torch.zeros(count, dtype=torch.float64), 1.0
    while bool(numbers.any()):
        scale /= base
        points += scale * (numbers % base)
        numbers = numbers // base
    return points


def shifted(offsets: Tensor, count: int, base: int) -> Tensor:
    """``count`` evenly spread points of each group, (G, count) float64 in [0, 1): ``offsets`` (G,) shift them round the circle.

    Each point alone is uniform if its group's offset is. The points of a smaller count are the first ones of a larger.
    """
    points = (offsets.to(torch.float64)[:, None] + radical_inverse(count, base)) % 1.0
    return points.clamp(max=1 - 2.0**-53)  # rounding may give 1


def mask_counts(points: Tensor, length: int) -> Tensor:
    """How many of ``length`` L tokens are masked: ⌊u·L⌋ + 1 in 1…L for points u in [0, 1), int64.

    Each number has a stretch of the same length, so l is uniform if u is. (Rounding a stratified u·L to the nearest
    number, as LLaDA's code does, makes odd numbers rarer than even ones at some lengths.)
    """
    return (points * length).long().clamp(max=length - 1) + 1


def counts_in_range(length: int, low: float, high: float) -> tuple[int, int]:
    """The least and greatest number of masked tokens whose share of L lies in [low, high], at least 1.

    Where no whole number lies there (a fixed ratio of a short caption), both are the nearest to the range's middle.
    """
    first, last = max(math.ceil(low * length - 1e-9), 1), math.floor(high * length + 1e-9)
    if first <= last:
        return first, last
    nearest = min(max(round((low + high) / 2 * length), 1), length)
    return nearest, nearest


def range_counts(points: Tensor, length: int, low: float, high: float) -> Tensor:
    """As ``mask_counts``, but uniform over :func:`counts_in_range` alone."""
    first, last = counts_in_range(length, low, high)
    return mask_counts(points, last - first + 1) + first - 1


def masked_places(counts: Tensor, keys: Tensor) -> Tensor:
    """Which tokens are masked, (…, L) bool: of each sample the ``counts`` (…,) places with the smallest ``keys`` (…, L).

    With independent uniform keys every set of l places is equally likely.
    """
    return keys.argsort(dim=-1).argsort(dim=-1) < counts[..., None]


def token_terms(log_probs: Tensor, where: Tensor) -> Tensor:
    """Contribution of each masked token to a sample of the bound: (L/l)·log p_i, (…, L), 0 where no mask is.

    ``log_probs`` (…, L) float; ``where`` (…, L) bool, with at least one mask in each sample.
    """
    weight = where.shape[-1] / where.sum(dim=-1, keepdim=True)
    return torch.where(where, log_probs, torch.zeros_like(log_probs)) * weight


def controlled_terms(log_probs: Tensor, where: Tensor) -> Tensor:
    """Terms with the same mean as :func:`token_terms` and a far smaller variance, (…, G, m, L) float64.

    Most of a sample's variance is which tokens it masks: some are always likely and some never. So each token i has a
    control a_i(l), what its log probability is expected to be under l masks, and the term is

        (L/l)·[i ∈ S]·(log p_i − a_i(l)) + a_i(l),

    whose mean over S given l is that of (L/l)·[i ∈ S]·log p_i, whatever a_i is, as long as it does not depend on the sample
    itself. It does not: the first half of the groups takes it from the second half, and the second from the first. With
    few samples a_i is a mean, with more it is linear in l/L. The groups of a half share their controls, and given these
    they are independent.
    """
    groups, samples, length = where.shape[-3:]
    terms = torch.empty(where.shape, dtype=torch.float64)
    halves = slice(0, groups // 2), slice(groups // 2, groups)
    degree = 1 if (groups // 2) * samples >= _ENOUGH else 0
    for own, other in (halves, halves[::-1]):
        masked = where[..., own, :, :]
        share = masked.sum(dim=-1, keepdim=True) / length
        control = _expected(log_probs[..., other, :, :], where[..., other, :, :], share, degree)
        terms[..., own, :, :] = token_terms(log_probs[..., own, :, :].double() - control, masked) + control
    return terms


#: from so many samples on a control is linear in the share of masked tokens; strength of its pull to the common line
_ENOUGH, _PULL = 32, 0.3


def _expected(log_probs: Tensor, where: Tensor, share: Tensor, degree: int) -> Tensor:
    """Each token's expected log probability at ``share`` (…, g, m, 1) of masked tokens, (…, g, m, L) float64.

    A least-squares line in the share (or a mean) of each token's ``log_probs`` (…, g, m, L) where it is masked, pulled to
    the line of all tokens together, for a token that was masked once or never.
    """
    mask, values = where.flatten(-3, -2).double(), log_probs.flatten(-3, -2).double()
    powers = torch.arange(degree + 1)
    basis = (mask.sum(dim=-1, keepdim=True) / mask.shape[-1]) ** powers  # (…, N, degree + 1)
    gram = torch.einsum("...nl,...nk,...nj->...lkj", mask, basis, basis)
    identity = torch.eye(degree + 1, dtype=torch.float64)
    sums = torch.einsum("...nl,...nk->...lk", mask * values, basis)
    common = torch.linalg.solve(gram.sum(dim=-3) + 1e-9 * identity, sums.sum(dim=-2))
    rest = sums - torch.einsum("...lkj,...j->...lk", gram, common)
    own = common[..., None, :] + torch.linalg.solve(gram + _PULL * identity, rest)
    return torch.einsum("...gmk,...lk->...gml", share.double() ** powers, own)


def mean_of_groups(samples: Tensor) -> tuple[Tensor, Tensor]:
    """The mean of ``samples`` (…, G, m) float64, (…,), and its standard error from the spread of its G groups.

    One group has none: it is infinite then.
    """
    groups = samples.mean(dim=-1)
    count = groups.shape[-1]
    if count < 2:
        return groups.mean(dim=-1), torch.full(groups.shape[:-1], math.inf, dtype=groups.dtype)
    return groups.mean(dim=-1), groups.std(dim=-1, correction=1) / math.sqrt(count)


def next_revealed(confidence: Tensor, where: Tensor) -> Tensor:
    """The heuristic's choice, (N,): of the masked places the one with the highest ``confidence`` (N, L), the first of equals.

    Paper, section 4.2 and equation 6: confidence is the greatest probability over the vocabulary at a place.
    """
    return torch.where(where, confidence, torch.full_like(confidence, -math.inf)).argmax(dim=-1)


# --- without drawing ------------------------------------------------------------------------------------------------------


def single_masks(length: int) -> Tensor:
    """The mask sets of the pseudo-likelihood, (L, L) bool: each token alone, the others visible (Salazar et al., 2020)."""
    return torch.eye(length, dtype=torch.bool)


def suffix_masks(length: int) -> Tensor:
    """The mask sets of left-to-right contexts, (L, L) bool: row i shows the tokens before place i, and masks it and the rest."""
    places = torch.arange(length)
    return places[None, :] >= places[:, None]
