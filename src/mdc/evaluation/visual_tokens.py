"""The norm of a token's gradient at the visual tokens.

The paper's abstract says that in autoregressive captioning the visual signal weakens with a token's position, and that in
masked diffusion captioning it does not. Each method's module of the ability ``positions`` has its measurements.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from mdc.models.captioner import Captioner


def norms(model: Captioner, visual: Tensor, inputs: Tensor, targets: Tensor, places: Tensor) -> Tensor:
    """Of row i the norm of the gradient of its target's cross-entropy at ``places[i]``, at the visual tokens (1, M, E); (L,)
    float64. ``inputs`` (L, T), ``targets`` (L,) and ``places`` (L,) int64."""
    count = len(inputs)
    memory = visual.expand(count, -1, -1).detach().clone().requires_grad_()
    hidden = model.text(inputs, None, memory)
    logits = model.head(hidden[torch.arange(count, device=inputs.device), places])
    loss = F.cross_entropy(logits.float(), targets, reduction="sum")
    (gradient,) = torch.autograd.grad(loss, memory)
    return gradient.flatten(1).norm(dim=1).double().cpu()
