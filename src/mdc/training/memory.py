"""What a training step holds in memory, before anything is trained: `mdc config RUN --memory`.

Weights, gradients and the optimiser's state are counted exactly, of the run's own model without its numbers. What autograd
keeps, and the most that lives at a time, follow from a whole step of the run's objective on a batch without numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode

from mdc.data.loader.batch import CaptionBatch
from mdc.models.recomputing import recompute_layers
from mdc.models.text import Vocabulary
from mdc.plan.config.backbones import OnTokens
from mdc.plan.jobs.job import Job
from mdc.plan.jobs.model import PretrainJob
from mdc.plan.parts import OBJECTIVES, load
from mdc.plan.processes.group import Group
from mdc.plan.records import UserError, read_json
from mdc.training.filled import filled_length
from mdc.training.objectives.micro_batches import each_tensor, trimmed
from mdc.training.objectives.objective import ObjectiveModule
from mdc.training.unallocated import Live, Saved, unallocated

_FP32 = 4


@dataclass(frozen=True)
class Held:
    """Bytes on each device.

    ``adam``: its two moments and its counts of steps; ``average``: of the weights, 0 without one; ``batches``: the batch that is
    computed and the next one; ``activations``: what autograd keeps of a micro-batch; ``passing``: the most that forward and
    backward pass hold at a time, gradients and activations included; ``sums``: copies of the gradients on their way to other
    processes, after the backward pass.
    """

    weights: int
    gradients: int
    adam: int
    average: int
    batches: int
    activations: int
    passing: int
    sums: int

    @property
    def all(self) -> int:
        """The most that a step holds at a time."""
        return self.weights + self.adam + self.average + self.batches + max(self.passing, self.gradients + self.sums)


@dataclass(frozen=True)
class Captions:
    """How many ids a vocabulary has, and how many tokens a caption, SOT and EOT included; ``why`` these, in words."""

    vocabulary: Vocabulary
    tokens: int
    why: str


class _Alike(Group):
    """A group of which every process has what this one has."""

    def sum(self, tensor: Tensor) -> Tensor:
        return tensor

    def gather(self, tensor: Tensor) -> Tensor:
        return torch.cat([tensor] * self.world)


def main(job: Job, folder: Path, tokens: int) -> None:
    """Print what a step of a training holds. ``folder``: of the scale's results; ``tokens``: of a caption, 0: as found there."""
    if not isinstance(job, PretrainJob):
        raise UserError(f"{job.job}: --memory is of trainings alone, as runs/alt/ViT-T-12/mdc/s0")
    captions = captions_of(job, folder, tokens)
    print(in_words(job, captions, held(job, captions)))


def captions_of(job: PretrainJob, folder: Path, tokens: int) -> Captions:
    """The vocabulary and the mean length of the corpus's captions, if they are made; of a method that fills captions up, how
    long they are then; else CLIP's whole vocabulary, and captions that fill the context. UserError for ``tokens`` that no
    caption has."""
    context = job.protocol.data.context_length
    if tokens and not 3 <= tokens <= context:
        raise UserError(f"--memory {tokens}: a caption has 3 to {context} tokens, SOT and EOT included")
    made = folder / f"data/vocabularies/{job.vocabulary}/vocabulary.json"
    vocabulary = Vocabulary.read(made) if made.is_file() else Vocabulary.full()
    index = folder / f"data/corpora/{job.corpus}/index.json"
    if tokens:
        return Captions(vocabulary, tokens, f"captions of {tokens} tokens")
    if index.is_file():
        lengths = read_json(index)["captions"]["per_split"]["train"]["histogram"]
        if _fills_up(job):
            most = 1 + filled_length({int(pieces): int(count) for pieces, count in lengths.items()}, context)
            return Captions(vocabulary, most, f"captions filled up to {most} tokens, as those of {job.corpus}")
        counts = {min(int(pieces) + 2, context): int(count) for pieces, count in lengths.items()}
        mean = round(sum(length * count for length, count in counts.items()) / max(sum(counts.values()), 1))
        return Captions(vocabulary, max(mean, 3), f"captions of {max(mean, 3)} tokens, the mean of {job.corpus}")
    return Captions(vocabulary, context, f"captions of {context} tokens, which is the most")


def held(job: PretrainJob, captions: Captions) -> Held:
    """What a step of a run holds on each of its devices; nothing is allocated."""
    recipe = job.recipe
    mode, on_gpu = FakeTensorMode(), recipe.device != "cpu"
    with unallocated(mode, on_gpu):
        module: ObjectiveModule = load(OBJECTIVES, job.method.objective)
        context = job.protocol.data.context_length
        model: Any = module.build_model(
            job.method, job.backbone, job.protocol.pretrain, captions.vocabulary.size, context, job.seed
        )
    group = _Alike(0, recipe.processes)
    objective = module.build_objective(
        model,
        job.method,
        job.protocol.pretrain,
        captions.vocabulary.mask_id,
        recipe.batch_size,
        recipe.precision,
        group=group,
        # SOT is no place of a caption's diffusion
        **({"length": captions.tokens - 1} if _fills_up(job) else {}),
    )
    if recipe.recompute:
        recompute_layers(model)
    # which tokens are real and which are supervised are values: of these few there are real ones
    prepared = objective.prepare(_batch(job, captions.tokens), recipe.accumulation)
    with unallocated(mode, on_gpu):
        shown = each_tensor(prepared, lambda tensor: _fake(mode, tensor))
        apart = [*model.parameters(), *model.buffers(), *_tensors(shown)]
        live, saved = Live(apart), Saved(apart)
        with live, saved.counted():
            objective.backward(shown)
    return _counted(job, model, _tensors(shown), saved.peak, live.peak)


def _counted(job: PretrainJob, model: nn.Module, batch: list[Tensor], activations: int, passing: int) -> Held:
    parameters = list(model.parameters())
    trained = [p for p in parameters if p.requires_grad]
    sent = 0 if job.recipe.processes == 1 else 2 if job.recipe.reduce == "bf16" else _FP32
    every = _bytes([*parameters, *model.buffers()])
    return Held(
        weights=every,
        gradients=_bytes(trained),
        adam=2 * _bytes(trained) + _FP32 * len(trained),
        average=_bytes(parameters) if job.recipe.average is not None else 0,
        batches=2 * _bytes(batch),
        activations=activations,
        passing=passing,
        sums=sum(p.numel() for p in trained) * sent,
    )


def _bytes(tensors: list[Any]) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def _fake(mode: Any, tensor: Tensor) -> Tensor:
    # images are one number, seen everywhere: a fake one has its full size
    return torch.empty(tensor.shape, dtype=tensor.dtype) if 0 in tensor.stride() else mode.from_tensor(tensor)


def _tensors(value: Any) -> list[Tensor]:
    found: list[Tensor] = []

    def note(tensor: Tensor) -> Tensor:
        found.append(tensor)
        return tensor

    each_tensor(value, note)
    return found


def _batch(job: PretrainJob, tokens: int) -> CaptionBatch:
    """One process's part of a batch, as the loader yields it, whose images take no memory."""
    size, backbone = job.recipe.batch_size // job.recipe.processes, job.backbone
    width = trimmed(tokens, job.protocol.data.context_length)
    frozen = backbone.frozen if isinstance(backbone, OnTokens) else None
    one = torch.zeros((), dtype=torch.uint8 if frozen is None else torch.float16)
    shape = (3, backbone.image_size, backbone.image_size) if frozen is None else (frozen.tokens, frozen.width)
    # equally spread draws: as many tokens are masked as in the mean
    spread = (torch.arange(width) * 0.618034) % 1
    return CaptionBatch(
        images=one.expand(size, *shape),
        keys=[str(place) for place in range(size)],
        tokens=torch.zeros((size, width), dtype=torch.long),
        lengths=torch.full((size,), tokens),
        jitter=torch.full((size,), 0.5),
        uniforms=spread.expand(size, width).clone(),
        place=torch.arange(size) * job.recipe.processes,
        caption_hash=torch.arange(size),
        replacement=spread.expand(size, width).clone() if _fills_up(job) else None,
        condition=torch.zeros(size, 1 + frozen.tokens) if _fills_up(job) and frozen is not None else None,
    )


def _fills_up(job: PretrainJob) -> bool:
    """Whether captions are filled up to the places of the longest, and all of them are learnt."""
    return job.method.objective == "mask_and_replace"


def in_words(job: PretrainJob, captions: Captions, held: Held) -> str:
    """One line of plain words."""
    recipe = job.recipe
    size = recipe.batch_size // recipe.processes // recipe.accumulation
    where = {"cpu": "in each process", "cuda": "on each GPU"}.get(recipe.device, "on each device")
    average = f", their average {gigabytes(held.average)}" if held.average else ""
    again = ", which recompute keeps low" if recipe.recompute else ""
    return (
        f"memory of a step of {job.job.removeprefix('runs/')} in {recipe.precision}: "
        f"weights {gigabytes(held.weights)}{average}, gradients {gigabytes(held.gradients)}, Adam {gigabytes(held.adam)}, "
        f"activations of {size} images with {captions.why} {gigabytes(held.activations)}{again}; "
        f"at its most about {gigabytes(held.all)} {where} ({recipe.processes} of them), before what PyTorch itself takes"
    )


def gigabytes(count: int) -> str:
    """Bytes as 10⁹ bytes, or as 10⁶ where these are few."""
    return f"{count / 1e9:.2f} GB" if count >= 1e7 else f"{count / 1e6:.2f} MB"
