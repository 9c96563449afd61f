"""How much each token of a caption depends on the image under an autoregressive model, and the gradient of its loss."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from mdc.diffusion.direction import reads_backwards, right_to_left
from mdc.evaluation.predictors.caption_scores import Draws, Pair
from mdc.evaluation.visual_tokens import norms
from mdc.methods.autoregressive.score import Scorer
from mdc.models.captioner import Captioner
from mdc.models.memory import Memory
from mdc.plan.config.method import Method


def token_scores(
    scorer: Scorer, method: Method, memory: Memory, pairs: Sequence[Pair], draws: Sequence[Draws], samples: int
) -> tuple[list[Tensor], list[Tensor]]:
    """Of each pair the tokens' scores (L,) in the model's own contexts, twice: those are a left-to-right model's. A right-to-left
    model sees the suffix."""
    own = [score.tokens for score in scorer.autoregressive(memory, pairs, reverse=reads_backwards(method))]
    return own, own


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
    """‖∂ℓ_i/∂V‖ of each token's own loss ℓ_i = −log p(c_i | c_<i, V) at the visual tokens V, (L,) float64, of one image as the
    encoder's ``prepared`` gives it, without the batch; nothing is drawn."""
    length = len(tokens) - 1
    device = image.device
    with torch.no_grad():
        visual = model.visual(image[None])
    ids = torch.tensor([list(tokens)], device=device)
    inputs = right_to_left(ids, torch.tensor([len(tokens)], device=device)) if reads_backwards(method) else ids
    found = norms(model, visual, inputs.expand(length, -1), inputs[0, 1:], torch.arange(length, device=device))
    return torch.cat([found[:-1].flip(0), found[-1:]]) if reads_backwards(method) else found
