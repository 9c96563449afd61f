"""The training loop of every method and scale, in fp32 or bf16, resumable at any step."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn
from torch.optim import AdamW

from mdc.models.image_text import ImageText
from mdc.plan.config.params import ProtocolPretrain
from mdc.plan.config.pretrain import Recipe, Runtime
from mdc.plan.jobs.model import PretrainJob
from mdc.plan.processes.group import NOTHING, SINGLE_PROCESS, Group, translate_peer_failure
from mdc.plan.processes.interrupts import Interrupted, Interrupts
from mdc.plan.records import UserError
from mdc.training.average import AveragedWeights
from mdc.training.corpus import Corpus
from mdc.training.kept import KeptWeights, best_step, out_of_patience, snapshot_steps, validation_losses
from mdc.training.log import RunLog
from mdc.training.metrics import DeferredMetrics, Measured
from mdc.training.objectives.objective import Objective
from mdc.training.prefetch import DeviceBatch, prefetch_to_device
from mdc.training.profile import StepProfile
from mdc.training.state import Position, Saver, States, setting

SAVE = 1  # request of the first process to save a state; a process that received a signal requests the signal's number


@dataclass(frozen=True)
class Training:
    """One run in one of its processes. ``validate``: held-out metrics by name, equal on all processes."""

    job: PretrainJob
    model: ImageText
    objective: Objective
    data: Corpus
    device: torch.device
    validate: Callable[[], dict[str, float]] | None = None
    group: Group = SINGLE_PROCESS
    #: seconds of a step with captions of mean length at this process's device's peak, if known
    least_seconds: float | None = None
    #: the peak learning rate, where the recipe leaves it to a selection
    lr: float | None = None

    @property
    def peak_lr(self) -> float:
        """The peak learning rate: the selected one, or the recipe's."""
        peak = self.lr if self.lr is not None else self.job.recipe.lr
        assert peak is not None  # checked by the job
        return peak


def train(training: Training, states: States, runtime: Runtime, profile: StepProfile = NOTHING) -> Position:
    """Train the model to its last step, or until early stopping; returns the final position, with the seconds that earlier
    processes took. If the recipe has an average of the weights, it is validated, kept, and the final model.

    ``states``: checkpoints and the log until the run ends; a run resumes from its own state, bit-equal under the same setting.
    Validation is every ``recipe.validate_every`` steps and at the end. Each process of the group calls this with its own data;
    only the first writes the log, the states and the kept weights; all read them. ``profile``: profiles some steps.

    States are saved by time (``runtime.save_every``). At the first SIGINT or SIGTERM of any process, all finish their step, the
    state is saved, and all raise Interrupted; a second signal ends a process at once.

    UserError with the step, the batch's sample keys and a hint if the loss is not finite; the last good checkpoint stays.
    """
    job, model, group, steps = training.job, training.model, training.group, training.data.steps
    recipe, began = job.recipe, time.monotonic()
    optimizer = build_optimizer(model, recipe, job.protocol.pretrain)
    average = AveragedWeights(model, recipe.average)
    start = _resumed(training, states, optimizer, average)
    computed_with, done = setting(recipe, training.device), start.step
    snapshots, losses = snapshot_steps(recipe.snapshots, steps), validation_losses(states.folder, done)
    patience = job.start.patience if job.start is not None else None

    # writers: they do nothing in other processes than the first
    shown = (job.job.removeprefix("runs/"), runtime.log_every, recipe.batch_size, training.least_seconds)
    log = group.first_only(lambda: RunLog(states.folder, done, steps, *shown))
    kept = group.first_only(lambda: KeptWeights(states.folder, job.sha256))
    saver = group.first_only(lambda: Saver(states, runtime.save_every, kept.forget_until))

    interrupts = Interrupts()
    metrics = DeferredMetrics(training.device, group, lambda: interrupts.number or (SAVE if saver.due() else 0))
    prepare = partial(training.objective.prepare, micro_batches=recipe.accumulation)
    batches = prefetch_to_device(training.data.batches(done), prepare, training.device)
    model.train()
    with interrupts, log, saver, profile:
        while done < steps and metrics.requested <= SAVE and not out_of_patience(losses, patience):
            metrics.requested = 0
            log.steps(optimizer_step(training, optimizer, done, next(batches), metrics))
            done += 1
            profile.after_step()
            average.after_step(done)

            last = done == steps
            validates = last or done % recipe.validate_every == 0
            if last or validates or done in snapshots or metrics.requested:
                log.steps(metrics.flush())  # checks that the weights are finite
            if done in snapshots:
                with average.shown():
                    kept.save("snapshot", done, model)
            if training.validate is not None and validates:
                model.eval()
                with average.shown():
                    held_out = training.validate()
                    losses[done] = held_out["loss"]
                    if best_step(losses) == done:
                        kept.save("best", done, model)
                model.train()
                log.validation(done, held_out)
            # with the last state, a run killed while writing its results resumes at its end
            if last or metrics.requested or out_of_patience(losses, patience):
                now = start.moved_to(done, computed_with, time.monotonic() - began)
                saver.begin(model, optimizer, now, average)
        saver.wait()
        if metrics.requested > SAVE:
            group.gather_objects(done)  # no process leaves, which would end the others, before the state is written
            raise Interrupted.saved(metrics.requested, done, steps)
    average.apply()
    return start.moved_to(done, computed_with)


def optimizer_step(
    training: Training, optimizer: AdamW, step: int, batch: DeviceBatch, metrics: DeferredMetrics
) -> list[Measured]:
    """One step, without waiting for the device; returns the readable metrics of earlier steps: the objective's values,
    ``grad_norm`` before clipping, and ``lr``."""
    recipe, final = training.job.recipe, training.job.protocol.pretrain.final_lr
    with translate_peer_failure():
        measured = training.objective.backward(batch.prepared)
    parameters = [p for p in training.model.parameters() if p.requires_grad]
    clips = recipe.clip_steps is None or step < recipe.clip_steps
    norm = total_norm(parameters, recipe.clip_norm if clips else None)
    constant = recipe.lr_schedule == "constant"
    lr = learning_rate(step, training.data.steps, training.peak_lr, recipe.warmup_steps, final, constant)
    # on a CPU metrics are read here, before a bad loss changes the weights
    readable = metrics.add(step, {**measured, "grad_norm": norm}, batch.keys, lr=lr)
    for group in optimizer.param_groups:
        group["lr"] = lr
    optimizer.step()
    optimizer.zero_grad()
    training.objective.after_step()
    return readable


def _resumed(training: Training, states: States, optimizer: AdamW, average: AveragedWeights) -> Position:
    """The position to resume from: the first process chooses the state (it renames damaged ones), the others read the same."""
    group, into = training.group, (training.model, optimizer, average)
    position = states.load(*into) if group.rank == 0 else None
    step = group.gather_objects(None if position is None else position.step)[0]
    if group.rank and step is not None:
        position = states.load(*into, step=step)
        if position is None:
            raise UserError(
                f"{states.folder}: process {group.rank} finds no state after step {step}; all need one shared folder"
            )
    return position or Position(0)


def total_norm(parameters: list[nn.Parameter], limit: float | None) -> Tensor:
    """The gradient's norm before clipping; clips to ``limit`` if there is one."""
    if limit is not None:
        return nn.utils.clip_grad_norm_(parameters, limit)
    return nn.utils.get_total_norm([p.grad for p in parameters if p.grad is not None])


def build_optimizer(model: nn.Module, recipe: Recipe, protocol: ProtocolPretrain) -> AdamW:
    """AdamW (paper, tables 6-8; OpenCLIP where it is silent): matrices decay; gains, biases and the logit scale (fewer than 2
    dimensions) don't."""
    learnt = [p for p in model.parameters() if p.requires_grad]
    groups = [
        {"params": [p for p in learnt if p.ndim >= 2], "weight_decay": recipe.weight_decay},
        {"params": [p for p in learnt if p.ndim < 2], "weight_decay": 0.0},
    ]
    # every step sets its learning rate
    return AdamW(groups, recipe.lr or 0.0, (recipe.beta1, recipe.beta2), protocol.adam_eps, fused=True)


def learning_rate(step: int, steps: int, base: float, warmup: int, final: float, constant: bool = False) -> float:
    """Linear warm-up to ``base`` over ``warmup`` steps, then a cosine to ``final`` at ``steps`` (OpenCLIP's form), or
    ``constant``.

    ``step`` counts from 0; the first step already moves (base / warmup).
    """
    if step < warmup:
        return base * (step + 1) / warmup
    if constant:
        return base
    progress = (step - warmup) / max(1, steps - warmup)
    return final + 0.5 * (1 + math.cos(math.pi * progress)) * (base - final)
