"""The attentive probe: one learnt query attends over an encoder's frozen tokens, then a linear layer.

As AIM's (El-Nouby et al., 2024), but for the norm, which there is over the batch, and for biases: LayerNorm of the tokens ([CLS]
and patches), multi-head attention of one query with the encoder's number of heads, a linear layer (docs/probes.md). AdamW with a
cosine schedule. The learning rate is chosen on a held-out share of the training items; the final probe is fitted on all of them.

The same function is computed at less cost. The query is the same for all images, so a head's scores are one product of the
normalised tokens with its query, projected by the key weights. A head's weights sum to one, so values are computed of its mean
token, not of every token. A bias of the keys shifts all scores of a head alike, so there is none. Probes of all learning rates
see the same batches and are trained together, along a leading dimension F.
"""

import math
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from mdc.plan.config.kinds.backbones import Backbone
from mdc.plan.config.kinds.heads import Attentive
from mdc.plan.jobs.model import ProbeJob
from mdc.plan.records import UserError
from mdc.report.statistics.metrics import mean_average_precision, per_item_top1

TOKENS = True
_HEAD_WIDTH = 64  # channels a head where the encoder has no heads of its own


@dataclass(frozen=True)
class Fitting:
    """How probes are trained; ``classes`` of one label, or of several if targets have two dimensions."""

    classes: int
    heads: int
    epochs: int
    batch_size: int
    weight_decay: float
    seed: int


def fit(
    job: ProbeJob, train: Tensor, targets: Tensor, classes: int, test: Tensor, device: torch.device
) -> tuple[Tensor, dict[str, Any]]:
    """Logits (N, K) float32 on the CPU of ``test`` (N, 1 + M, D); and notes: the chosen learning rate ``lr``, and the accuracy of
    each on ``held_out`` items, in per cent."""
    head, seed = job.head, job.recipe.seed
    assert isinstance(head, Attentive)
    config = Fitting(classes, heads_of(job), head.epochs, head.batch_size, job.protocol.weight_decay, seed)
    tokens, labels = train.to(device), targets.to(device)
    if not torch.isfinite(tokens.sum(dtype=torch.float64)):
        raise UserError("probe tokens: a value is not finite in half precision")
    order = torch.randperm(len(tokens), generator=torch.Generator().manual_seed(seed))
    held_out = math.ceil(head.held_out * len(tokens))
    if held_out >= len(tokens):
        raise UserError(
            f"{len(tokens)} training items: with {held_out} held out none is left to train an attentive probe on"
        )
    probes = trained(tokens, labels, order[held_out:], head.lr, config)
    accuracies = [
        _accuracy(scores, targets[order[:held_out]])
        for scores in predict(probes, tokens[order[:held_out].to(device)], config)
    ]
    best = head.lr[max(range(len(accuracies)), key=accuracies.__getitem__)]
    final = trained(tokens, labels, torch.arange(len(tokens)), [best], config)
    return predict(final, test.to(device), config)[0], {"lr": best, "held_out": [100 * score for score in accuracies]}


def _accuracy(scores: Tensor, targets: Tensor) -> float:
    """Top-1 accuracy or mean average precision, 0 where no class has a positive."""
    if targets.ndim == 1:
        return float(per_item_top1(scores, targets).mean())
    precision = float(mean_average_precision(scores, targets))
    return precision if math.isfinite(precision) else 0.0


def heads_of(job: ProbeJob) -> int:
    """The encoder's number of heads; of one without, about ``_HEAD_WIDTH`` channels a head."""
    if isinstance(job.backbone, Backbone) and job.backbone.load().ATTENDS:
        return job.backbone.heads
    width = job.backbone.width
    return next(heads for heads in range(max(1, width // _HEAD_WIDTH), 0, -1) if width % heads == 0)


def shapes(width: int, classes: int) -> dict[str, tuple[int, ...]]:
    """Shapes of a probe's parameters. Weights have the outputs first, as PyTorch's layers."""
    square, vector = (width, width), (width,)
    return {
        **{"gain": vector, "shift": vector, "query": vector},
        **{"w_query": square, "b_query": vector, "w_key": square, "w_value": square, "b_value": vector},
        **{"w_out": square, "b_out": vector, "weight": (classes, width), "bias": (classes,)},
    }


def initial(width: int, classes: int, draws: torch.Generator) -> dict[str, Tensor]:
    """Initial values, as ``torch.nn``'s LayerNorm, MultiheadAttention and Linear have them; the query from N(0, 0.02²)."""
    values = {name: torch.zeros(shape) for name, shape in shapes(width, classes).items()}
    values["gain"].fill_(1.0)
    values["query"].normal_(0.0, 0.02, generator=draws)
    for name in ("w_query", "w_key", "w_value"):  # Xavier's bound of the three as one matrix
        values[name].uniform_(-math.sqrt(1.5 / width), math.sqrt(1.5 / width), generator=draws)
    for name in ("w_out", "weight", "bias"):
        values[name].uniform_(-1 / math.sqrt(width), 1 / math.sqrt(width), generator=draws)
    return values


def _views(flat: Tensor, width: int, classes: int) -> dict[str, Tensor]:
    """``flat`` (F, P) by name, (F, …) each."""
    named = shapes(width, classes)
    parts = flat.split([math.prod(shape) for shape in named.values()], dim=1)
    return {name: part.view(-1, *shape) for (name, shape), part in zip(named.items(), parts, strict=True)}


def logits(p: dict[str, Tensor], tokens: Tensor, heads: int) -> Tensor:
    """(F, B, K) of ``tokens`` (B, T, D), by the F probes ``p``."""
    (batch, count, width), probes = tokens.shape, len(p["query"])
    x = F.layer_norm(tokens.to(p["query"].dtype), (width,))
    query = torch.baddbmm(p["b_query"][:, :, None], p["w_query"], p["query"][:, :, None])
    # (F, H, 1, D / H) @ (F, H, D / H, D): a head's query in the space of the tokens
    by_head = query.view(probes, heads, 1, -1) @ p["w_key"].view(probes, heads, -1, width)
    scaled = by_head[:, :, 0] * (p["gain"] * math.sqrt(heads / width))[:, None]
    scores = (x.reshape(batch * count, width) @ scaled.reshape(-1, width).t()).view(batch, count, -1)
    attention = torch.softmax(scores, dim=1)
    means = (attention.transpose(1, 2) @ x).view(batch, probes, heads, width).permute(1, 2, 0, 3)
    means = means * p["gain"][:, None, None] + p["shift"][:, None, None]
    values = means @ p["w_value"].view(probes, heads, -1, width).transpose(2, 3)
    joined = values.permute(0, 2, 1, 3).reshape(probes, batch, width) + p["b_value"][:, None]
    out = torch.baddbmm(p["b_out"][:, None], joined, p["w_out"].transpose(1, 2))
    return torch.baddbmm(p["bias"][:, None], out, p["weight"].transpose(1, 2))


def trained(
    tokens: Tensor, targets: Tensor, rows: Tensor, lrs: list[float], config: Fitting, dtype: torch.dtype = torch.float32
) -> dict[str, Tensor]:
    """A probe for each of ``lrs`` on ``rows`` of ``tokens`` (N, T, D) and ``targets``, (N,) int64 or (N, K) of zeros and ones.

    Mean cross-entropy; of several labels binary cross-entropy, summed over classes. One generator draws everything.
    """
    draws = torch.Generator().manual_seed(config.seed)
    width = tokens.shape[-1]
    start = torch.cat([value.flatten() for value in initial(width, config.classes, draws).values()])
    flat = start.to(tokens.device, dtype).repeat(len(lrs), 1).requires_grad_()
    p = list(flat.detach())  # a probe each, as AdamW changes them
    first, second = (list(torch.zeros_like(flat)) for _ in range(2))
    counts = [torch.zeros((), device=tokens.device) for _ in lrs]
    steps, step = config.epochs * -(-len(rows) // config.batch_size), 0
    for _ in range(config.epochs):
        order = rows[torch.randperm(len(rows), generator=draws)].to(tokens.device)
        for batch in order.split(config.batch_size):
            outputs = logits(_views(flat, width, config.classes), tokens[batch], config.heads)
            (gradient,) = torch.autograd.grad(_loss(outputs, targets[batch]), flat)
            share = 0.5 * (1 + math.cos(math.pi * step / steps))
            step += 1
            for n, lr in enumerate(lrs):
                counts[n].fill_(step)
                moments = [gradient[n]], [first[n]], [second[n]]
                torch._fused_adamw_(
                    [p[n]],
                    *moments,
                    [],
                    [counts[n]],
                    lr=lr * share,
                    beta1=0.9,
                    beta2=0.999,
                    weight_decay=config.weight_decay,
                    eps=1e-8,
                    amsgrad=False,
                    maximize=False,
                )
    return _views(flat.detach(), width, config.classes)


def _loss(outputs: Tensor, targets: Tensor) -> Tensor:
    """The sum over F probes, whose gradients are independent."""
    probes, batch, classes = outputs.shape
    if targets.ndim == 1:
        return F.cross_entropy(outputs.reshape(-1, classes), targets.repeat(probes), reduction="sum") / batch
    labels = targets.to(outputs.dtype).expand(probes, -1, -1)
    return F.binary_cross_entropy_with_logits(outputs, labels, reduction="sum") / batch


@torch.no_grad()
def predict(p: dict[str, Tensor], tokens: Tensor, config: Fitting, batch_size: int = 1024) -> Tensor:
    """Logits (F, N, K) float32 on the CPU."""
    return torch.cat([logits(p, part, config.heads).float().cpu() for part in tokens.split(batch_size)], dim=1)
