"""AdamW and the learning-rate schedule (paper, tables 6-8; OpenCLIP where the paper is silent)."""

import math

from torch import nn
from torch.optim import AdamW

from mdc.plan.config.params import ProtocolPretrain
from mdc.plan.config.pretrain import Recipe


def build_optimizer(model: nn.Module, recipe: Recipe, protocol: ProtocolPretrain) -> AdamW:
    """AdamW with two groups: matrices decay; gains, biases and the logit scale (fewer than 2 dimensions) don't."""
    learnt = [p for p in model.parameters() if p.requires_grad]
    groups = [
        {"params": [p for p in learnt if p.ndim >= 2], "weight_decay": recipe.weight_decay},
        {"params": [p for p in learnt if p.ndim < 2], "weight_decay": 0.0},
    ]
    return AdamW(groups, recipe.lr, (recipe.beta1, recipe.beta2), protocol.adam_eps, fused=True)


def learning_rate(step: int, steps: int, base: float, warmup: int, final: float, constant: bool = False) -> float:
    """Linear warm-up to ``base`` over ``warmup`` steps, then a cosine to ``final`` at ``steps`` (OpenCLIP's form), or
    ``constant``.

    ``step`` counts from 0; the first step already moves (base / warmup).
    """
    if step < warmup:
        return base * (step + 1) / warmup
    if constant:
        return base
    progress = (step - warmup) / max(1, steps - warmup)
    return final + 0.5 * (1 + math.cos(math.pi * progress)) * (base - final)
