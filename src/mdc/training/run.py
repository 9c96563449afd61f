"""The job ``mdc pretrain``: one run, from its resolved configuration to ``run.json``.

Writes into the run's folder: ``checkpoint.safetensors`` (final weights), ``best.safetensors`` (those with the least held-out
loss, where there are held-out pairs), the recipe's snapshots, ``log.jsonl``, ``tensorboard/``, and last ``run.json``, the
manifest. run.json is the same for the same inputs, seed and machine; speeds are returned, for ``host.json``.
"""

import sys
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from statistics import median_high
from typing import Any

import torch
from torch import Tensor

from mdc.models import cross_entropy
from mdc.models.build import build_for
from mdc.models.recomputing import compile_layers, recompute_layers
from mdc.models.runs import WEIGHTS, expected_run
from mdc.models.text import Vocabulary
from mdc.models.weights import load_weights
from mdc.plan.config.pretrain import Runtime
from mdc.plan.config.problems import checked
from mdc.plan.jobs.call import Call
from mdc.plan.jobs.model import PretrainJob, Start
from mdc.plan.outputs import current
from mdc.plan.processes.group import NOTHING, Group, global_rank, local_rank, process_group
from mdc.plan.processes.lock import another_was_waited_for, locked
from mdc.plan.records import UserError, clear_leftovers, read_json, sha256_file
from mdc.training.corpus import Corpus, validate
from mdc.training.device import choose_device
from mdc.training.kept import LOG
from mdc.training.objectives.objective import ObjectiveModule, Setup
from mdc.training.peaks import peak_here
from mdc.training.profile import StepProfile
from mdc.training.results import is_whole, write_results
from mdc.training.state import States, decisive
from mdc.training.trainer import Training, train


def main(call: Call) -> dict[str, Any]:
    """Run the job, or one process's part of it; returns the result of ``pretrain``, or ``taken_over`` if another process did it.

    ``call``: a :class:`mdc.plan.jobs.call.Call` with job, input, runtime, out, state, wait and profile.
    """
    job: PretrainJob = call.job
    runtime = _runtime(call)
    inputs = {name: sha256_file(call.input(name)) for name in job.inputs}
    states = States.among(call.state, decisive(job.config()), inputs)
    torch.set_num_threads(job.recipe.threads)
    device = choose_device(job.recipe.device, local_rank())
    # the first process holds the lock of the state for all
    first = global_rank() == 0
    with locked(call.state, call.wait and job.recipe.processes == 1) if first else nullcontext(False) as waited:
        if (waited or another_was_waited_for()) and is_whole(call.out, job.config(), inputs):
            print(f"{call.out}: the process that was waited for has finished this run", file=sys.stderr)
            return {"taken_over": True}
        if first:
            clear_leftovers(states.folder)
            clear_leftovers(call.out)
        with process_group(job.recipe.processes, device) as group:
            return pretrain(call, runtime, inputs, states, device, group)


def pretrain(
    call: Call, runtime: Runtime, inputs: dict[str, str], states: States, device: torch.device, group: Group
) -> dict[str, Any]:
    """Train the run of ``call``; the first process writes its folder, from ``inputs`` {job: sha256 of its manifest}.

    It returns device, threads, images_per_second (median), mfu (median, if the device's peak is known), seconds_before (taken by
    earlier processes of this run that were killed) and log_sha256 (a log contains times, so run.json cannot name it). The other
    processes return an empty dictionary.
    """
    job: PretrainJob = call.job
    vocabulary = Vocabulary.read(call.input(f"data/vocabularies/{job.vocabulary}"))
    corpus = Corpus(
        job,
        call.input(f"data/corpora/{job.corpus}"),
        vocabulary,
        runtime.workers,
        group,
        call.manifests,
    )
    training = replace(prepare(job, corpus, device), lr=selected_rate(call, job))
    if (peak := peak_here(device, job.recipe.precision)) is not None:
        from mdc.training.memory import captions_like, operations  # PyTorch's counters take seconds to import

        flop = operations(job, captions_like(job, corpus.index, vocabulary))
        training = replace(training, least_seconds=flop / peak)
    if job.start is not None:
        training.model.load_state_dict(starting_weights(call, job.start))
    profile = NOTHING
    if (profiled_steps := call.profile) is not None:
        profile = group.first_only(lambda: StepProfile(call.state / "profile", profiled_steps, device))
    done = train(training, states, runtime, profile)
    if group.rank != 0:
        return {}
    segments = done.segments
    log = write_results(call, training, corpus, inputs, segments, states.folder)
    states.clear()
    return {
        "device": segments[-1]["device"],
        "threads": job.recipe.threads,
        "images_per_second": _middle(log, "images_per_second"),
        **({"mfu": middle} if (middle := _middle(log, "mfu")) is not None else {}),
        "seconds_before": round(done.seconds, 3),
        "log_sha256": sha256_file(call.out / LOG),
    }


def _middle(log: list[dict[str, Any]], name: str) -> float | None:
    """The median of ``name`` over the log's lines; None if it is in none."""
    values = [line[name] for line in log if name in line]
    return median_high(values) if values else None


def selected_rate(call: Call, job: PretrainJob) -> float | None:
    """The learning rate that a selection chose for this run; None if its recipe has one. UserError if the selection was made with
    another configuration."""
    if job.lr is None:
        return None
    return float(current(call.input(job.lr.job), job.lr.config_sha256, job.job)["lr"])


def starting_weights(call: Call, start: Start) -> dict[str, Tensor]:
    """The initial weights of a finetuning; UserError if they are of another configuration than the job expects."""
    return load_weights(expected_run(call, start.run, start.config_sha256, WEIGHTS[start.weights])[0])


def prepare(job: PretrainJob, corpus: Corpus, device: torch.device) -> Training:
    """The run's model with initial weights, its objective and its data."""
    recipe = job.recipe
    module: ObjectiveModule = job.method.load("train")
    model = build_for(job, corpus.vocabulary.size, job.seed).to(device)
    # further arguments of this objective
    of_run = getattr(module, "of_run", None)
    mask_id = corpus.vocabulary.mask_id
    setup = Setup.of(job, mask_id, duplicate_share=corpus.duplicate_share, group=corpus.group)
    objective = module.build_objective(model, setup, **(of_run(job, corpus) if of_run is not None else {}))
    cross_entropy.kernel_allowed = recipe.kernel is None
    if recipe.reduce == "bf16":
        objective.passes.send_in_bf16()
    if recipe.activation_checkpointing:
        recompute_layers(model)
    if recipe.compile:
        compile_layers(model)
    validation = partial(validate, corpus, objective, device) if corpus.held_out else None
    return Training(job, model, objective, corpus, device, validation, corpus.group)


def _runtime(call: Call) -> Runtime:
    if call.runtime is None:
        raise UserError(f"{call.job.job}: --runtime is missing; it says how many workers and how often to save")
    return checked(Runtime, read_json(call.runtime), call.runtime)
