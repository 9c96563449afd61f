"""The kernel of the fused cross-entropy on CPU tensors; run by pytest in a process whose environment says TRITON_INTERPRET=1,
which Triton reads when it is imported."""

import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from mdc.models import cross_entropy, fused_cross_entropy
from mdc.models.cross_entropy import weighted_cross_entropy_sum
from mdc.models.fused_cross_entropy import cross_entropy_, works

BOTH = pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["fp32", "bf16"])
CPU = torch.device("cpu")


def case(rows: int, columns: int, dtype: torch.dtype, scale: float = 3.0) -> tuple[Tensor, Tensor, Tensor]:
    """Logits, targets and weights; the targets are the first column, the last one, and then any."""
    generator = torch.Generator().manual_seed(columns)
    logits = (scale * torch.randn(rows, columns, generator=generator)).to(dtype)
    targets = torch.randint(columns, (rows,), generator=generator)
    targets[:2] = torch.tensor([0, columns - 1])[:rows]
    return logits, targets, 2 * torch.rand(rows, generator=generator)


def exactly(logits: Tensor, targets: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    """Losses and gradient by PyTorch's own cross-entropy and autograd in float64."""
    exact = logits.double().requires_grad_()
    losses = weights.double() * F.cross_entropy(exact, targets, reduction="none")
    losses.sum().backward()
    assert exact.grad is not None
    return losses.detach(), exact.grad


def assert_right(logits: Tensor, targets: Tensor, weights: Tensor) -> None:
    """The kernel against float64: a gradient in bf16 is at most the next number to the rounded one."""
    losses, gradient = exactly(logits, targets, weights)
    block = logits.clone()
    found = cross_entropy_(block, targets, weights, True)
    torch.testing.assert_close(found.double(), losses, rtol=1e-6, atol=1e-6)
    if logits.dtype == torch.float32:
        torch.testing.assert_close(block.double(), gradient, rtol=1e-5, atol=1e-12)
        torch.testing.assert_close(block.double(), gradient, rtol=0, atol=1e-6)
    else:
        assert block.dtype == torch.bfloat16
        rounded = gradient.to(torch.bfloat16)
        # numbers of one sign are ordered as their bits are; below the least normal number of a float32 there is nothing to hold
        steps = (block.view(torch.int16).int() - rounded.view(torch.int16).int()).abs()
        small = gradient.abs() < 1e-37
        assert (steps[~small] <= 1).all(), f"{int(steps[~small].max())} steps apart"
        assert (block[small].abs() < 2e-37).all()


@BOTH
@pytest.mark.parametrize(
    ("rows", "columns"), [(1, 1), (5, 7), (6, 4096), (6, 4097), (3, 8192), (3, 8193), (3, 49_408), (3, 49_409)]
)
def test_losses_and_gradients(rows: int, columns: int, dtype: torch.dtype) -> None:
    assert_right(*case(rows, columns, dtype))


@BOTH
@pytest.mark.parametrize("columns", [7, 8193])
def test_huge_logits(columns: int, dtype: torch.dtype) -> None:
    logits, targets, weights = case(4, columns, dtype, scale=1e4)
    logits[2, targets[2]] = 2 * logits.abs().max()  # a target that is certain: its gradient is exactly nothing
    assert_right(logits, targets, weights)
    # all logits far from 0, and near each other
    assert_right(torch.full_like(logits, -1e4) + case(4, columns, dtype)[0], targets, weights)


@BOTH
def test_a_target_that_is_nearly_certain_keeps_the_digits_of_its_gradient(dtype: torch.dtype) -> None:
    """1 − p is 1e-9 and less, which p itself cannot tell from 0 in float32."""
    logits, targets, weights = case(4, 300, dtype, scale=0.5)
    logits[torch.arange(4), targets] = 28.0
    assert 0 < exactly(logits, targets, weights)[1].gather(1, targets[:, None]).abs().max() < 1e-8
    assert_right(logits, targets, weights)


@BOTH
def test_a_weight_of_zero_leaves_nothing(dtype: torch.dtype) -> None:
    logits, targets, weights = case(4, 4097, dtype)
    weights[1:3] = 0.0
    assert_right(logits, targets, weights)
    losses = cross_entropy_(logits, targets, weights, True)
    assert (losses == 0).tolist() == (logits == 0).all(dim=1).tolist() == [False, True, True, False]


@BOTH
def test_no_rows(dtype: torch.dtype) -> None:
    logits, targets, weights = case(2, 7, dtype)
    assert cross_entropy_(logits[:0], targets[:0], weights[:0], True).shape == (0,)


@BOTH
def test_without_a_gradient_the_block_stays(dtype: torch.dtype) -> None:
    logits, targets, weights = case(4, 8193, dtype)
    block = logits.clone()
    losses = cross_entropy_(block, targets, weights, False)
    assert torch.equal(block, logits)
    assert torch.equal(losses, cross_entropy_(block, targets, weights, True)) and not torch.equal(block, logits)


@BOTH
@pytest.mark.parametrize("bad", [math.nan, math.inf])
@pytest.mark.parametrize("column", [0, 3, 8192])
def test_a_logit_that_is_not_finite_makes_its_row_not_finite(column: int, bad: float, dtype: torch.dtype) -> None:
    logits, _, weights = case(3, 8193, dtype)
    logits[1, column] = bad
    losses = cross_entropy_(logits, torch.tensor([3, 3, 3]), weights, True)
    assert losses.isfinite().tolist() == [True, False, True]


def test_rows_that_do_not_follow_each_other_are_refused() -> None:
    logits, targets, weights = case(4, 8, torch.float32)
    with pytest.raises(ValueError, match="must be contiguous"):
        cross_entropy_(logits[:, :7], targets, weights, True)


@BOTH
@pytest.mark.parametrize("chunk", [3, 8, 1000])
def test_through_the_chunks(chunk: int, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    """Value and both gradients of the chunked sum, with the kernel and without."""
    generator = torch.Generator().manual_seed(chunk)
    inputs = torch.randn(8, 12, generator=generator), torch.randn(31, 12, generator=generator)
    targets = torch.randint(31, (8,), generator=generator)
    weights = torch.rand(8, generator=generator)

    def computed() -> list[Tensor]:
        hidden, matrix = (one.clone().requires_grad_() for one in inputs)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=dtype == torch.bfloat16):
            loss = weighted_cross_entropy_sum(hidden, matrix, targets, weights, chunk)
        (loss / 7).backward()
        assert hidden.grad is not None and matrix.grad is not None
        with torch.no_grad():
            again = weighted_cross_entropy_sum(hidden, matrix, targets, weights, chunk)
        return [loss.detach(), again, hidden.grad, matrix.grad]

    plain = computed()
    calls: list[torch.dtype] = []

    def counted(block: Tensor, *rest: Any) -> Tensor:
        calls.append(block.dtype)
        return cross_entropy_(block, *rest)

    monkeypatch.setattr(cross_entropy, "kernel_for", lambda device, computed: counted)
    fused = computed()
    of_no_grad = -(-8 // chunk)
    assert calls == [dtype] * of_no_grad + [torch.float32] * of_no_grad
    near = 1e-5 if dtype == torch.float32 else 1e-2
    for one, other in zip(fused, plain, strict=True):
        torch.testing.assert_close(one, other, rtol=near, atol=near * float(other.abs().max()))


def test_a_kernel_that_is_wrong_or_does_not_run_is_not_used(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for dtype in (torch.float32, torch.bfloat16):
        assert works.__wrapped__(CPU, dtype)
    assert capsys.readouterr().err == ""
    right = cross_entropy_

    def too_large(block: Tensor, *rest: Any) -> Tensor:
        losses = right(block, *rest)
        block *= 1.05
        return losses

    def fails(*_: Any) -> Tensor:
        raise RuntimeError("Failed to find C compiler.\nPlease specify one.")

    for spoiled, said in ((too_large, "Tensor-likes are not close"), (fails, "Failed to find C compiler.\n")):
        monkeypatch.setattr(fused_cross_entropy, "cross_entropy_", spoiled)
        assert not works.__wrapped__(CPU, torch.bfloat16)
        assert said in capsys.readouterr().err
