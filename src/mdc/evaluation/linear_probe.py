"""The linear probe of CLIP-benchmark 1.6.2, number for number, without its data loader.

``clip_benchmark.metrics.linear_probe`` trains one linear layer with bias on frozen features: AdamW at a learning rate
of 0.1 with a cosine schedule per step and no warm-up, 10 epochs of batches of 64, features scaled to unit length.
Its loop runs on CUDA only and collates rows one by one. Here the same random draws are replayed and the same
arithmetic is done on slices, so on the CPU the weights are equal to its weights to the last bit (single-label,
``amp=False``; the tests run its code beside ours, with its moves to CUDA undone).

What is replayed, all from generators seeded with ``seed`` (the global generator is never touched):

1. ``evaluate()`` shuffles the training features once, ``torch.randperm(N)``, from the global generator as the command
   line seeded it. (Its command line builds the encoder between seeding and shuffling; those draws are not replayed.)
2. ``train()`` seeds again, then ``torch.nn.Linear`` draws the weight and the bias.
3. Each epoch the ``DataLoader`` draws one int64 (the workers' base seed, not used without workers), then one int64 that
   seeds the sampler's own generator, whose ``randperm(N)`` is the order. The last, short batch is kept.

The gradient of a linear layer under cross-entropy is written out and AdamW's update is the sequence of
``torch.optim.adam._single_tensor_adam``: the same bits as autograd and ``torch.optim.AdamW`` (whose constructor would
import ``torch._dynamo``, four seconds). With ``fused`` one kernel updates a parameter in one pass over memory, which is
faster, but rounds differently: weights differ from CLIP-benchmark's by some 1e-6. So it is a choice, not the default.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from mdc.plan.config.kinds.heads import Probe
from mdc.plan.jobs.model import ProbeJob
from mdc.plan.records import UserError

TOKENS = False
_BETA1, _BETA2, _EPS = 0.9, 0.999, 1e-8  # torch.optim.AdamW's defaults, which CLIP-benchmark leaves alone


@dataclass(frozen=True)
class ProbeRecipe:
    """Hyperparameters; the defaults are CLIP-benchmark's when there is no validation split.

    ``fused``: AdamW by PyTorch's fused kernel, faster and with other roundings.
    """

    lr: float = 0.1
    epochs: int = 10
    batch_size: int = 64
    weight_decay: float = 0.0
    normalize: bool = True
    fused: bool = False


@dataclass(frozen=True)
class LinearProbe:
    """A trained probe: ``weight`` (K, D) and ``bias`` (K,), float32 on the CPU; ``normalize`` as it was trained."""

    weight: Tensor
    bias: Tensor
    normalize: bool


def fit(
    job: ProbeJob, train: Tensor, targets: Tensor, classes: int, test: Tensor, device: torch.device
) -> tuple[Tensor, dict[str, Any]]:
    """Logits of ``test`` (N, D), and no notes; see :func:`train_linear_probe`."""
    config = job.recipe
    assert isinstance(config, Probe)
    recipe = ProbeRecipe(
        lr=config.lr,
        epochs=config.epochs,
        batch_size=config.batch_size,
        weight_decay=job.protocol.weight_decay,
        normalize=job.protocol.normalise,
        fused=config.fused,
    )
    return predict(train_linear_probe(train, targets, classes, recipe, seed=config.seed, device=device), test), {}


def train_linear_probe(
    features: Tensor,
    targets: Tensor,
    num_classes: int,
    recipe: ProbeRecipe | None = None,
    *,
    seed: int = 0,
    device: str | torch.device = "cpu",
) -> LinearProbe:
    """Train a probe on ``features`` (N, D) float32.

    ``targets`` (N,) int64 in [0, num_classes) trains one softmax with mean cross-entropy; ``targets`` (N, num_classes)
    of zeros and ones trains independent logistic regressions with binary cross-entropy, summed over the classes and
    averaged over the batch, in the same loop with the same draws (CLIP-benchmark has no such task; that part is ours).

    ``features`` are not changed; with ``recipe.normalize`` a normalised copy is made (pass unit rows and
    ``normalize=False`` to save the memory). On another device both are moved there whole; the draws stay on the CPU, as
    in CLIP-benchmark. Raises UserError on values that are not finite.
    """
    recipe = ProbeRecipe() if recipe is None else recipe
    multi = targets.ndim == 2
    # one number that is finite exactly when all are, without a mask as large as the features
    if not torch.isfinite(features.sum(dtype=torch.float64)):
        raise UserError("probe features: a value is not finite")
    with torch.no_grad():
        x_all = features.to(device)
        x_all = F.normalize(x_all, dim=-1) if recipe.normalize else x_all
        y_all = targets.to(device=device, dtype=torch.float32 if multi else torch.int64)
        # evaluate()'s own shuffle; composed with each epoch's order instead of copying the features
        shuffled = torch.randperm(len(features), generator=torch.Generator().manual_seed(seed))
        draws = torch.Generator().manual_seed(seed)
        weight, bias = (p.to(device) for p in _linear_init(features.shape[1], num_classes, draws))
        grad_weight, grad_bias = torch.empty_like(weight), torch.empty_like(bias)
        # per parameter: itself, its gradient, AdamW's two moments, and scratch memory (fresh memory every step costs
        # page faults, a seventh of the whole time at 1,000 classes)
        parameters = [
            (p, gradient, torch.zeros_like(p), torch.zeros_like(p), torch.empty_like(p))
            for p, gradient in ((weight, grad_weight), (bias, grad_bias))
        ]

        counts = [torch.zeros((), device=device) for _ in parameters]  # of steps, as the fused kernel takes them
        steps_per_epoch = -(-len(features) // recipe.batch_size)
        step = 0
        for _ in range(recipe.epochs):
            order = shuffled[_loader_order(len(features), draws)].to(device)
            for rows in order.split(recipe.batch_size):
                x, y = x_all.index_select(0, rows), y_all.index_select(0, rows)
                logits = torch.addmm(bias, x, weight.t())
                residual = _binary_residual(logits, y) if multi else _softmax_residual(logits, y)
                torch.mm(residual.t(), x, out=grad_weight)
                torch.sum(residual, 0, out=grad_bias)
                lr = cosine_lr(recipe.lr, step, recipe.epochs * steps_per_epoch)
                step += 1
                if recipe.fused:
                    _fused_adamw_(parameters, counts, lr, recipe.weight_decay, step)
                    continue
                for parameter in parameters:
                    _adamw_(*parameter, lr, recipe.weight_decay, step)
    return LinearProbe(weight.cpu(), bias.cpu(), recipe.normalize)


def predict(probe: LinearProbe, features: Tensor, *, batch_size: int = 4096) -> Tensor:
    """Logits (N, K) float32 on the CPU for ``features`` (N, D), normalised first if the probe was trained so."""
    device = features.device
    weight, bias = probe.weight.to(device), probe.bias.to(device)
    logits = torch.empty(len(features), len(bias))
    with torch.no_grad():
        for start in range(0, len(features), batch_size):
            x = features[start : start + batch_size].float()
            x = F.normalize(x, dim=-1) if probe.normalize else x
            logits[start : start + batch_size] = torch.addmm(bias, x, weight.t()).cpu()
    return logits


def cosine_lr(base: float, step: int, steps: int) -> float:
    """CLIP-benchmark's schedule without warm-up: from ``base`` at step 0 towards 0 at ``steps``."""
    # np.cos, not math.cos: the two may differ in the last place
    return float(0.5 * (1 + np.cos(np.pi * float(step) / steps)) * base)


def _linear_init(inputs: int, outputs: int, draws: torch.Generator) -> tuple[Tensor, Tensor]:
    """``torch.nn.Linear``'s initial weight (K, D) and bias (K,), in its order of drawing."""
    weight, bias = torch.empty(outputs, inputs), torch.empty(outputs)
    torch.nn.init.kaiming_uniform_(weight, a=math.sqrt(5), generator=draws)
    bound = 1 / math.sqrt(inputs)
    torch.nn.init.uniform_(bias, -bound, bound, generator=draws)
    return weight, bias


def _loader_order(count: int, draws: torch.Generator) -> Tensor:
    """One epoch's order (N,) int64 of a shuffling ``DataLoader`` that draws from ``draws``."""
    torch.empty((), dtype=torch.int64).random_(generator=draws)  # the base seed for workers
    seed = int(torch.empty((), dtype=torch.int64).random_(generator=draws).item())
    return torch.randperm(count, generator=torch.Generator().manual_seed(seed))


def _softmax_residual(logits: Tensor, target: Tensor) -> Tensor:
    """Gradient (B, K) of the mean cross-entropy with respect to ``logits`` (B, K), as autograd computes it."""
    share = 1.0 / len(logits)
    upstream = torch.zeros_like(logits).scatter_(1, target[:, None], -share)
    # the very kernel autograd calls: writing exp(log p)/B - onehot/B out rounds differently
    return torch.ops.aten._log_softmax_backward_data(upstream, torch.log_softmax(logits, 1), 1, logits.dtype)


def _binary_residual(logits: Tensor, target: Tensor) -> Tensor:
    """Gradient (B, K) of binary cross-entropy, summed over classes and averaged over the batch."""
    return torch.sigmoid(logits).sub_(target).div_(len(logits))


def _adamw_(
    p: Tensor, grad: Tensor, first: Tensor, second: Tensor, scratch: Tensor, lr: float, weight_decay: float, step: int
) -> None:
    """One AdamW update of ``p``, ``first`` and ``second`` in place; ``step`` counts from 1.

    The operations and their order are those of ``torch.optim.adam._single_tensor_adam``.
    """
    if weight_decay != 0:
        p.mul_(1 - lr * weight_decay)
    first.lerp_(grad, 1 - _BETA1)
    second.mul_(_BETA2).addcmul_(grad, grad, value=1 - _BETA2)
    step_size = lr / (1 - _BETA1**step)
    denominator = torch.sqrt(second, out=scratch).div_((1 - _BETA2**step) ** 0.5).add_(_EPS)
    p.addcdiv_(first, denominator, value=-step_size)


def _fused_adamw_(
    parameters: list[tuple[Tensor, Tensor, Tensor, Tensor, Tensor]],
    counts: list[Tensor],
    lr: float,
    weight_decay: float,
    step: int,
) -> None:
    """``_adamw_`` of all ``parameters`` (what it takes of each) by the kernel of ``torch.optim.AdamW(fused=True)``."""
    values, gradients, firsts, seconds, _ = (list(column) for column in zip(*parameters, strict=True))
    for count in counts:
        count.fill_(step)
    torch._fused_adamw_(
        values,
        gradients,
        firsts,
        seconds,
        [],
        counts,
        lr=lr,
        beta1=_BETA1,
        beta2=_BETA2,
        weight_decay=weight_decay,
        eps=_EPS,
        amsgrad=False,
        maximize=False,
    )
