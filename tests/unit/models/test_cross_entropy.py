"""The chunked and the fused cross-entropy against PyTorch's own on all logits at once."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

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


def test_without_gradients_none_are_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three products of matrices with gradients, one without; nothing as large as a gradient is allocated."""
    hidden, matrix, targets, weights = _case(64, torch.float32)
    calls: list[str] = []

    class Counted(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            calls.append(str(func))
            return func(*args, **(kwargs or {}))

    def products() -> int:
        calls.clear()
        with Counted():
            values.append(weighted_cross_entropy_sum(hidden, matrix, targets, weights))
        return sum("mm" in call for call in calls)

    values: list[torch.Tensor] = []
    assert products() == 3 and values[-1].requires_grad
    with torch.no_grad():
        assert products() == 1 and not any("zeros_like" in call or "empty_like" in call for call in calls)
    hidden.requires_grad_(False)
    matrix.requires_grad_(False)
    assert products() == 1 and not values[-1].requires_grad
    assert values[0].detach() == values[1] == values[2]


def test_large_logits_do_not_overflow() -> None:
    hidden, matrix, targets, weights = _case(5, torch.float32)
    loss = weighted_cross_entropy_sum(hidden * 1e3, matrix, targets, weights)
    loss.backward()
    assert torch.isfinite(loss) and torch.isfinite(hidden.grad).all()


# --- the fused one, without a GPU -------------------------------------------------------------------------------------


SUPPORT = Path(__file__).resolve().parents[2] / "support"


@pytest.mark.slow  # it starts a compiler
def test_in_tritons_interpreter() -> None:
    """Its cases against float64, on CPU tensors; Triton reads the variable when it is imported, so in a process of their own."""
    pytest.importorskip("triton")
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", str(SUPPORT / "interpreted_cross_entropy.py")]
    found = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, "TRITON_INTERPRET": "1", "PYTEST_ADDOPTS": ""}
    )
    assert found.returncode == 0, found.stdout[-5000:] + found.stderr[-2000:]
    assert " passed" in found.stdout and "skipped" not in found.stdout


COMPILE = """
from itertools import product
import torch, triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from mdc.models.fused_cross_entropy import shape_of, weighted_rows

names = ["block", "targets", "weights", "losses", "columns", "differentiate", "tile"]
for capability, logits, columns, differentiate in product((80, 90), ("bf16", "fp32"), (1, 49_409), (False, True)):
    shape = shape_of(columns)
    types = [f"*{logits}", "*i64", "*fp32", "*fp32", "i32", "constexpr", "constexpr"]
    constants = {"differentiate": differentiate, "tile": shape["tile"]}
    source = ASTSource(weighted_rows, dict(zip(names, types)), constants)
    made = triton.compile(source, GPUTarget("cuda", capability, 32), {"num_warps": shape["num_warps"]})
    assert made.asm["cubin"] and f".target sm_{capability}" in made.asm["ptx"]
    assert ".local" not in made.asm["ptx"], "registers do not suffice"
"""


@pytest.mark.slow  # it starts a compiler
def test_it_compiles_for_gpus(tmp_path: Path) -> None:
    """To the machine code of an A100 and of an H100 or H200, which needs neither."""
    pytest.importorskip("triton")
    environment = {**os.environ, "TRITON_CACHE_DIR": str(tmp_path), "TRITON_INTERPRET": "0"}
    found = subprocess.run([sys.executable, "-c", COMPILE], capture_output=True, text=True, env=environment)
    assert found.returncode == 0, found.stderr[-5000:]
