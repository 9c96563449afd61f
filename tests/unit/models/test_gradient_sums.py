"""Gradients are summed bucket by bucket, in one order, while the backward pass still runs."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from mdc.processes.gradient_sums import GradientSums
from mdc.processes.group import ALONE, Group


class Net(nn.Module):
    """Three layers, one of which is used twice, and a single number that is used apart from them."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.third = nn.Linear(5, 6), nn.Linear(6, 6), nn.Linear(6, 3)
        self.unused = nn.Linear(2, 2)
        self.scale = nn.Parameter(torch.tensor(0.5))

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.third(self.second(self.second(self.first(x).tanh()).tanh()))
        return found


class Network:
    """In the place of the other process, which has the same gradients: sums are doubles. Notes what was ready when."""

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self.sent: list[int] = []
        self.first_was_ready: list[bool] = []
        self.dtypes: set[torch.dtype] = set()

    def all_reduce(self, flat: Tensor, async_op: bool = False) -> Any:
        self.sent.append(flat.numel())
        self.first_was_ready.append(next(self.model.parameters()).grad is not None)
        self.dtypes.add(flat.dtype)

        class Work:
            def wait(self) -> None:
                flat.mul_(2)

        return Work()


def plain(parts: int) -> dict[str, Tensor]:
    torch.manual_seed(0)
    model = Net()
    for part in range(parts):
        model(torch.full((2, 5), 0.1 * (part + 1))).square().sum().backward()
    (3 * model.scale).backward()
    return {name: 2 * p.grad for name, p in model.named_parameters() if p.grad is not None}


@pytest.mark.parametrize("dtype", [None, torch.bfloat16])
@pytest.mark.parametrize("parts", [1, 3])
@pytest.mark.parametrize("size", [1, 40, 10_000])
def test_sums_are_those_of_all_processes(
    monkeypatch: pytest.MonkeyPatch, size: int, parts: int, dtype: torch.dtype | None
) -> None:
    torch.manual_seed(0)
    model = Net()
    network = Network(model)
    monkeypatch.setattr(torch.distributed, "all_reduce", network.all_reduce)
    sums = GradientSums(Group(0, 2), list(model.parameters()), dtype, size)
    for _ in range(2):  # the second step begins anew
        model.zero_grad(set_to_none=True)
        network.sent.clear()
        network.first_was_ready.clear()
        sums.begin(parts)
        (3 * model.scale).backward()
        for part in range(parts):
            assert not any(network.sent), "a gradient to which more is added is not sent"
            model(torch.full((2, 5), 0.1 * (part + 1))).square().sum().backward()
        sums.finish()
        found = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
        wanted = plain(parts)
        assert found.keys() == wanted.keys() and "unused.weight" not in found
        for name, gradient in wanted.items():
            rounding = 0.0 if dtype is None else 2**-7
            assert torch.allclose(found[name], gradient, rtol=rounding, atol=0), name
        assert sum(network.sent) == sum(gradient.numel() for gradient in wanted.values())
        assert network.dtypes == {dtype or torch.float32}


def test_the_last_layers_are_sent_before_the_first_is_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    model = Net()
    del model.unused  # what never gets a gradient is waited for until the end, and what comes after it too
    network = Network(model)
    monkeypatch.setattr(torch.distributed, "all_reduce", network.all_reduce)
    sums = GradientSums(Group(0, 2), list(model.parameters()), size=40)
    sums.begin(1)
    model(torch.ones(2, 5)).sum().backward()
    assert network.first_was_ready[0] is False and len(network.sent) >= 2
    sums.finish()


def test_alone_nothing_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    model = Net()
    network = Network(model)
    monkeypatch.setattr(torch.distributed, "all_reduce", network.all_reduce)
    sums = GradientSums(ALONE, list(model.parameters()))
    sums.begin(1)
    model(torch.ones(2, 5)).sum().backward()
    sums.finish()
    assert not network.sent
