"""Estimated training time of a new scale, from a few steps of each method on a synthetic batch."""

import time
from statistics import median
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_map_only

from mdc.models.build import build_for
from mdc.models.text import Vocabulary
from mdc.plan.config.params import Params
from mdc.plan.host import usable_cores
from mdc.plan.jobs.model import PretrainJob
from mdc.plan.jobs.plan import Plan
from mdc.training.device import choose_device
from mdc.training.memory import batch_of
from mdc.training.objectives.objective import Setup

_WORDS = 4000  # pieces of a vocabulary that is the captions' own
_REPEATS, _SHORT = 3, 0.2  # steps of each method, and the seconds that they take at least
_SAMPLES = 16  # of a measured step at most: a large tower's batch takes minutes of a CPU
_READING = 0.6e-3  # seconds that the loader takes for a sample of the size that `mdc init` chooses


def training_seconds(params: Params, pairs: int, length: int, full: bool) -> tuple[float, str]:
    """(seconds, on which device) that all runs of the scale take together here, for ``pairs`` to train on whose captions have
    ``length`` pieces of CLIP's ``full`` vocabulary or of a smaller one.

    Reading is assumed to take 0.6 ms per sample; all else is measured on up to 16 samples of a batch.
    """
    runs = [job for job in Plan(params).jobs.values() if isinstance(job, PretrainJob)]
    device = choose_device("auto", 0)
    before = torch.get_num_threads()
    torch.set_num_threads(runs[0].recipe.threads)
    try:
        seconds = [_READING * pairs * run.recipe.epochs + _seconds(run, pairs, length, full, device) for run in runs]
    finally:
        torch.set_num_threads(before)
    cores = usable_cores() // runs[0].recipe.threads
    side_by_side = 1 if device.type == "cuda" else min(len(runs), max(1, cores))
    return max(max(seconds), sum(seconds) / side_by_side), "GPU" if device.type == "cuda" else "CPU"


def _seconds(run: PretrainJob, pairs: int, length: int, full: bool, device: Any) -> float:
    """For the steps of one run alone."""
    vocabulary = Vocabulary.full() if full else Vocabulary.corpus(range(_WORDS))
    size, recipe, protocol = min(run.recipe.batch_size, _SAMPLES), run.recipe, run.protocol.pretrain
    model = build_for(run, vocabulary.size, run.seed).to(device)
    setup = Setup(run.method, protocol, vocabulary.mask_id, size, recipe.precision)
    objective = run.method.load("train").build_objective(model, setup)
    optimizer = torch.optim.AdamW(model.parameters(), lr=recipe.lr or 1e-3, fused=True)
    batch = batch_of(run, min(length + 2, run.protocol.data.context_length), size)
    times: list[float] = []
    while len(times) < _REPEATS or (sum(times) < _SHORT and len(times) < 10 * _REPEATS):
        began = time.perf_counter()
        objective.backward(tree_map_only(Tensor, lambda tensor: tensor.to(device), objective.prepare(batch)))
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if device.type == "cuda":
            torch.cuda.synchronize()
        times.append(time.perf_counter() - began)
    return float(median(times[1:])) / size * pairs * recipe.epochs
