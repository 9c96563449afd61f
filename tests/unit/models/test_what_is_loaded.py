"""Seconds of every start: what a probe, a step and an encoder on a CPU never load."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import sys, torch
from torch import nn
before = set(sys.modules)
def loaded():
    heavy = {"transformers", "torchvision", "torch._dynamo", "triton", "mdc.models.fused_cross_entropy"}
    return heavy & (set(sys.modules) - before)
import mdc.evaluation.probe
assert not loaded(), loaded()
from mdc.models.cross_entropy import weighted_cross_entropy_sum
hidden, matrix = torch.randn(4, 3, requires_grad=True), torch.randn(5, 3)
weighted_cross_entropy_sum(hidden, matrix, torch.tensor([0, 1, 2, 4]), torch.ones(4)).backward()
from mdc.training.adamw import AdamW, Group
weights = nn.Linear(3, 3)
weights(torch.ones(2, 3)).sum().backward()
adam = AdamW([Group(list(weights.parameters()), 0.1)], 1e-3)
adam.step()
adam.zero_grad()
sys.path.insert(0, "tests/support")
import toy
toy.model("mdc")
assert not loaded(), loaded()
torch.optim.AdamW(weights.parameters())
print("torch._dynamo" in sys.modules)
"""


def test_no_compiler_and_no_library_of_models_is_loaded() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "True", "PyTorch's AdamW has become light; use it"
