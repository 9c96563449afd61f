"""The chunked, weighted cross-entropy against PyTorch's own on all logits at once."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from mdc.models.cross_entropy import weighted_cross_entropy_sum


def _case(rows: int, dtype: torch.dtype = torch.float64) -> tuple[torch.Tensor, ...]:
    generator = torch.Generator().manual_seed(rows)
    hidden = torch.randn(rows, 12, generator=generator, dtype=dtype).requires_grad_()
    matrix = torch.randn(31, 12, generator=generator, dtype=dtype).requires_grad_()
    targets = torch.randint(31, (rows,), generator=generator)
    weights = torch.rand(rows, generator=generator, dtype=torch.float32) * 3
    return hidden, matrix, targets, weights


@pytest.mark.parametrize("rows", [1, 7, 64, 65])
@pytest.mark.parametrize("chunk", [1, 16, 64, 1000])
def test_value_and_gradients(rows: int, chunk: int) -> None:
    hidden, matrix, targets, weights = _case(rows, torch.float32)
    loss = weighted_cross_entropy_sum(hidden, matrix, targets, weights, chunk)
    (2.5 * loss).backward()
    got = hidden.grad.clone(), matrix.grad.clone()
    hidden.grad = matrix.grad = None
    # the reference in double precision
    h64, m64 = hidden.detach().double().requires_grad_(), matrix.detach().double().requires_grad_()
    reference = (weights.double() * F.cross_entropy(h64 @ m64.t(), targets, reduction="none")).sum()
    (2.5 * reference).backward()
    assert torch.allclose(loss.double(), reference, rtol=1e-5)
    assert torch.allclose(got[0].double(), h64.grad, rtol=1e-4, atol=1e-5)
    assert torch.allclose(got[1].double(), m64.grad, rtol=1e-4, atol=1e-5)


def test_no_rows_give_zero_loss_and_zero_gradients() -> None:
    hidden, matrix, targets, weights = _case(3, torch.float32)
    loss = weighted_cross_entropy_sum(hidden[:0], matrix, targets[:0], weights[:0])
    loss.backward()
    assert loss.item() == 0.0
    assert torch.equal(matrix.grad, torch.zeros_like(matrix))
    assert torch.equal(hidden.grad, torch.zeros_like(hidden))


def test_bf16_autocast_stays_near_fp32() -> None:
    hidden, matrix, targets, weights = _case(64, torch.float32)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        low = weighted_cross_entropy_sum(hidden, matrix, targets, weights)
    low.backward()
    assert hidden.grad.dtype == torch.float32 and matrix.grad.dtype == torch.float32
    low_grad = matrix.grad.clone()
    hidden.grad = matrix.grad = None
    full = weighted_cross_entropy_sum(hidden, matrix, targets, weights)
    full.backward()
    assert torch.allclose(low, full, rtol=2e-2)
    assert (low_grad - matrix.grad).norm() < 2e-2 * matrix.grad.norm()


def test_large_logits_do_not_overflow() -> None:
    hidden, matrix, targets, weights = _case(5, torch.float32)
    loss = weighted_cross_entropy_sum(hidden * 1e3, matrix, targets, weights)
    loss.backward()
    assert torch.isfinite(loss) and torch.isfinite(hidden.grad).all()
