"""AdamW and the learning-rate schedule (paper, tables 6-8; OpenCLIP where the paper is silent)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from mdc.config import ProtocolPretrain, Recipe


@dataclass
class Group:
    """Parameters that decay alike: by ``weight_decay`` times the learning rate a step."""

    parameters: list[nn.Parameter]
    weight_decay: float


class AdamW:
    """AdamW (Loshchilov and Hutter, 2019) by the kernel of ``torch.optim.AdamW(fused=True)``, with the same bits.

    ``torch.optim``'s own classes import PyTorch's compiler when they are made, which takes two to three seconds of every
    training, compiled or not. ``lr``: of the next step. ``state``: parameter → step (float32, how many updates it had),
    exp_avg and exp_avg_sq (as the parameter), under the names that ``torch.optim`` gives them; there once the parameter has
    had a gradient.
    """

    def __init__(
        self, groups: list[Group], lr: float, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8
    ) -> None:
        self.groups, self.lr, self.betas, self.eps = groups, lr, betas, eps
        self.state: dict[nn.Parameter, dict[str, Tensor]] = {}

    @torch.no_grad()
    def step(self) -> None:
        """One update of every parameter that has a gradient."""
        with torch.profiler.record_function("Optimizer.step#AdamW.step"):  # as torch.optim calls it in a trace
            for group in self.groups:
                self._update(group)

    def _update(self, group: Group) -> None:
        moved = [(p, p.grad) for p in group.parameters if p.grad is not None]
        if not moved:
            return
        states = [self._state(p) for p, _ in moved]
        steps = [state["step"] for state in states]
        torch._foreach_add_(steps, 1)
        torch._fused_adamw_(
            [p for p, _ in moved],
            [gradient for _, gradient in moved],
            [state["exp_avg"] for state in states],
            [state["exp_avg_sq"] for state in states],
            [],
            steps,
            lr=self.lr,
            beta1=self.betas[0],
            beta2=self.betas[1],
            weight_decay=group.weight_decay,
            eps=self.eps,
            amsgrad=False,
            maximize=False,
        )

    def zero_grad(self) -> None:
        """Forget the gradients."""
        for group in self.groups:
            for parameter in group.parameters:
                parameter.grad = None

    def _state(self, parameter: nn.Parameter) -> dict[str, Tensor]:
        if parameter not in self.state:
            self.state[parameter] = {
                "step": torch.zeros((), dtype=torch.float32, device=parameter.device),
                "exp_avg": torch.zeros_like(parameter),
                "exp_avg_sq": torch.zeros_like(parameter),
            }
        return self.state[parameter]


def build_optimizer(model: nn.Module, recipe: Recipe, protocol: ProtocolPretrain) -> AdamW:
    """AdamW with two groups: matrices decay; gains, biases and the logit scale (fewer than 2 dimensions) don't."""
    learnt = [p for p in model.parameters() if p.requires_grad]
    groups = [
        Group([p for p in learnt if p.ndim >= 2], recipe.weight_decay),
        Group([p for p in learnt if p.ndim < 2], 0.0),
    ]
    return AdamW(groups, recipe.lr, (recipe.beta1, recipe.beta2), protocol.adam_eps)


def learning_rate(step: int, steps: int, base: float, warmup: int, final: float, constant: bool = False) -> float:
    """Linear warm-up to ``base`` over ``warmup`` steps, then a cosine to ``final`` at ``steps`` (OpenCLIP's form), or, if it is
    to be ``constant``, no change.

    ``step`` counts from 0; the first step already moves (base / warmup).
    """
    if step < warmup:
        return base * (step + 1) / warmup
    if constant:
        return base
    progress = (step - warmup) / max(1, steps - warmup)
    return final + 0.5 * (1 + math.cos(math.pi * progress)) * (base - final)
