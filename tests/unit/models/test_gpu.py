"""On an accelerator: the same loss as on the CPU, bf16 and compiled training, nccl, and claiming a real device."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import toy

from mdc.processes.gradient_sums import GradientSums
from mdc.processes.group import ALONE, Group
from mdc.training.optimizer import build_optimizer

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU that PyTorch can see"),
]
CUDA = torch.device("cuda")


@pytest.mark.parametrize("method", ["clip", "arc", "mdc"])
def test_loss_equals_the_cpus(method: str) -> None:
    batch = toy.batch(8)
    losses = []
    for device in (torch.device("cpu"), CUDA):
        model = toy.build_model(toy.METHODS[method], toy.BACKBONE, toy.PROTOCOL, toy.V, 77, seed=0).to(device)
        objective = toy.build_objective(model, toy.METHODS[method], toy.PROTOCOL, toy.MASK, 8, "fp32")
        losses.append(float(toy.backward(objective, batch, device=device)["loss"]))
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)


@pytest.mark.parametrize("method", ["clip", "arc", "mdc"])
def test_bf16_compiled_training_learns(method: str) -> None:
    model = toy.build_model(toy.METHODS[method], toy.BACKBONE, toy.PROTOCOL, toy.V, 77, seed=0).to(CUDA)
    model.encoder.compile()
    model.text.compile(dynamic=True)
    objective = toy.build_objective(model, toy.METHODS[method], toy.PROTOCOL, toy.MASK, 8, "bf16")
    optimizer = build_optimizer(model, toy.recipe(lr=3e-3, weight_decay=0.0), toy.PROTOCOL)
    batch = toy.batch(8)
    losses = []
    for _ in range(60):
        losses.append(float(toy.backward(objective, batch, device=CUDA)["loss"]))
        optimizer.step()
        optimizer.zero_grad()
        objective.after_step()
    assert losses[-1] < 0.5 * losses[0]


def test_nccl_sums_and_gathers(monkeypatch: pytest.MonkeyPatch) -> None:
    """A group of one, through nccl all the same: the path that several GPUs take."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    device = torch.device("cuda", 0)
    torch.distributed.init_process_group(
        "nccl", init_method=f"tcp://127.0.0.1:{port}", rank=0, world_size=1, device_id=device
    )
    try:
        losses, gradients = [], []
        for group in (ALONE, Group(0, 1)):
            model = toy.build_model(toy.METHODS["clip"], toy.BACKBONE, toy.PROTOCOL, toy.V, 77, seed=0).to(device)
            monkeypatch.setattr(Group, "alone", group is ALONE)
            objective = toy.build_objective(model, toy.METHODS["clip"], toy.PROTOCOL, toy.MASK, 8, "fp32", 1.0, group)
            sums = GradientSums(group, list(model.parameters()))
            sums.begin(2)
            losses.append(float(toy.backward(objective, toy.batch(8), 2, device)["loss"]))
            sums.finish()
            if group is not ALONE:
                assert group.gather_objects("key") == ["key"]
            gradients.append(torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None]))
        assert losses[0] == pytest.approx(losses[1], rel=1e-5)
        assert torch.allclose(gradients[0], gradients[1], atol=1e-5)
    finally:
        torch.distributed.destroy_process_group()


def test_a_claimed_device_is_the_only_one_that_pytorch_sees(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from mdc.processes.gpus import claim_gpus\n"
        "claim_gpus(1, 'mdc test', Path(sys.argv[1]))\n"
        "import torch; assert torch.cuda.device_count() == 1; torch.ones(1, device='cuda:0')"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "locks")], check=True, env={**os.environ})
