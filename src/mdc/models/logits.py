"""Sums over rows of logits of a large vocabulary, one chunk of them at a time."""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

#: logits that a CPU's cache holds (a fifth faster at 8,000 pieces), and rows that a GPU takes at a time
_CACHED, _ROWS = 1 << 20, 1024

#: (logits (n, V), slice of rows, whether to differentiate) → values (k,) float32, each summed over the rows. If it
#: differentiates, the logits are replaced by the gradient of the first value.
OfRows = Callable[[Tensor, slice, bool], Tensor]


def computed_in(hidden: Tensor) -> torch.dtype:
    """The dtype in which logits of ``hidden`` are made: its own, or autocast's."""
    device = hidden.device.type
    return torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else hidden.dtype


def sum_over_logits(
    hidden: Tensor,
    weight: Tensor,
    of_rows: OfRows,
    values: int = 1,
    chunk: int | None = None,
    as_made: bool = False,
) -> tuple[Tensor, Tensor]:
    """``of_rows`` of hidden · weightᵀ, summed over all rows: the first value, a scalar, and the others (values − 1,).

    hidden (N, W), weight (V, W). No row gives zero. Logits are made in the dtype of :func:`computed_in` and handed on in
    float32 (float64 stays), or ``as_made``, and then ``of_rows`` leaves its gradient in that dtype. The first value is
    differentiable once, in hidden and weight, the others are not. ``chunk``: rows of logits that live at a time, by default
    what a processor's cache holds, or 1,024.
    """
    device = hidden.device.type
    if chunk is None:
        chunk = min(max(_CACHED // weight.shape[0], 128), _ROWS) if device == "cpu" else _ROWS
    compute = computed_in(hidden)
    options = _How(of_rows, values, chunk, as_made)
    with torch.autocast(device, enabled=False):
        # a Function's forward does not see whether gradients are needed
        if torch.is_grad_enabled() and (hidden.requires_grad or weight.requires_grad):
            return _SumOverLogits.apply(hidden, weight, options, compute)
        total, _, _ = _values_and_gradients(hidden.to(compute), weight, options, differentiate=False)
        return total[0], total[1:]


class _How(NamedTuple):
    """Arguments of :func:`sum_over_logits`."""

    of_rows: OfRows
    values: int
    chunk: int
    as_made: bool


class _SumOverLogits(torch.autograd.Function):
    """The gradient is computed in the same pass as the value.

    Plain autograd keeps N × V logits and their softmax (1.5 GB each for 8,000 rows of CLIP's vocabulary) and walks
    them several times. Here one chunk of logits lives at a time and becomes its own gradient in place.
    """

    @staticmethod
    def forward(ctx: Any, hidden: Tensor, weight: Tensor, options: _How, compute: torch.dtype) -> tuple[Tensor, Tensor]:
        low = hidden.to(compute)
        total, *gradients = _values_and_gradients(low, weight, options, differentiate=True)
        ctx.save_for_backward(*gradients)
        ctx.dtypes = hidden.dtype, weight.dtype
        first, others = total[0].clone(), total[1:].clone()
        ctx.mark_non_differentiable(others)
        return first, others

    @staticmethod
    def backward(ctx: Any, grad: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        grad_hidden, grad_weight = ctx.saved_tensors
        # grad is 1/normaliser. Rounded to bf16, or multiplied in bf16 with numbers that were rounded before, it would make
        # the encoder's whole gradient up to 0.4 per cent too large or too small
        exact = torch.promote_types(grad.dtype, grad_hidden.dtype)
        of_hidden = (grad_hidden.to(exact) * grad).to(ctx.dtypes[0])
        return of_hidden, (grad_weight * grad).to(ctx.dtypes[1]), None, None


def _values_and_gradients(
    hidden: Tensor, weight: Tensor, options: _How, differentiate: bool
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """The sums (values,), and the first's gradients in hidden (hidden's dtype) and weight (float32), or None."""
    compute = hidden.dtype
    wide = torch.promote_types(compute, torch.float32)
    total = torch.zeros(options.values, dtype=wide, device=hidden.device)
    matrix = weight.to(compute)
    grad_hidden = torch.empty_like(hidden) if differentiate else None
    grad_weight = torch.zeros(weight.shape, dtype=wide, device=weight.device) if differentiate else None
    # one block of logits for all chunks: fresh memory costs more than the arithmetic on a CPU
    block = torch.empty(min(options.chunk, hidden.shape[0]), weight.shape[0], dtype=compute, device=hidden.device)
    for start in range(0, hidden.shape[0], options.chunk):
        where = slice(start, start + options.chunk)
        rows = hidden[where]
        logits = torch.mm(rows, matrix.t(), out=block[: len(rows)])
        if not options.as_made:
            logits = logits.to(wide)
        total += options.of_rows(logits, where, differentiate)
        if grad_hidden is not None and grad_weight is not None:
            delta_low = logits.to(compute)
            torch.mm(delta_low, matrix, out=grad_hidden[where])
            if compute == wide:
                grad_weight.addmm_(logits.t(), rows)
            else:
                grad_weight += (delta_low.t() @ rows).to(wide)
    return total, grad_hidden, grad_weight
