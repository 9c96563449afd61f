"""The one training loop: every method, every scale, fp32 or bf16, resumable at any step."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Protocol as Interface

import torch
from torch import Tensor, nn

from mdc.config import Runtime
from mdc.jobs.model import PretrainJob
from mdc.loader.batch import CaptionBatch
from mdc.models.image_text import ImageText
from mdc.objectives.objective import Objective
from mdc.processes.group import ALONE, Group
from mdc.records import UserError
from mdc.training.average import AveragedWeights
from mdc.training.clock import RunClock
from mdc.training.kept import KeptWeights
from mdc.training.log import NoLog, RunLog
from mdc.training.optimizer import build_optimizer, learning_rate
from mdc.training.patience import Patience, losses_until
from mdc.training.segments import Segment, extended, setting
from mdc.training.state import Position, States


class Data(Interface):
    """What a run is trained on, as one of its processes sees it."""

    @property
    def steps(self) -> int:
        """How many optimiser steps the run has."""
        ...

    def batches(self, start: int) -> Iterable[CaptionBatch]:
        """This process's part of the batches of steps ``start``, ``start`` + 1, …"""
        ...


class Validate(Interface):
    def __call__(self) -> dict[str, float]:
        """Measures on held-out data, by name; the same on all processes."""
        ...


@dataclass(frozen=True)
class Training:
    """One run in one of its processes: what is trained, by which objective, on what, and where."""

    job: PretrainJob
    model: ImageText
    objective: Objective
    data: Data
    device: torch.device
    validate: Validate | None = None
    group: Group = ALONE


def train(
    training: Training,
    states: States,
    runtime: Runtime,
    clock: RunClock | None = None,
    kept: KeptWeights | None = None,
) -> list[Segment]:
    """Train the model to its last step, or until its patience ends; returns what the steps were computed with. If its recipe
    has an average of the weights, it has these in the end, and is validated and kept with them.

    ``states`` keeps checkpoints and the log while the run lasts; a run that finds a state of its own there resumes from
    it, to the bit under the same setting. Validation takes place every ``recipe.validate_every`` steps and at the end. Each
    process of the group calls this with its own data; the first one alone writes the log, the states and the weights that
    are ``kept`` besides, all read them.

    Raises UserError with the step, the batch's sample keys and a hint if the loss is not finite; the last good
    checkpoint stays.
    """
    job, group, steps = training.job, training.group, training.data.steps
    optimizer = build_optimizer(training.model, job.recipe, job.protocol.pretrain)
    average = AveragedWeights(training.model, job.recipe.average) if job.recipe.average is not None else None
    found = states.load(training.model, optimizer, average) or Position(0)
    start = found.step
    _same_start(start, states, group)
    limit = job.start.patience if job.start is not None else None
    patience = Patience(limit, losses_until(states, start) if limit is not None else ())
    if patience.over:
        if average is not None:
            average.settle()
        return found.segments
    computed_with = setting(job.recipe, training.device)

    def save(step: int) -> None:
        if group.rank == 0:
            position = Position(step, extended(found.segments, step, computed_with))
            states.save(training.model, optimizer, position, average)
            if kept is not None:
                kept.after_save()

    first = group.rank == 0
    log: RunLog | NoLog = RunLog(states.folder, start, steps, job.job.removeprefix("runs/")) if first else NoLog()
    numbered = zip(range(start, steps), training.data.batches(start), strict=False)
    training.model.train()
    speed, done = _Speed(), start
    try:
        for step, batch in clock.over(numbered) if clock else numbered:
            measured = _step(training, optimizer, step, batch.to(training.device))
            speed.add(len(batch) * group.world)
            log.advance(measured["loss"], speed.images_per_second)
            done = step + 1
            if average is not None:
                average.after_step(done)
            if kept is not None and kept.due(done):
                with average.shown() if average is not None else nullcontext():
                    kept.after_step(done, training.model)
            if done % runtime.log_every == 0 or done == steps:
                log.write(done, {**measured, "images_per_second": speed.images_per_second})
                speed = _Speed()
            if training.validate is not None and (done % job.recipe.validate_every == 0 or done == steps):
                training.model.eval()
                with average.shown() if average is not None else nullcontext():
                    held_out = training.validate()
                    log.write(done, {f"validation_{name}": value for name, value in held_out.items()})
                    if kept is not None:
                        kept.after_validation(done, training.model)
                training.model.train()
                speed = _Speed()
                if limit is not None:
                    patience.add(held_out["loss"])
                    if patience.over:
                        break
            if done % runtime.checkpoint_every == 0 and done < steps:
                save(done)
        # the last state lets a run that is killed while it writes its results start from its end
        if start < done:
            save(done)
    finally:
        log.close()
    if average is not None:
        average.settle()
    return extended(found.segments, done, computed_with)


def _step(training: Training, optimizer: torch.optim.Optimizer, step: int, batch: CaptionBatch) -> dict[str, float]:
    """One optimiser step; what the objective measured, ``lr``, and ``grad_norm`` before clipping."""
    recipe = training.job.recipe
    final = training.job.protocol.pretrain.final_lr
    constant = recipe.lr_schedule == "constant"
    rate = learning_rate(step, training.data.steps, recipe.lr, recipe.warmup_steps, final, constant)
    for settings in optimizer.param_groups:
        settings["lr"] = rate
    measured = training.objective.backward(batch, recipe.accumulation)
    parameters = [p for p in training.model.parameters() if p.requires_grad]
    training.group.sum_gradients(parameters)
    clips = recipe.clip_steps is None or step < recipe.clip_steps
    norm = float(total_norm(parameters, recipe.clip_norm if clips else None))
    # waits for the device: a bad loss must not reach the weights
    values = {name: float(value) for name, value in measured.items()}
    if not math.isfinite(values["loss"]) or not math.isfinite(norm):
        # loss and norm are the global batch's, so all processes come here or none does
        keys = [key for part in training.group.gather_objects(batch.keys) for key in part]
        raise UserError(_not_finite(step, values["loss"], norm, keys))
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    training.objective.after_step()
    return {**values, "lr": rate, "grad_norm": norm}


class _Speed:
    """Images a second since it was made."""

    def __init__(self) -> None:
        self._began, self._images = time.perf_counter(), 0

    def add(self, images: int) -> None:
        self._images += images

    @property
    def images_per_second(self) -> float:
        return self._images / max(time.perf_counter() - self._began, 1e-9)


def _same_start(start: int, states: States, group: Group) -> None:
    """All processes must have read the same state: they share a file system, or this cannot work."""
    starts = group.gather_objects(start)
    if len(set(starts)) > 1:
        raise UserError(
            f"{states.folder}: the run's processes found states of steps {starts} there; it must be one shared folder"
        )


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
