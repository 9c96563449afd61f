"""The weighted cross-entropy of a block of logits as one CUDA kernel, which turns the block into its own gradient.

As PyTorch's operations each chunk of logits costs some eight passes of memory over a float32 copy. Here a program reads its row
once for the sum of exponentials, and once more to write a gradient in place. All arithmetic is float32.

No existing kernel does just this. Liger's fused linear cross-entropy takes no weight for each token, and with reduction
none its gradients were once silently wrong. Apple's cut-cross-entropy (25.1.1) does not run under the Triton that PyTorch brings,
and by default drops small gradients.

This file imports Triton, so it must not be imported on a CPU-only machine.
"""

import sys
from functools import cache

import torch
import torch.nn.functional as F
import triton
import triton.language as tl
from torch import Tensor

#: columns that a program holds at a time, in sixteen warps
_TILE = 8192


@triton.jit
def weighted_rows(  # type: ignore[no-untyped-def]
    block, targets, weights, losses, columns, differentiate: tl.constexpr, tile: tl.constexpr
):
    """One program per row. block (n, columns), targets (n,) int64, weights (n,) float32 → losses (n,) float32."""
    row = tl.program_id(0).to(tl.int64)
    logits = block + row * columns
    target = tl.load(targets + row)
    weight = tl.load(weights + row)
    right = tl.load(logits + target).to(tl.float32)
    # The target starts the maximum and stays out of the sum: its gradient, the others' share, keeps its digits where the
    # target's own share is nearly 1.
    top = right
    others = 0.0
    for start in range(0, columns, tile):
        where = start + tl.arange(0, tile)
        counts = (where < columns) & (where != target)
        x = tl.load(logits + where, mask=counts, other=-float("inf")).to(tl.float32)
        higher = tl.maximum(top, tl.max(x, axis=0))
        others = others * tl.exp(top - higher) + tl.sum(tl.exp(x - higher), axis=0)
        top = higher
    whole = others + tl.exp(right - top)
    tl.store(losses + row, weight * (tl.log(whole) + (top - right)))
    if differentiate:
        scale = weight / whole
        for start in range(0, columns, tile):
            where = start + tl.arange(0, tile)
            x = tl.load(logits + where, mask=where < columns, other=-float("inf")).to(tl.float32)
            gradient = tl.where(where == target, -others, tl.exp(x - top)) * scale
            tl.store(logits + where, gradient.to(block.dtype.element_ty), mask=where < columns)


def shape_of(columns: int) -> dict[str, int]:
    """The tile and the warps that the kernel takes for so many columns."""
    tile = min(_TILE, triton.next_power_of_2(columns))
    return {"tile": tile, "num_warps": max(tile // 512, 1)}


def cross_entropy_(block: Tensor, targets: Tensor, weights: Tensor, differentiate: bool) -> Tensor:
    """weights · (−log softmax(block)[targets]) of each row, (n,) float32 in nats.

    block (n, V) float32 or bf16, contiguous; targets (n,) int64 below V; weights (n,) float32. If ``differentiate``, the block
    has become weights · (softmax − one-hot), rounded to its dtype at the end. ValueError for a block that is not contiguous.
    """
    if not block.is_contiguous():
        raise ValueError(f"logits {tuple(block.shape)} with strides {block.stride()}: must be contiguous")
    rows, columns = block.shape
    losses = torch.empty(rows, dtype=torch.float32, device=block.device)
    if rows:
        # Triton launches on the current device, whatever its arguments lie on
        with torch.cuda.device_of(block):
            weighted_rows[(rows,)](
                block, targets.contiguous(), weights.contiguous(), losses, columns, differentiate, **shape_of(columns)
            )
    return losses


@cache
def works(device: torch.device, dtype: torch.dtype) -> bool:
    """Whether the kernel runs on ``device`` and is right there, tried on a small block of ``dtype``; if not, stderr says why.

    Triton needs a compiler for C and a GPU that it knows, which PyTorch's own operations do without.
    """
    logits = (torch.arange(3 * 301, device=device) % 83).view(3, 301).to(dtype) / 8
    targets, weights = torch.tensor([0, 300, 7], device=device), torch.tensor([1.0, 0.0, 2.5], device=device)
    log_shares = logits.double().log_softmax(dim=1)
    expected = -weights * log_shares.gather(1, targets[:, None]).squeeze(1)
    gradient = weights[:, None] * (log_shares.exp() - F.one_hot(targets, logits.shape[1]))
    try:
        losses = cross_entropy_(logits, targets, weights, True)
        torch.testing.assert_close(losses.double(), expected, rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(logits.double(), gradient, rtol=1e-2, atol=1e-5)
    except Exception as error:
        reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
        print(
            f"the loss is computed without its own kernel, which does not work on {device}: {reason}", file=sys.stderr
        )
        return False
    return True
