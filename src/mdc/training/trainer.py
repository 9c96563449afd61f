"""The one training loop: every method, every scale, fp32 or bf16, resumable at any step."""

from __future__ import annotations

import time
from collections.abc import Iterable
from contextlib import closing, nullcontext
from dataclasses import dataclass
from typing import Protocol as Interface

import torch
from torch import Tensor, nn
from torch.optim import AdamW

from mdc.data.loader.batch import CaptionBatch
from mdc.models.image_text import ImageText
from mdc.plan.config.pretrain import Runtime
from mdc.plan.jobs.model import PretrainJob
from mdc.plan.processes.group import ALONE, Group, peers
from mdc.plan.processes.interrupts import Interrupted, Interrupts
from mdc.plan.records import UserError
from mdc.training.average import AveragedWeights
from mdc.training.feed import Fed, fed
from mdc.training.kept import KeptWeights, snapshot_steps
from mdc.training.log import NoLog, RunLog
from mdc.training.objectives.objective import Objective
from mdc.training.optimizer import build_optimizer, learning_rate
from mdc.training.patience import Patience, losses_until
from mdc.training.peaks import peak_here
from mdc.training.profile import StepProfile
from mdc.training.saver import Saver
from mdc.training.segments import extended, setting
from mdc.training.state import Position, States
from mdc.training.watch import Measured, Watch

SAVE = 1  # what the first process asks for when a state is due; a process that is to leave asks for its signal's number


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
    #: floating-point operations of this process in a step of captions of mean length, if its device's peak is known
    operations: int | None = None


def train(
    training: Training,
    states: States,
    runtime: Runtime,
    kept: KeptWeights | None = None,
    profile: StepProfile | None = None,
) -> Position:
    """Train the model to its last step, or until its patience ends; returns where it ended, with the seconds that earlier
    processes took. If its recipe has an average of the weights, it has these in the end, and is validated and kept with them.

    ``states`` keeps checkpoints and the log while the run lasts; a run that finds a state of its own there resumes from
    it, to the bit under the same setting. Validation takes place every ``recipe.validate_every`` steps and at the end. Each
    process of the group calls this with its own data; the first one alone writes the log, the states and the weights that
    are ``kept`` besides, all read them. ``profile``: looks at some of the steps.

    When states are saved follows from time (``runtime.save_every``). At the first SIGINT or SIGTERM that reaches any process, all
    finish their step, the state is saved, and all raise Interrupted, which says so; a second one ends a process at once.

    Raises UserError with the step, the batch's sample keys and a hint if the loss is not finite; the last good
    checkpoint stays.
    """
    job, group, steps = training.job, training.group, training.data.steps
    optimizer = build_optimizer(training.model, job.recipe, job.protocol.pretrain)
    average = AveragedWeights(training.model, job.recipe.average) if job.recipe.average is not None else None
    found = _resumed(training, states, optimizer, average)
    start = found.step
    limit = job.start.patience if job.start is not None else None
    snapshots = snapshot_steps(job.recipe.snapshots, steps)
    patience = Patience(limit, losses_until(states, start) if limit is not None else ())
    if patience.over:
        if average is not None:
            average.settle()
        return found
    computed_with = setting(job.recipe, training.device)

    saver, began = Saver(states, kept, runtime.save_every), time.monotonic()

    def save(step: int) -> None:
        if group.rank == 0:
            took = found.seconds + time.monotonic() - began
            position = Position(step, extended(found.segments, step, computed_with), took)
            saver.begin(training.model, optimizer, position, average)

    first = group.rank == 0
    log: RunLog | NoLog = RunLog(states.folder, start, steps, job.job.removeprefix("runs/")) if first else NoLog()
    told = _Told(training, log, runtime)
    interrupts = Interrupts()
    watch = Watch(training.device, group, lambda: interrupts.number or (SAVE if first and saver.due() else 0))
    parts = job.recipe.accumulation
    batches = fed(training.data.batches(start), lambda batch: training.objective.prepare(batch, parts), training.device)
    training.model.train()
    done = start
    with interrupts, closing(log), saver, profile or nullcontext():
        numbered = zip(range(start, steps), batches, strict=False)
        for step, batch in numbered:
            told.say(_step(training, optimizer, step, batch, watch))
            done = step + 1
            if profile is not None:
                profile.after_step()
            if average is not None:
                average.after_step(done)
            keeps = done in snapshots
            validates = training.validate is not None and (done % job.recipe.validate_every == 0 or done == steps)
            if keeps or validates or watch.asked or done == steps:
                told.say(watch.settled())  # the weights are good so far
            if kept is not None and keeps:
                with average.shown() if average is not None else nullcontext():
                    kept.after_step(done, training.model)
            if training.validate is not None and validates:
                training.model.eval()
                with average.shown() if average is not None else nullcontext():
                    held_out = training.validate()
                    log.write(done, {f"validation_{name}": value for name, value in held_out.items()})
                    if kept is not None:
                        kept.after_validation(done, training.model)
                training.model.train()
                told.begin()
                if limit is not None:
                    patience.add(held_out["loss"])
                    if patience.over:
                        break
            if watch.asked > SAVE:
                break
            if watch.asked and done < steps:
                save(done)
            watch.asked = 0
        # the last state lets a run that is killed while it writes its results start from its end
        if start < done:
            save(done)
        saver.settle()
        if watch.asked > SAVE:
            group.gather_objects(done)  # none leaves, which would end the others, before the state is written
            raise Interrupted.saved(watch.asked, done, steps)
    if average is not None:
        average.settle()
    return Position(done, extended(found.segments, done, computed_with), found.seconds)


def _step(training: Training, optimizer: AdamW, step: int, batch: Fed, watch: Watch) -> list[Measured]:
    """One optimiser step, which waits for nothing on the device; what earlier steps measured, as far as it can be read: the
    objective's values, and ``grad_norm`` before clipping."""
    recipe = training.job.recipe
    with peers():
        measured = training.objective.backward(batch.prepared)
    parameters = [p for p in training.model.parameters() if p.requires_grad]
    clips = recipe.clip_steps is None or step < recipe.clip_steps
    norm = total_norm(parameters, recipe.clip_norm if clips else None)
    # on a CPU it is read here, before a bad loss reaches the weights
    found = watch.add(step, {**measured, "grad_norm": norm}, batch.keys)
    for group in optimizer.param_groups:
        group["lr"] = _rate(training, step)
    optimizer.step()
    optimizer.zero_grad()
    training.objective.after_step()
    return found


def _rate(training: Training, step: int) -> float:
    recipe, final = training.job.recipe, training.job.protocol.pretrain.final_lr
    constant = recipe.lr_schedule == "constant"
    return learning_rate(step, training.data.steps, recipe.lr, recipe.warmup_steps, final, constant)


class _Told:
    """What is said of steps, on the bar and in the log, how fast they were, and, of a device whose peak is known, which share
    of this peak their operations were (model FLOPs utilisation): of this process's part of the batch on its own device."""

    def __init__(self, training: Training, log: RunLog | NoLog, runtime: Runtime) -> None:
        self._training, self._log, self._every = training, log, runtime.log_every
        self._peak = peak_here(training.device, training.job.recipe.precision)
        self.begin()

    def begin(self) -> None:
        """Count images, operations and seconds anew."""
        self._began, self._images, self._steps = time.perf_counter(), 0, 0

    def say(self, measured: list[Measured]) -> None:
        """Tell of steps that were measured, in their order."""
        for step, values in measured:
            self._images += self._training.job.recipe.batch_size
            self._steps += 1
            seconds = max(time.perf_counter() - self._began, 1e-9)
            speed = self._images / seconds
            made = self._training.operations
            share = None if self._peak is None or made is None else self._steps * made / seconds / self._peak
            self._log.advance(values["loss"], speed, share)
            done = step + 1
            if done % self._every == 0 or done == self._training.data.steps:
                norm = values.pop("grad_norm")
                line = {**values, "lr": _rate(self._training, step), "grad_norm": norm, "images_per_second": speed}
                self._log.write(done, line if share is None else {**line, "mfu": share})
                self.begin()


def _resumed(training: Training, states: States, optimizer: AdamW, average: AveragedWeights | None) -> Position:
    """Where the run stands: the first process chooses the state, since it renames a damaged one, and the others read that."""
    group, into = training.group, (training.model, optimizer, average)
    found = states.load(*into) if group.rank == 0 else None
    step = group.gather_objects(None if found is None else found.step)[0]
    if group.rank and step is not None:
        found = states.load(*into, step=step)
        if found is None:
            raise UserError(
                f"{states.folder}: process {group.rank} finds no state after step {step}; all need one shared folder"
            )
    return found or Position(0)


def total_norm(parameters: list[nn.Parameter], limit: float | None) -> Tensor:
    """The gradient's norm before clipping; clips to ``limit`` if there is one."""
    if limit is not None:
        return nn.utils.clip_grad_norm_(parameters, limit)
    return nn.utils.get_total_norm([p.grad for p in parameters if p.grad is not None])
