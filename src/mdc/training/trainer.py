"""The one training loop: every method, every scale, fp32 or bf16, resumable at any step."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import torch
from torch import Tensor, nn

from mdc.config import ProtocolPretrain, Recipe, Runtime
from mdc.loader.batches import Batch
from mdc.objectives.objective import Objective
from mdc.processes.group import ALONE, Group
from mdc.records import UserError
from mdc.training.checkpoint import Position, load_state, save_state
from mdc.training.log import NoLog, RunLog
from mdc.training.optimizer import build_optimizer, learning_rate

Validate = Callable[[], dict[str, float]]


def train(
    model: nn.Module,
    objective: Objective,
    batches: Callable[[int], Iterable[Batch]],
    steps: int,
    recipe: Recipe,
    protocol: ProtocolPretrain,
    runtime: Runtime,
    state: Path,
    config_sha256: str,
    title: str,
    device: torch.device,
    validate: Validate | None = None,
    group: Group = ALONE,
) -> None:
    """Train ``model`` for ``steps`` optimiser steps; the log in ``state`` tells how it went.

    ``batches(k)`` yields the batches of steps k, k + 1, … of this process. ``state`` keeps checkpoints and the log
    while the run lasts; a run that finds a state of its own configuration there goes on from it, bit for bit.
    ``validate`` is called every ``recipe.validate_every`` steps and at the end. Each process of ``group`` calls this
    with its own batches; the first one alone writes the log and the states, all read them.

    Raises UserError with the step, the batch's sample keys and a hint if the loss is not finite; the last good
    checkpoint stays.
    """
    optimizer = build_optimizer(model, recipe, protocol)
    found = load_state(state, model, optimizer, config_sha256)
    start = found.step if found else 0
    _same_start(start, state, group)
    log: RunLog | NoLog = RunLog(state, start, steps, title) if group.rank == 0 else NoLog()
    parameters = [p for p in model.parameters() if p.requires_grad]
    model.train()
    clock, images = time.perf_counter(), 0
    try:
        for step, batch in zip(range(start, steps), batches(start), strict=False):
            rate = learning_rate(step, steps, recipe.lr, recipe.warmup_steps, protocol.final_lr)
            for settings in optimizer.param_groups:
                settings["lr"] = rate
            measured = objective.backward(to_device(batch, device), recipe.accumulation)
            group.sum_gradients(parameters)
            norm = total_norm(parameters, recipe.clip_norm)
            loss = float(measured["loss"])  # waits for the device: a bad loss must not reach the weights
            if not math.isfinite(loss) or not math.isfinite(float(norm)):
                # loss and norm are the global batch's, so all processes come here or none does
                keys = [key for part in group.gather_objects(batch["keys"]) for key in part]
                raise UserError(_not_finite(step, loss, float(norm), keys))
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            objective.after_step()
            images += len(batch["keys"]) * group.world
            done = step + 1
            seconds = max(time.perf_counter() - clock, 1e-9)
            log.advance(loss, images / seconds)
            if done % runtime.log_every == 0 or done == steps:
                values = {name: float(value) for name, value in measured.items()}
                log.write(done, {**values, "lr": rate, "grad_norm": float(norm), "images_per_second": images / seconds})
                clock, images = time.perf_counter(), 0
            if validate is not None and (done % recipe.validate_every == 0 or done == steps):
                model.eval()
                log.write(done, {f"validation_{name}": value for name, value in validate().items()})
                model.train()
                clock, images = time.perf_counter(), 0
            if done % runtime.checkpoint_every == 0 and done < steps and group.rank == 0:
                save_state(state, model, optimizer, Position(done, config_sha256))
        # the last state lets a run that is killed while it writes its results start from its end
        if start < steps and group.rank == 0:
            save_state(state, model, optimizer, Position(steps, config_sha256))
    finally:
        log.close()


def _same_start(start: int, state: Path, group: Group) -> None:
    """All processes must have read the same state: they share a file system, or this cannot go on."""
    starts = group.gather_objects(start)
    if len(set(starts)) > 1:
        raise UserError(
            f"{state}: the run's processes found states of steps {starts} there; it must be one shared folder"
        )


def to_device(batch: Batch, device: torch.device) -> Batch:
    """The batch's tensors on ``device``; everything else as it is."""
    if device.type == "cpu":
        return batch
    return {k: v.to(device, non_blocking=True) if isinstance(v, Tensor) else v for k, v in batch.items()}


def total_norm(parameters: list[nn.Parameter], limit: float | None) -> Tensor:
    """The gradient's norm before clipping; clips to ``limit`` if there is one."""
    if limit is not None:
        return nn.utils.clip_grad_norm_(parameters, limit)
    return nn.utils.get_total_norm([p.grad for p in parameters if p.grad is not None])


def _not_finite(step: int, loss: float, norm: float, keys: list[str]) -> str:
    shown = ", ".join(keys[:8]) + (f", … ({len(keys)} in all)" if len(keys) > 8 else "")
    what = f"loss is {loss}" if not math.isfinite(loss) else f"gradient norm is {norm}"
    return (
        f"training stopped at step {step}: the {what}; samples of this batch: {shown}; "
        "hint: lower lr, lengthen warmup_steps, set clip_norm (1.0), or use precision fp32; "
        "the last good checkpoint is kept"
    )
