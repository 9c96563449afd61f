"""The memory of a training step (`mdc config RUN --memory`) and its operations, without computing it.

A whole step of the run's objective runs on PyTorch's fake tensors. Their bytes are counted while they exist, and PyTorch's
FlopCounterMode counts the operations of matrix products.
"""

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
from torch.utils._pytree import tree_leaves, tree_map_only

from mdc.data.loader.batch import CaptionBatch
from mdc.models import logits
from mdc.models.build import build_for
from mdc.models.recomputing import recompute_layers
from mdc.models.text import Vocabulary
from mdc.models.visual_context import count_of_tokens
from mdc.plan.config.kinds.backbones import FrozenEncoderBackbone
from mdc.plan.jobs.job import Job
from mdc.plan.jobs.model import PretrainJob
from mdc.plan.processes.group import Group
from mdc.plan.records import UserError, read_json
from mdc.training.filled import caption_lengths, filled_length
from mdc.training.objectives.micro_batches import trimmed
from mdc.training.objectives.objective import ObjectiveModule, Setup, needs_of

_FP32 = 4


@dataclass(frozen=True)
class StepMemory:
    """Bytes on each device.

    ``adam``: its two moments and step counts; ``average``: of the weights, 0 without one; ``batch``: one of the two in memory;
    ``activations``: saved by autograd for a micro-batch; ``peak_transient``: the peak of forward and backward pass, with
    activations and gradients, for which several processes keep room all the time; ``sums``: bf16 copies of the gradients for
    communication.
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
        """The peak of a step."""
        persistent = self.weights + self.adam + self.average + 2 * self.batch
        return persistent + max(self.peak_transient, self.gradients + self.sums)


@dataclass(frozen=True)
class Captions:
    """A vocabulary, and the tokens per caption with SOT and EOT; ``why``: their reason in words."""

    vocabulary: Vocabulary
    tokens: int
    why: str


class _Alike(Group):
    """A group whose processes all have the same tensors and send nothing."""

    @property
    def alone(self) -> bool:
        return True

    def gather(self, tensor: Tensor) -> Tensor:
        return torch.cat([tensor] * self.world)


def main(job: Job, folder: Path, tokens: int) -> None:
    """Print the memory of a training step. ``folder``: of the scale's results; ``tokens``: per caption, 0: those of the
    corpus."""
    if not isinstance(job, PretrainJob):
        raise UserError(f"{job.job}: --memory is of trainings alone, as runs/alt/ViT-T-12/mdc/s0")
    captions = captions_of(job, folder, tokens)
    print(in_words(job, captions, held(job, captions)))


def captions_of(job: PretrainJob, folder: Path, tokens: int) -> Captions:
    """The corpus's vocabulary and mean caption length (or the fixed length of the method), if they exist; else CLIP's whole
    vocabulary, and captions that fill the context. UserError for impossible ``tokens``."""
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
    """Captions of the mean length of the corpus with this ``index``, or of the method's fixed length."""
    context, lengths = job.protocol.data.context_length, caption_lengths(index)
    if needs_of(job.method).filled:
        most = 1 + filled_length(lengths, context)
        return Captions(vocabulary, most, f"captions filled up to {most} tokens, as those of {job.corpus}")
    # a finetuning on a canvas fills a caption up to a length that is drawn from its own to the canvas's
    canvas = 1 + ((job.start.canvas if job.start is not None else None) or 0)
    counts = {min(pieces + 2, context): count for pieces, count in lengths.items()}
    total = sum((length + max(length, canvas)) / 2 * count for length, count in counts.items())
    mean = round(total / max(sum(counts.values()), 1))
    return Captions(vocabulary, max(mean, 3), f"captions of {max(mean, 3)} tokens, the mean of {job.corpus}")


def held(job: PretrainJob, captions: Captions) -> StepMemory:
    """The memory of a step of a run on each of its devices; nothing is allocated."""
    step = _Step(job, captions)
    batch = [leaf for leaf in tree_leaves(step.prepared) if isinstance(leaf, Tensor)]
    parameters = list(step.model.parameters())
    trained = [p for p in parameters if p.requires_grad]
    with step.unallocated():
        if job.recipe.processes > 1:  # DDP keeps the buckets, of which gradients are views
            for parameter in trained:
                parameter.grad = torch.zeros_like(parameter)
        buckets = [p.grad for p in trained if p.grad is not None]
        live = Live([*parameters, *step.model.buffers(), *batch, *buckets])
        with live, torch.autograd.graph.saved_tensors_hooks(live.keep, lambda tensor: tensor):
            step.objective.backward(step.prepared)
    return StepMemory(
        weights=_bytes([*parameters, *step.model.buffers()]),
        gradients=_bytes(trained),
        adam=2 * _bytes(trained) + _FP32 * len(trained),
        average=_bytes(parameters) if job.recipe.average is not None else 0,
        batch=_bytes(batch),
        activations=live.kept // job.recipe.accumulation,
        peak_transient=live.peak + _bytes(buckets),
        sums=sum(p.numel() for p in trained) * (2 if job.recipe.reduce == "bf16" and job.recipe.processes > 1 else 0),
    )


def operations(job: PretrainJob, captions: Captions) -> int:
    """Floating-point operations of matrix products in a step of each process, forward and backward, without checkpointing. Of
    attention PyTorch counts 2.5 times the forward pass for the backward one, since it recomputes the scores."""
    from torch.utils.flop_counter import FlopCounterMode

    once = job.recipe.model_copy(update={"activation_checkpointing": None, "accumulation": 1})
    step, counter = _Step(job.model_copy(update={"recipe": once}), captions), FlopCounterMode(display=False)
    with step.unallocated(), counter:
        step.objective.backward(step.prepared)
    return int(counter.get_total_flops())


class _Step:
    """A run's model and objective on fake tensors, and a batch prepared for it."""

    def __init__(self, job: PretrainJob, captions: Captions) -> None:
        recipe, self._mode, self._on_gpu = job.recipe, FakeTensorMode(), job.recipe.device != "cpu"
        module: ObjectiveModule = job.method.load("train")
        with self.unallocated():
            self.model = build_for(job, captions.vocabulary.size, job.seed)
        setup = Setup.of(job, captions.vocabulary.mask_id, group=_Alike(0, recipe.processes))
        # SOT is not diffused
        places = {"length": captions.tokens - 1} if needs_of(job.method).filled else {}
        self.objective = module.build_objective(self.model, setup, **places)
        if recipe.activation_checkpointing:
            recompute_layers(self.model)
        # prepared with real tensors: it depends on values
        batch = batch_of(job, captions.tokens, recipe.batch_size // recipe.processes)
        prepared = self.objective.prepare(batch, recipe.accumulation)
        with self.unallocated():
            self.prepared = tree_map_only(Tensor, lambda tensor: _fake(self._mode, tensor), prepared)

    @contextmanager
    def unallocated(self) -> Iterator[None]:
        """A block in which new tensors are fake CPU tensors (attention saves the same tensors as on a GPU), with the run's
        device's limit on cached logits."""
        with (
            mock.patch.object(logits, "_CACHED", 1 << 60) if self._on_gpu else nullcontext(),
            self._mode,
            NothingDrawn(),
        ):
            yield


class Live(TorchDispatchMode):
    """Bytes of tensors created in the block and still alive (``now``), their maximum (``peak``), without those ``apart``; and
    of all storages saved by autograd, each counted once (``kept``).

    PyTorch's own MemTracker does not allow modules that are called twice, as with micro-batches.
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
        """The pack hook of :func:`torch.autograd.graph.saved_tensors_hooks`."""
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
    """Fake tensors have no values: random functions get no generator."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        arguments = dict(kwargs or {})
        if func is torch.randn:
            arguments.pop("generator", None)
        return func(*args, **arguments)


def _bytes(tensors: list[Any]) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def _fake(mode: Any, tensor: Tensor) -> Tensor:
    # images are one expanded number: the fake tensor has the full size
    return torch.empty(tensor.shape, dtype=tensor.dtype) if 0 in tensor.stride() else mode.from_tensor(tensor)


def batch_of(job: PretrainJob, tokens: int, size: int) -> CaptionBatch:
    """One process's part of a batch as the loader yields it: ``size`` captions of ``tokens``, with images that take no memory."""
    backbone = job.backbone
    width = trimmed(tokens, job.protocol.data.context_length)
    frozen = backbone.frozen if isinstance(backbone, FrozenEncoderBackbone) else None
    needs = needs_of(job.method)
    draws_patches = needs.patches or (needs.filled and frozen is not None)
    image = torch.zeros((), dtype=torch.uint8 if frozen is None else torch.float16)
    shape = (3, backbone.image_size, backbone.image_size) if frozen is None else (frozen.tokens, frozen.width)
    # equidistributed draws: the mean number of tokens is masked
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
        token_draws=spread.expand(size, width).clone() if needs.filled else None,
        image_draws=torch.zeros(size, 1 + count_of_tokens(backbone)) if draws_patches else None,
    )


def in_words(job: PretrainJob, captions: Captions, held: StepMemory) -> str:
    """The memory in one line of text."""
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
    """Bytes in GB (10⁹), or MB (10⁶) below 0.01 GB."""
    return f"{count / 1e9:.2f} GB" if count >= 1e7 else f"{count / 1e6:.2f} MB"
