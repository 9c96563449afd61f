"""A training step without numbers: what it holds in memory, as `mdc config RUN --memory` says it, and its operations.

A whole step of the run's own objective goes through PyTorch's fake tensors, which say what every operation would return;
their bytes are counted while they live, and PyTorch's FlopCounterMode counts the operations of matrices.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only

from mdc.data.loader.batch import CaptionBatch
from mdc.models import logits
from mdc.models.build import build_for
from mdc.models.recomputing import recompute_layers
from mdc.models.text import Vocabulary
from mdc.models.visual_context import count_of_tokens
from mdc.plan.config.backbones import FrozenEncoderBackbone
from mdc.plan.jobs.job import Job
from mdc.plan.jobs.model import PretrainJob
from mdc.plan.parts import OBJECTIVES, load
from mdc.plan.processes.group import Group
from mdc.plan.records import UserError, read_json
from mdc.training.filled import caption_lengths, filled_length
from mdc.training.objectives.micro_batches import each_tensor, trimmed
from mdc.training.objectives.objective import ObjectiveModule, Setup

_FP32 = 4


@dataclass(frozen=True)
class StepMemory:
    """Bytes on each device.

    ``adam``: its two moments and its counts of steps; ``average``: of the weights, 0 without one; ``batch``: one that is there,
    and the next one is as large; ``activations``: what autograd keeps of a micro-batch; ``peak_transient``: the most that forward
    and backward pass hold at a time, gradients and activations included; ``sums``: rounded copies of the gradients on their way
    to other processes.
    """

    weights: int
    gradients: int
    adam: int
    average: int
    batch: int
    activations: int
    peak_transient: int
    sums: int

    @property
    def all(self) -> int:
        """The most that a step holds at a time."""
        persistent = self.weights + self.adam + self.average + 2 * self.batch
        return persistent + max(self.peak_transient, self.gradients + self.sums)


@dataclass(frozen=True)
class Captions:
    """How many ids a vocabulary has, and how many tokens a caption, SOT and EOT included; ``why`` these, in words."""

    vocabulary: Vocabulary
    tokens: int
    why: str


class _Alike(Group):
    """A group of which every process has what this one has, and sends nothing."""

    @property
    def alone(self) -> bool:
        return True

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
    vocabulary_file = folder / f"data/vocabularies/{job.vocabulary}/vocabulary.json"
    vocabulary = Vocabulary.read(vocabulary_file) if vocabulary_file.is_file() else Vocabulary.full()
    index = folder / f"data/corpora/{job.corpus}/index.json"
    if tokens:
        return Captions(vocabulary, tokens, f"captions of {tokens} tokens")
    if index.is_file():
        return captions_like(job, read_json(index), vocabulary)
    return Captions(vocabulary, context, f"captions of {context} tokens, which is the most")


def captions_like(job: PretrainJob, index: dict[str, Any], vocabulary: Vocabulary) -> Captions:
    """As long as the mean of the corpus whose ``index`` this is, or as its captions are filled up."""
    context, lengths = job.protocol.data.context_length, caption_lengths(index)
    if _fills_up(job):
        most = 1 + filled_length(lengths, context)
        return Captions(vocabulary, most, f"captions filled up to {most} tokens, as those of {job.corpus}")
    counts = {min(pieces + 2, context): count for pieces, count in lengths.items()}
    mean = round(sum(length * count for length, count in counts.items()) / max(sum(counts.values()), 1))
    return Captions(vocabulary, max(mean, 3), f"captions of {max(mean, 3)} tokens, the mean of {job.corpus}")


def held(job: PretrainJob, captions: Captions) -> StepMemory:
    """What a step of a run holds on each of its devices; nothing is allocated."""
    step = _Step(job, captions)
    batch, parameters = _tensors(step.prepared), list(step.model.parameters())
    trained = [p for p in parameters if p.requires_grad]
    with step.unallocated():
        live = Live([*parameters, *step.model.buffers(), *batch])
        with live, torch.autograd.graph.saved_tensors_hooks(live.keep, lambda tensor: tensor):
            step.objective.backward(step.prepared)
    return StepMemory(
        weights=_bytes([*parameters, *step.model.buffers()]),
        gradients=_bytes(trained),
        adam=2 * _bytes(trained) + _FP32 * len(trained),
        average=_bytes(parameters) if job.recipe.average is not None else 0,
        batch=_bytes(batch),
        activations=live.kept // job.recipe.accumulation,
        peak_transient=live.peak,
        sums=sum(p.numel() for p in trained) * (2 if job.recipe.reduce == "bf16" and job.recipe.processes > 1 else 0),
    )


def operations(job: PretrainJob, captions: Captions) -> int:
    """Floating-point operations of a step in each process, of products of matrices, forward and backward. What a recipe computes
    again to save memory is none of them."""
    from torch.utils.flop_counter import FlopCounterMode

    once = job.recipe.model_copy(update={"activation_checkpointing": None, "accumulation": 1})
    step, counter = _Step(job.model_copy(update={"recipe": once}), captions), FlopCounterMode(display=False)
    with step.unallocated(), counter:
        step.objective.backward(step.prepared)
    return int(counter.get_total_flops())


class _Step:
    """A run's model and objective without numbers, and a batch prepared for it."""

    def __init__(self, job: PretrainJob, captions: Captions) -> None:
        recipe, self._mode, self._on_gpu = job.recipe, FakeTensorMode(), job.recipe.device != "cpu"
        module: ObjectiveModule = load(OBJECTIVES, job.method.objective)
        with self.unallocated():
            self.model = build_for(job, captions.vocabulary.size, job.seed)
        setup = Setup.of(job, captions.vocabulary.mask_id, group=_Alike(0, recipe.processes))
        # SOT is no place of a caption's diffusion
        places = {"length": captions.tokens - 1} if _fills_up(job) else {}
        self.objective = module.build_objective(self.model, setup, **places)
        if recipe.activation_checkpointing:
            recompute_layers(self.model)
        # which tokens are real and which are supervised are values: of these few there are real ones
        batch = batch_of(job, captions.tokens, recipe.batch_size // recipe.processes)
        prepared = self.objective.prepare(batch, recipe.accumulation)
        with self.unallocated():
            self.prepared = each_tensor(prepared, lambda tensor: _fake(self._mode, tensor))

    @contextmanager
    def unallocated(self) -> Iterator[None]:
        """A block in which new tensors are fake ones. They say that they lie on a CPU, whose attention keeps what a GPU's does;
        as many logits live at a time as on the run's device."""
        with (
            mock.patch.object(logits, "_CACHED", 1 << 60) if self._on_gpu else nullcontext(),
            self._mode,
            NothingDrawn(),
        ):
            yield


class Live(TorchDispatchMode):
    """Bytes of what is made in the block and still there: ``now``, and the most there were, ``peak``, without those ``apart``;
    and of all that autograd has kept, each memory once, ``kept``.

    PyTorch's own MemTracker refuses a module that is called twice, as each part of a batch does.
    """

    def __init__(self, apart: list[Tensor]) -> None:
        super().__init__()
        self.now = self.peak = self.kept = 0
        self._known: Any = weakref.WeakSet(tensor.untyped_storage() for tensor in apart)
        self._saved: Any = weakref.WeakSet(self._known)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        tree_map_only(Tensor, self._add, result)
        return result

    def keep(self, tensor: Tensor) -> Tensor:
        """A tensor on its way to the backward pass, which it is for :func:`torch.autograd.graph.saved_tensors_hooks`."""
        storage = tensor.untyped_storage()
        if storage not in self._saved:
            self._saved.add(storage)
            self.kept += storage.nbytes()
        return tensor

    def _add(self, tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage not in self._known:
            self._known.add(storage)
            weakref.finalize(storage, self._gone, storage.nbytes()).atexit = False
            self.now += storage.nbytes()
            self.peak = max(self.peak, self.now)
        return tensor

    def _gone(self, size: int) -> None:
        self.now -= size


class NothingDrawn(TorchFunctionMode):
    """A fake tensor has no values, so no generator may be asked for them."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        arguments = dict(kwargs or {})
        if func is torch.randn:
            arguments.pop("generator", None)
        return func(*args, **arguments)


def _bytes(tensors: list[Any]) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def _fake(mode: Any, tensor: Tensor) -> Tensor:
    # images are one number, seen everywhere: a fake one has its full size
    return torch.empty(tensor.shape, dtype=tensor.dtype) if 0 in tensor.stride() else mode.from_tensor(tensor)


def _tensors(value: Any) -> list[Tensor]:
    tensors: list[Tensor] = []

    def note(tensor: Tensor) -> Tensor:
        tensors.append(tensor)
        return tensor

    each_tensor(value, note)
    return tensors


def batch_of(job: PretrainJob, tokens: int, size: int) -> CaptionBatch:
    """One process's part of a batch, as the loader yields it, whose images take no memory: ``size`` captions of ``tokens``."""
    backbone = job.backbone
    width = trimmed(tokens, job.protocol.data.context_length)
    frozen = backbone.frozen if isinstance(backbone, FrozenEncoderBackbone) else None
    draws_patches = job.method.patches_kept is not None or (_fills_up(job) and frozen is not None)
    image = torch.zeros((), dtype=torch.uint8 if frozen is None else torch.float16)
    shape = (3, backbone.image_size, backbone.image_size) if frozen is None else (frozen.tokens, frozen.width)
    # equally spread draws: as many tokens are masked as in the mean
    spread = (torch.arange(width) * 0.618034) % 1
    return CaptionBatch(
        images=image.expand(size, *shape),
        keys=[str(place) for place in range(size)],
        tokens=torch.zeros((size, width), dtype=torch.long),
        lengths=torch.full((size,), tokens),
        jitter=torch.full((size,), 0.5),
        uniforms=spread.expand(size, width).clone(),
        place=torch.arange(size) * job.recipe.processes,
        caption_hash=torch.arange(size),
        replacement=spread.expand(size, width).clone() if _fills_up(job) else None,
        condition=torch.zeros(size, 1 + count_of_tokens(backbone)) if draws_patches else None,
    )


def _fills_up(job: PretrainJob) -> bool:
    """Whether captions are filled up to the places of the longest, and all of them are learnt."""
    return job.method.objective == "mask_and_replace"


def in_words(job: PretrainJob, captions: Captions, held: StepMemory) -> str:
    """One line of plain words."""
    recipe = job.recipe
    size = recipe.batch_size // recipe.processes // recipe.accumulation
    where = {"cpu": "in each process", "cuda": "on each GPU"}.get(recipe.device, "on each device")
    average = f", their average {gigabytes(held.average)}" if held.average else ""
    again = ", which activation_checkpointing keeps low" if recipe.activation_checkpointing else ""
    return (
        f"memory of a step of {job.job.removeprefix('runs/')} in {recipe.precision}: "
        f"weights {gigabytes(held.weights)}{average}, gradients {gigabytes(held.gradients)}, Adam {gigabytes(held.adam)}, "
        f"activations of {size} images with {captions.why} {gigabytes(held.activations)}{again}; "
        f"at its most about {gigabytes(held.all)} {where} ({recipe.processes} of them), before what PyTorch itself takes"
    )


def gigabytes(count: int) -> str:
    """Bytes as 10⁹ bytes, or as 10⁶ where these are few."""
    return f"{count / 1e9:.2f} GB" if count >= 1e7 else f"{count / 1e6:.2f} MB"
