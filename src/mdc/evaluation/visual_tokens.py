"""How much each token of a caption depends on the image, and the norm of its gradient at the visual tokens.

The paper's abstract says that in autoregressive captioning the visual signal weakens with a token's position, and that in
masked diffusion captioning it does not. This module has the two measurements, of one model on held-out captions.
"""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from mdc.diffusion.direction import right_to_left
from mdc.diffusion.likelihood import single_masks, suffix_masks
from mdc.diffusion.schedule import MaskSchedule
from mdc.evaluation.predictors.caption_scores import CaptionScorer, Pair
from mdc.evaluation.predictors.folded import in_order
from mdc.models.captioner import Captioner
from mdc.models.memory import Memory


def prefix_scores(scorer: CaptionScorer, memory: Memory, pairs: Sequence[Pair]) -> list[Tensor]:
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
    image: Tensor,
    tokens: Sequence[int],
    mask_id: int,
    schedule: MaskSchedule | None,
    reverse: bool,
    draws: int,
    generator: torch.Generator,
) -> Tensor:
    """‖∂ℓ_i/∂V‖ of each token's own loss ℓ_i at the visual tokens V, (L,) float64, of one image as the encoder's ``prepared``
    gives it, without the batch.

    ``schedule`` None: an autoregressive model, ℓ_i = −log p(c_i | c_<i, V), with ``reverse`` from right to left. Otherwise
    the mean over ``draws`` of t and of independent masks that hide token i, of the norm for ℓ_i = −log p(c_i | visible, V). MDC
    hides token i with probability t and then weighs it 1/t, so this is what it adds; suffix masks and a loss without 1/t differ.
    """
    length = len(tokens) - 1
    device = image.device
    with torch.no_grad():
        visual = model.visual(image[None])
    ids = torch.tensor([list(tokens)], device=device)
    if schedule is None:
        inputs = right_to_left(ids, torch.tensor([len(tokens)], device=device)) if reverse else ids
        norms = _norms(model, visual, inputs.expand(length, -1), inputs[0, 1:], torch.arange(length, device=device))
        return torch.cat([norms[:-1].flip(0), norms[-1:]]) if reverse else norms
    total = torch.zeros(length, dtype=torch.float64)
    for _ in range(draws):
        jitter = torch.rand(length, generator=generator)
        t = schedule.draw(jitter, torch.zeros(length, dtype=torch.int64), 1)
        hidden = torch.rand(length, length, generator=generator) < t[:, None]
        hidden.fill_diagonal_(True)
        hidden = hidden.to(device)
        rows = ids.expand(length, -1)
        masked = torch.cat([rows[:, :1], rows[:, 1:].masked_fill(hidden, mask_id)], dim=1)
        total += _norms(model, visual, masked, ids[0, 1:], 1 + torch.arange(length, device=device))
    return total / draws


def _norms(model: Captioner, visual: Tensor, inputs: Tensor, targets: Tensor, places: Tensor) -> Tensor:
    """Of row i the norm of the gradient of its target's cross-entropy at ``places[i]``; (L,) float64."""
    count = len(inputs)
    memory = visual.expand(count, -1, -1).detach().clone().requires_grad_()
    hidden = model.text(inputs, None, memory)
    logits = model.head(hidden[torch.arange(count, device=inputs.device), places])
    loss = F.cross_entropy(logits.float(), targets, reduction="sum")
    (gradient,) = torch.autograd.grad(loss, memory)
    return gradient.flatten(1).norm(dim=1).double().cpu()
