"""AdamW by PyTorch's fused kernel, without what its own optimiser classes import."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn


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
