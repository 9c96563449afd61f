"""On an accelerator: the same loss as on the CPU, bf16 and compiled training, and no surprise in the CLIP path."""

from __future__ import annotations

import pytest
import torch
import toy

from mdc.models.build import build_model
from mdc.objectives.objective import build_objective
from mdc.training.optimizer import build_optimizer
from mdc.training.trainer import to_device

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
        model = build_model(toy.METHODS[method], toy.BACKBONE, toy.PROTOCOL, toy.V, 77, seed=0).to(device)
        objective = build_objective(model, toy.METHODS[method], toy.PROTOCOL, toy.MASK, 8, "fp32")
        losses.append(float(objective.backward(to_device(batch, device), 1)["loss"]))
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)


@pytest.mark.parametrize("method", ["clip", "arc", "mdc"])
def test_bf16_compiled_training_learns(method: str) -> None:
    model = build_model(toy.METHODS[method], toy.BACKBONE, toy.PROTOCOL, toy.V, 77, seed=0).to(CUDA)
    model.encoder.compile()
    model.text.compile(dynamic=True)
    objective = build_objective(model, toy.METHODS[method], toy.PROTOCOL, toy.MASK, 8, "bf16")
    optimizer = build_optimizer(model, toy.recipe(lr=3e-3, weight_decay=0.0), toy.PROTOCOL)
    batch = to_device(toy.batch(8), CUDA)
    losses = []
    for _ in range(60):
        losses.append(float(objective.backward(batch, 1)["loss"]))
        optimizer.step()
        optimizer.zero_grad()
        objective.after_step()
    assert losses[-1] < 0.5 * losses[0]
