"""How much each token of a caption depends on the image under a masked model, and the gradient of its loss."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from mdc.diffusion.likelihood import single_masks, suffix_masks
from mdc.evaluation.predictors.caption_scores import Draws, Pair
from mdc.evaluation.predictors.folded import in_order
from mdc.evaluation.visual_tokens import norms
from mdc.methods.masked.method import MaskedMethod
from mdc.methods.masked.score import Scorer
from mdc.models.captioner import Captioner
from mdc.models.memory import Memory
from mdc.plan.config.method import Method


def token_scores(
    scorer: Scorer, method: Method, memory: Memory, pairs: Sequence[Pair], draws: Sequence[Draws], samples: int
) -> tuple[list[Tensor], list[Tensor]]:
    """Of each pair the tokens' scores (L,) in the model's own contexts, and in those of a left-to-right model.

    A model of one mask ratio neither learns nor scores with other numbers of masks.
    """
    t_range = method.t_range if isinstance(method, MaskedMethod) and method.t_range[0] == method.t_range[1] else None
    own = [score.tokens for score in scorer.monte_carlo(memory, pairs, draws, samples, t_range)]
    return own, prefix_scores(scorer, memory, pairs)


def prefix_scores(scorer: Scorer, memory: Memory, pairs: Sequence[Pair]) -> list[Tensor]:
    """log p(c_i | c_<i, V) of a masked model, (L,) float64 each: the tokens before place i are shown, it and the rest masked.

    The contexts are those of an autoregressive model, except that the number of masks reveals the length.
    """
    scores: list[tuple[int, Tensor]] = []
    for chosen, tokens in scorer.batches(pairs, lambda length: length):
        length = tokens.shape[1] - 1
        shape = (len(tokens), length, length)
        where, read = suffix_masks(length).expand(shape), single_masks(length).expand(shape)
        log_probs = scorer.masked(tokens, memory.of([pairs[p].image for p in chosen]), where, read)
        scores += zip(chosen, log_probs.diagonal(dim1=1, dim2=2).double().cpu(), strict=True)
    return in_order(scores)


def gradient_norms(
    model: Captioner,
    method: Method,
    protocol: Any,
    image: Tensor,
    tokens: Sequence[int],
    mask_id: int,
    draws: int,
    generator: torch.Generator,
) -> Tensor:
    """‖∂ℓ_i/∂V‖ of each token's own loss ℓ_i at the visual tokens V, (L,) float64, of one image as the encoder's ``prepared``
    gives it, without the batch.

    The mean over ``draws`` of t and of independent masks that hide token i, of the norm for ℓ_i = −log p(c_i | visible, V). MDC
    hides token i with probability t and then weighs it 1/t, so this is what it adds; suffix masks and a loss without 1/t differ.
    """
    schedule = method.load("train").schedule_of(method, protocol)
    length = len(tokens) - 1
    device = image.device
    with torch.no_grad():
        visual = model.visual(image[None])
    ids = torch.tensor([list(tokens)], device=device)
    total = torch.zeros(length, dtype=torch.float64)
    for _ in range(draws):
        jitter = torch.rand(length, generator=generator)
        t = schedule.draw(jitter, torch.zeros(length, dtype=torch.int64), 1)
        hidden = torch.rand(length, length, generator=generator) < t[:, None]
        hidden.fill_diagonal_(True)
        hidden = hidden.to(device)
        rows = ids.expand(length, -1)
        masked = torch.cat([rows[:, :1], rows[:, 1:].masked_fill(hidden, mask_id)], dim=1)
        total += norms(model, visual, masked, ids[0, 1:], 1 + torch.arange(length, device=device))
    return total / draws
