"""On an accelerator: losses and gradients as on the CPU, bf16 and compiled training, steps that wait for nothing, batches that
are copied beside them, resuming, nccl, and claiming a real device."""

import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import toy
from torch import Tensor
from torch.utils._pytree import tree_leaves

from mdc.data.loader.batch import CaptionBatch
from mdc.models import cross_entropy
from mdc.models.recomputing import compile_layers, recompute_layers
from mdc.plan.processes.group import SINGLE_PROCESS, Group
from mdc.plan.records import read_json_lines
from mdc.training.metrics import MAX_LAG, DeferredMetrics
from mdc.training.objectives.objective import Objective
from mdc.training.prefetch import prefetch_to_device
from mdc.training.trainer import build_optimizer, total_norm

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU that PyTorch can see"),
]
# with a number, as tensors there say it
CUDA = torch.device("cuda", 0)
EVERY = pytest.mark.parametrize("method", ["clip", "arc", "mdc", "mcd", *toy.NEIGHBOURS])


@pytest.fixture(autouse=True)
def _full_fp32(monkeypatch: pytest.MonkeyPatch) -> None:
    """cuDNN multiplies fp32 as TF32 unless it is told not to, and then patches differ from a CPU's from the third digit on."""
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)


def made(method: str, device: torch.device, precision: str) -> tuple[Any, Objective]:
    """The model of a method, on ``device``, and its objective."""
    model = toy.model(method).to(device)
    return model, toy.objective(method, model, precision)


def batch(seed: int = 0) -> CaptionBatch:
    """With the draws that mask and replace asks for besides."""
    return toy.batch(8, seed, draws=True)


def gradients(model: torch.nn.Module) -> Tensor:
    """All of them, one after the other, on the CPU."""
    return torch.cat([p.grad.flatten().cpu() for p in model.parameters() if p.grad is not None])


def apart(one: Tensor, other: Tensor) -> float:
    """The norm of the difference, over that of ``other``, which is not 0."""
    assert other.norm() > 0
    return float((one.double() - other.double()).norm() / other.double().norm())


@EVERY
def test_loss_and_gradients_equal_the_cpus(method: str) -> None:
    losses, found = [], []
    for device in (torch.device("cpu"), CUDA):
        model, objective = made(method, device, "fp32")
        losses.append(float(toy.backward(objective, batch(), device=device)["loss"]))
        found.append(gradients(model))
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)
    assert apart(found[1], found[0]) < 1e-3


# the least loss of a set of pieces is its entropy
@pytest.mark.parametrize(
    "method", ["clip", "arc", "mdc", "mcd", *(name for name in toy.NEIGHBOURS if name != "superclass")]
)
def test_bf16_compiled_training_learns(method: str) -> None:
    model, objective = made(method, CUDA, "bf16")
    compile_layers(model)
    optimizer = build_optimizer(model, toy.recipe(lr=3e-3, weight_decay=0.0), toy.PROTOCOL)
    losses = []
    for _ in range(60):
        losses.append(float(toy.backward(objective, batch(), device=CUDA)["loss"]))
        optimizer.step()
        optimizer.zero_grad()
        objective.after_step()
    assert losses[-1] < 0.5 * losses[0]


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_the_cross_entropys_own_kernel_gives_what_pytorchs_operations_give(
    precision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 2,500 rows, the last chunk of which is shorter, and a vocabulary that fills no tile."""
    pytest.importorskip("triton")
    dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    assert cross_entropy.kernel_for(CUDA, dtype) is not None
    generator = torch.Generator().manual_seed(0)
    inputs = [torch.randn(rows, 64, generator=generator).to(CUDA) for rows in (2500, 8193)]
    targets = torch.randint(8193, (2500,), generator=generator).to(CUDA)
    weights = (3 * torch.rand(2500, generator=generator)).to(CUDA)

    def computed() -> list[Tensor]:
        hidden, matrix = (one.clone().requires_grad_() for one in inputs)
        with torch.autocast("cuda", dtype=torch.bfloat16, enabled=precision == "bf16"):
            loss = cross_entropy.weighted_cross_entropy_sum(hidden, matrix, targets, weights)
        (loss / 255).backward()
        assert hidden.grad is not None and matrix.grad is not None
        return [loss.detach(), hidden.grad, matrix.grad]

    fused = computed()
    with monkeypatch.context() as plainly:
        plainly.setattr(cross_entropy, "kernel_for", lambda device, dtype: None)
        plain = computed()
    for one, other in zip(fused, plain, strict=True):
        assert apart(one, other) < (1e-5 if precision == "fp32" else 1e-3)


@EVERY
def test_layers_computed_again_give_the_same_gradients_in_bf16(method: str) -> None:
    losses, found = [], []
    for again in (False, True):
        model, objective = made(method, CUDA, "bf16")
        if again:
            recompute_layers(model)
        losses.append(float(toy.backward(objective, batch(), 2, CUDA)["loss"]))
        found.append(gradients(model))
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    # sums over tokens of one piece, and over the places that read t, may be added in another order: bf16 rounds at 4e-3
    assert apart(found[1], found[0]) < 5e-4


@EVERY
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_no_steady_step_waits_for_the_gpu(method: str, precision: str) -> None:
    """PyTorch raises wherever it would wait, from the copy of a batch to what the step measured, which nobody reads yet."""
    model, objective = made(method, CUDA, precision)
    optimizer = build_optimizer(model, toy.recipe(), toy.PROTOCOL)
    metrics = DeferredMetrics(CUDA, SINGLE_PROCESS)
    batches = prefetch_to_device((batch(seed) for seed in range(MAX_LAG)), lambda one: objective.prepare(one, 2), CUDA)

    def step(number: int) -> None:
        here = next(batches)
        measured = objective.backward(here.prepared)
        norm = total_norm([p for p in model.parameters() if p.requires_grad], 1.0)
        metrics.add(number, {**measured, "grad_norm": norm}, here.keys)
        optimizer.step()
        optimizer.zero_grad()
        objective.after_step()

    # the first step tries and compiles the cross-entropy's kernel and makes Adam's state
    step(0)
    torch.cuda.set_sync_debug_mode("error")
    try:
        with pytest.raises(RuntimeError, match="synchroniz"):
            torch.ones((), device=CUDA).item()
        for number in range(1, MAX_LAG):
            step(number)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert len(metrics.flush()) == MAX_LAG


@EVERY
def test_batches_copied_beside_slow_steps_are_what_was_prepared(method: str) -> None:
    """Each is read late: the device sleeps, and the host is through with all batches before the first one is looked at."""
    _, objective = made(method, CUDA, "fp32")
    batches = [batch(seed) for seed in range(8)]
    seen: list[list[Tensor]] = []
    keys = []
    for one in prefetch_to_device(batches, lambda batch: objective.prepare(batch, 2), CUDA):
        torch.cuda._sleep(20_000_000)  # cycles: some 10 ms
        seen.append([leaf.clone() for leaf in tree_leaves(one.prepared) if isinstance(leaf, Tensor)])
        keys.append(one.keys)
        del one
    assert keys == [one.keys for one in batches]
    for copies, one in zip(seen, batches, strict=True):
        expected = [leaf for leaf in tree_leaves(objective.prepare(one, 2)) if isinstance(leaf, Tensor)]
        assert len(copies) == len(expected) > 5
        assert all(copy.device == CUDA for copy in copies)
        assert all(torch.equal(copy.cpu(), right) for copy, right in zip(copies, expected, strict=True))


def trained(method: str, state: Path, kill_at: int | None = None) -> list[int]:
    """Thirty steps of a run on the GPU, in bf16; the steps whose batches were asked for."""
    recipe = toy.recipe(precision="bf16", device="cuda", accumulation=2)
    return toy.trained(
        state, method, 30, recipe, kill_at=kill_at, batch_of=lambda step, _: batch(step), device=CUDA
    ).asked


@EVERY
def test_a_killed_run_resumes(method: str, tmp_path: Path) -> None:
    """From its last state, to the losses of a run that was never killed; rounding may differ, so not to the bit. A state comes as
    many steps after it was asked for as the device may lag behind."""
    assert trained(method, tmp_path / "whole") == list(range(30))
    with pytest.raises(toy.Killed):
        trained(method, tmp_path / "killed", kill_at=25)
    resumed_at, *_ = trained(method, tmp_path / "killed")
    assert 5 <= resumed_at <= 25
    whole, resumed = (read_json_lines(tmp_path / name / "log.jsonl") for name in ("whole", "killed"))
    assert [line["step"] for line in resumed] == list(range(1, 31))
    for one, other in zip(whole, resumed, strict=True):
        assert one["loss"] == pytest.approx(other["loss"], rel=1e-3)


def test_nccl_sums_and_gathers(monkeypatch: pytest.MonkeyPatch) -> None:
    """A group of one, through nccl all the same: the path that several GPUs take."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    torch.distributed.init_process_group(
        "nccl", init_method=f"tcp://127.0.0.1:{port}", rank=0, world_size=1, device_id=CUDA
    )
    try:
        losses, found = [], []
        for group in (SINGLE_PROCESS, Group(0, 1)):
            model = toy.model("clip").to(CUDA)
            monkeypatch.setattr(Group, "alone", group is SINGLE_PROCESS)
            objective = toy.build_objective(model, toy.METHODS["clip"], toy.PROTOCOL, toy.MASK, 8, "fp32", 1.0, group)
            losses.append(float(toy.backward(objective, toy.batch(8), 2, CUDA)["loss"]))
            if group is not SINGLE_PROCESS:
                assert group.gather_objects("key") == ["key"]
            found.append(gradients(model))
        assert losses[0] == pytest.approx(losses[1], rel=1e-5)
        assert apart(found[1], found[0]) < 1e-5
    finally:
        torch.distributed.destroy_process_group()


def test_a_claimed_device_is_the_only_one_that_pytorch_sees(tmp_path: Path) -> None:
    code = (
        "import os, sys; from pathlib import Path; from mdc.plan.processes.gpus import VISIBLE, claim_gpus\n"
        "claim_gpus(1, 'mdc test', Path(sys.argv[1])); assert len(os.environ[VISIBLE].split(',')) == 1\n"
        "import torch; assert torch.cuda.device_count() == 1; torch.ones(1, device='cuda:0')"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "locks")], check=True, env={**os.environ})
