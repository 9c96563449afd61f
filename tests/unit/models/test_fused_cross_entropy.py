"""The fused cross-entropy without a GPU: in Triton's interpreter, and through Triton's compiler."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow  # both start a compiler
SUPPORT = Path(__file__).resolve().parents[2] / "support"


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


def test_it_compiles_for_gpus(tmp_path: Path) -> None:
    """To the machine code of an A100 and of an H100 or H200, which needs neither."""
    pytest.importorskip("triton")
    environment = {**os.environ, "TRITON_CACHE_DIR": str(tmp_path), "TRITON_INTERPRET": "0"}
    found = subprocess.run([sys.executable, "-c", COMPILE], capture_output=True, text=True, env=environment)
    assert found.returncode == 0, found.stderr[-5000:]
