"""A step waits for the device nowhere, which is counted operation by operation; gradients are summed while it still runs."""

from collections import Counter
from typing import Any

import pytest
import torch
import toy
import toy_diffusion as diffusion
from torch.utils._python_dispatch import TorchDispatchMode
from toy_diffusion import CFG, MCS

from mdc.data.loader.batch import CaptionBatch
from mdc.plan.config.pretrain import Average
from mdc.plan.processes.group import SINGLE_PROCESS
from mdc.plan.records import UserError
from mdc.training import metrics
from mdc.training.average import AveragedWeights
from mdc.training.metrics import DeferredMetrics
from mdc.training.trainer import build_optimizer, total_norm

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
    model = objective.model
    optimizer = build_optimizer(model, toy.recipe(), toy.PROTOCOL)
    average = AveragedWeights(model, Average(decay=0.99, every=1))
    prepared = objective.prepare(batch, parts)
    with Waits() as waits:
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
    late = DeferredMetrics(torch.device("cpu"), SINGLE_PROCESS)
    monkeypatch.setattr(late, "_lag", metrics.MAX_LAG)
    found = [[one.step for one in late.add(step, values(step), ["key"])] for step in range(7)]
    assert found == [[]] * metrics.MAX_LAG + [[0], [1], [2]]
    assert [(one.step, one.values["loss"]) for one in late.flush()] == [(3, 3.0), (4, 4.0), (5, 5.0), (6, 6.0)]
    assert late.flush() == []


@pytest.mark.parametrize(
    ("loss", "norm", "what"), [(float("nan"), 1.0, "loss is nan"), (1.0, float("inf"), "norm is inf")]
)
def test_what_is_not_finite_stops_the_run_before_anything_is_kept(
    monkeypatch: pytest.MonkeyPatch, loss: float, norm: float, what: str
) -> None:
    late = DeferredMetrics(torch.device("cpu"), SINGLE_PROCESS)
    monkeypatch.setattr(late, "_lag", metrics.MAX_LAG)
    late.add(0, values(1.0), ["a"])
    late.add(1, values(loss, norm), ["b", "c"])
    late.add(2, values(1.0), ["d"])
    with pytest.raises(UserError, match=rf"step 1: .*{what}; samples of this batch: b, c;"):
        late.flush()
