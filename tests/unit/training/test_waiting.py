"""A step waits for the device nowhere, which is counted operation by operation; gradients are summed while it still runs."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import test_mask_and_replace_objective as diffusion
import torch
import toy
from test_mask_and_replace_objective import CFG, MCS
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from mdc.data.loader.batch import CaptionBatch
from mdc.plan.config.pretrain import Average
from mdc.plan.processes.group import ALONE, Group
from mdc.plan.records import UserError
from mdc.training import watch
from mdc.training.average import AveragedWeights
from mdc.training.gradient_sums import GradientSums
from mdc.training.optimizer import build_optimizer
from mdc.training.trainer import total_norm
from mdc.training.watch import Watch

#: a value, or how many values there are, has to be known on the host
LOOKS = {
    "_local_scalar_dense", "nonzero", "masked_select", "_unique", "_unique2", "unique_dim", "unique_consecutive", "equal",
    "is_nonzero", "repeat_interleave",
}  # fmt: skip
#: numbers of the host become a tensor, whose way to a device is waited for
BRINGS = {"lift_fresh", "lift_fresh_copy"}


class Waits(TorchDispatchMode):
    """Counts the operations that would wait, by name."""

    def __init__(self) -> None:
        super().__init__()
        self.found: Counter[str] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.overloadpacket.__name__
        if name in LOOKS or name in BRINGS:
            self.found[name] += 1
        indexed = args[1] if name in ("index", "index_put", "index_put_") else ()
        if any(one is not None and one.dtype == torch.bool for one in indexed):
            self.found[name] += 1
        return func(*args, **(kwargs or {}))


def test_what_waits_is_counted() -> None:
    x = torch.arange(6.0)
    with Waits() as waits:
        _ = float(x.sum()), x[x > 2], (x > 2).nonzero(), x.new_tensor([1.0, 2.0]), torch.tensor(3.0), x.unique()
        _ = bool((x > 2).all()), x.mul(2).sum()
    assert waits.found == {"_local_scalar_dense": 2, "index": 1, "nonzero": 1, "lift_fresh": 2, "_unique2": 1}


def objective_and_batch(method: str | dict[str, Any]) -> tuple[Any, CaptionBatch]:
    """Of a method by its name, or of mask and replace with such a condition."""
    if isinstance(method, dict):
        return diffusion.objective(diffusion.method(**method)), diffusion.batch()
    objective = toy.build_objective(toy.model(method), toy.METHODS[method], toy.PROTOCOL, toy.MASK, 8, "fp32", 1.0)
    return objective, toy.batch(8)


@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize("method", [*toy.METHODS, {}, CFG, MCS], ids=str)
def test_no_step_waits(method: str | dict[str, Any], parts: int) -> None:
    objective, batch = objective_and_batch(method)
    model, backbone = objective.model, toy.BACKBONE if isinstance(method, str) else diffusion.BACKBONE
    optimizer = build_optimizer(model, toy.recipe(), toy.PROTOCOL)
    average = AveragedWeights(model, Average(decay=0.99, every=1))
    prepared = objective.prepare(batch, parts)
    with Waits() as waits:
        objective.operations(prepared, backbone)
        measured = objective.backward(prepared)
        norm = total_norm([p for p in model.parameters() if p.requires_grad], 1.0)
        optimizer.step()
        optimizer.zero_grad()
        average.after_step(1)
        objective.after_step()
        torch.stack([value.detach().to(torch.float64) for value in (*measured.values(), norm)])
    assert not waits.found
    assert all(isinstance(value, torch.Tensor) and value.ndim == 0 for value in measured.values())


def values(loss: float, norm: float = 1.0) -> dict[str, torch.Tensor]:
    return {"loss": torch.tensor(loss), "grad_norm": torch.tensor(norm)}


def test_numbers_are_read_in_their_order_some_steps_later(monkeypatch: pytest.MonkeyPatch) -> None:
    late = Watch(torch.device("cpu"), ALONE)
    monkeypatch.setattr(late, "_behind", watch.BEHIND)
    found = [[one.step for one in late.add(step, values(step), ["key"])] for step in range(7)]
    assert found == [[]] * watch.BEHIND + [[0], [1], [2]]
    assert [(one.step, one.values["loss"]) for one in late.settled()] == [(3, 3.0), (4, 4.0), (5, 5.0), (6, 6.0)]
    assert late.settled() == []


@pytest.mark.parametrize(
    ("loss", "norm", "what"), [(float("nan"), 1.0, "loss is nan"), (1.0, float("inf"), "norm is inf")]
)
def test_what_is_not_finite_stops_the_run_before_anything_is_kept(
    monkeypatch: pytest.MonkeyPatch, loss: float, norm: float, what: str
) -> None:
    late = Watch(torch.device("cpu"), ALONE)
    monkeypatch.setattr(late, "_behind", watch.BEHIND)
    late.add(0, values(1.0), ["a"])
    late.add(1, values(loss, norm), ["b", "c"])
    late.add(2, values(1.0), ["d"])
    with pytest.raises(UserError, match=rf"step 1: .*{what}; samples of this batch: b, c;"):
        late.settled()


# --- gradients are summed while the backward pass still runs ----------------------------------------------------------


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
