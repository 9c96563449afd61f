"""The first hour on a machine with GPUs: what was never run or timed there, in one report to send back.

It needs no data. Each section runs in a process of its own, for a limited time, so one that fails or takes too long
ends no other, and what it had found is kept. The most informative ones come first, and those for which no time is left are named.
``--out`` gets report.md, report.json and log.txt. With ``--quick`` tiny models pass through everything, on a CPU too.

    python bench/first_hour.py --out first-hour [--minutes 60] [--only tests,kernel] [--quick]
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import cycle, islice
from pathlib import Path
from statistics import median
from typing import Any
from unittest.mock import patch

import rows
import torch
import training_batches
from torch import Tensor

from mdc.data.loader.batch import CaptionBatch
from mdc.models import cross_entropy
from mdc.models.text import Vocabulary
from mdc.plan.config.backbones import Backbone
from mdc.plan.config.caption import Beam, Unmasking
from mdc.plan.config.read import load
from mdc.plan.jobs.model import PretrainJob
from mdc.plan.jobs.plan import Plan
from mdc.plan.processes.group import ALONE, Group, local_rank, process_group
from mdc.training.device import choose_device
from mdc.training.feed import Fed, fed
from mdc.training.gradient_sums import GradientSums
from mdc.training.memory import Captions, held
from mdc.training.optimizer import build_optimizer
from mdc.training.peaks import peak_here
from mdc.training.run import prepare
from mdc.training.trainer import _step
from mdc.training.watch import Watch

ROOT = Path(__file__).resolve().parents[1]
Found = dict[str, Any]
METHODS = ("mdc", "clip", "arc")
#: smoothed losses that differ by more than this share are called apart; what rounding alone does lies below
APART = 0.03
PAIRS = 10_000_000  # of a corpus of Table 1, as docs/scales.md counts


# --- what is measured -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Here:
    """The machine, and the sizes that are measured on it: of the scale ``paper``, or of ``mini``; ``quick``: smaller still."""

    device: torch.device
    quick: bool
    scale: str = "paper"

    @cached_property
    def plan(self) -> Plan:
        return Plan(load(ROOT / "params.yaml", self.scale))

    @cached_property
    def vocabulary(self) -> Vocabulary:
        return Vocabulary.corpus(range(2000)) if self.quick else Vocabulary.full()

    @property
    def backbones(self) -> list[str]:
        return ["ViT-B-32", "ViT-B-16", "ViT-L-14"] if self.scale == "paper" else ["ViT-T-12"]

    @property
    def gpu(self) -> bool:
        return self.device.type == "cuda"

    def of(self, full: int, quick: int) -> int:
        """One of two sizes."""
        return quick if self.quick else full

    def job(self, backbone: str, method: str, size: int, **recipe: Any) -> PretrainJob:
        """The training of a scale's method and backbone, with global batches of ``size`` on this machine."""
        found = self.plan.jobs[f"runs/{'cc12m' if self.scale == 'paper' else 'alt'}/{backbone}/{method}/s0"]
        assert isinstance(found, PretrainJob) and isinstance(found.backbone, Backbone)
        own = {"batch_size": size, "accumulation": 1, "processes": 1, "precision": "bf16", "compile": False, **recipe}
        changed: Found = {"recipe": found.recipe.model_copy(update=own)}
        if self.quick:
            short = found.backbone.decoder.model_copy(update={"layers": 2})
            changed["backbone"] = found.backbone.model_copy(update={"layers": 2, "decoder": short})
        return found.model_copy(update=changed)


class Noise:
    """In the place of a corpus: a few batches of noise and random captions, again and again."""

    duplicate_share, held_out, steps = 0.0, 0, 100_000

    def __init__(self, vocabulary: Vocabulary, job: PretrainJob, group: Group, tokens: int = 0) -> None:
        """``tokens``: of every caption, SOT and EOT included; 0: as long as COCO's."""
        self.vocabulary, self.group = vocabulary, group
        self.size, self.image_size = job.recipe.batch_size // group.world, job.backbone.image_size
        count = max(2, min(8, 512 // self.size))
        ids, _ = training_batches.encoded(Path("none"), count * self.size, self.vocabulary, group.rank)
        if tokens:
            ids = [[one[0], *[1] * (tokens - 2), one[-1]] for one in ids]
        self.made = [self._batch(ids[n * self.size :][: self.size], n * group.world + group.rank) for n in range(count)]

    def _batch(self, ids: list[list[int]], seed: int) -> CaptionBatch:
        made = training_batches.make_batch(ids, self.vocabulary, self.image_size, seed)
        made.place.mul_(self.group.world).add_(self.group.rank)
        return made

    def batches(self, start: int) -> Iterator[CaptionBatch]:
        return cycle(self.made)


class Run:
    """A training as ``mdc pretrain`` prepares it, step by step through the trainer's own step."""

    def __init__(self, here: Here, job: PretrainJob, group: Group = ALONE, tokens: int = 0) -> None:
        self.job, self.device, data = job, here.device, Noise(here.vocabulary, job, group, tokens)
        stand_in: Any = data
        self.training = prepare(job, stand_in, here.device)
        self.training.model.train()
        self.parameters = [p for p in self.training.model.parameters() if p.requires_grad]
        self.optimizer = build_optimizer(self.training.model, job.recipe, job.protocol.pretrain)
        self.sums, self.watch = GradientSums(group, self.parameters), Watch(here.device, group)
        self.number, self.losses, objective = 0, list[float](), self.training.objective
        self.prepared = [objective.prepare(one, job.recipe.accumulation) for one in data.made]
        self.batches: Iterator[Fed] = fed(
            data.batches(0), lambda one: objective.prepare(one, job.recipe.accumulation), here.device
        )

    def steps(self, count: int) -> float:
        """Make so many steps; seconds."""
        synchronise(self.device)
        began = time.perf_counter()
        for batch in islice(self.batches, count):
            measured = _step(self.training, self.optimizer, self.sums, self.number, batch, self.watch)
            self.losses += [values["loss"] for _, values in measured]
            self.number += 1
        synchronise(self.device)
        return time.perf_counter() - began

    def settled(self) -> list[float]:
        """The losses of all steps."""
        self.losses += [values["loss"] for _, values in self.watch.settled()]
        return self.losses

    def resident(self) -> None:
        """From here on batches lie on the device already."""
        there = list(islice(self.batches, len(self.prepared)))
        self.batches = cycle(there)

    def speed(self, steps: int, warm: int = 3, chunks: int = 4) -> Found:
        """Images a second, share of the peak and peak memory of ``steps`` steps after ``warm`` ones."""
        first = self.steps(warm)
        if self.device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(self.device)
        each = max(steps // chunks, 1)
        taken = median(self.steps(each) for _ in range(chunks)) / each
        counted = [self.training.objective.operations(one, self.job.backbone).needed for one in self.prepared]
        peak = peak_here(self.device, self.job.recipe.precision)
        return {
            "images/s": self.job.recipe.batch_size / taken,
            "MFU": None if peak is None else sum(counted) / len(counted) / taken / peak,
            "ms/step": 1e3 * taken,
            "peak GB": peak_gigabytes(self.device),
            "first steps s": first,
        }


def synchronise(device: torch.device) -> None:
    """Wait for the device."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def peak_gigabytes(device: torch.device) -> float | None:
    """The most that was allocated since the last reset, in 10⁹ bytes; None on a CPU."""
    return torch.cuda.max_memory_allocated(device) / 1e9 if device.type == "cuda" else None


def timed(device: torch.device, work: Callable[[], object], repeats: int = 7, warm: int = 2) -> float:
    """Milliseconds of ``work``: the median of ``repeats`` after ``warm`` ones."""
    found = []
    for _ in range(warm + repeats):
        synchronise(device)
        began = time.perf_counter()
        work()
        synchronise(device)
        found.append(1e3 * (time.perf_counter() - began))
    return median(found[warm:])


def tried(what: str, measure: Callable[[], Found]) -> Found:
    """What ``measure`` finds, or why it failed; memory is free again afterwards."""
    print(f"{what} …", flush=True)
    try:
        return {"what": what, **measure()}
    except Exception as error:
        import traceback

        traceback.print_exc()
        return {"what": what, "failed": f"{type(error).__name__}: {next(iter(str(error).strip().splitlines()), '')}"}
    finally:
        gc.collect()
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        if "torch._dynamo" in sys.modules:
            torch._dynamo.reset()


def mode(compiled: bool) -> str:
    """In a word."""
    return "compiled" if compiled else "eager"


def relative(one: Tensor, other: Tensor) -> float:
    """The norm of the difference, over that of ``other``."""
    return float((one.double() - other.double()).norm() / other.double().norm())


# --- sections ---------------------------------------------------------------------------------------------------------


def gpu_tests(here: Here) -> Iterator[Found]:
    """The tests that need a GPU: counts, and the last line of what each failure says."""
    files = sorted(str(p) for p in (ROOT / "tests").rglob("test_*.py") if "mark.gpu" in p.read_text(encoding="utf-8"))
    call = [sys.executable, "-m", "pytest", "-m", "gpu", "-p", "no:cacheprovider", "-vv", "--tb=short", "--durations=8"]
    process = subprocess.Popen([*call, *files], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert process.stdout is not None
    why, last, outcomes = "", "", dict.fromkeys(("PASSED", "FAILED", "ERROR", "SKIPPED"), 0)
    for line in map(str.rstrip, process.stdout):
        print(line, flush=True)
        last, why = line or last, line if line.startswith("E  ") else why
        for outcome in outcomes:
            outcomes[outcome] += f" {outcome} " in f"{line} " and "::" in line and not line.startswith(outcome)
        if line.startswith(("FAILED ", "ERROR ")):
            yield {"what": line.partition(" - ")[0], "failed": line.partition(" - ")[2] or why}
    yield {"what": "all", "exit code": process.wait(), **outcomes, "last line": last.strip("= ")}


def two_hundred_steps(here: Here) -> Iterator[Found]:
    """200 steps of the first backbone by each method, eager and compiled. ``graphs``: compiled ones, and those after step 20."""

    def measure(method: str, compiled: bool) -> Found:
        from torch._dynamo.utils import counters

        counters.clear()
        run = Run(here, here.job(here.backbones[0], method, size, compile=compiled))
        before = run.steps(here.of(20, 2))
        graphs = counters["stats"]["unique_graphs"]
        found = run.speed(here.of(180, 4), warm=here.of(4, 1))
        losses, after = run.settled(), counters["stats"]["unique_graphs"]
        told = {"graphs": f"{after}, {after - graphs} late", "breaks": sum(counters["graph_break"].values())}
        ends = f"{losses[0]:.3f} → {losses[-1]:.3f}"
        return {**found, "first steps s": before, "loss": ends, **(told if compiled else {})}

    size = here.of(128, 8)
    for compiled in (False, True):
        for method in METHODS[: 1 if compiled and here.quick else 3]:
            what = f"{here.backbones[0]} {method}, {mode(compiled)}, batch {size}"
            yield tried(what, lambda: measure(method, compiled))  # noqa: B023


def cross_entropies(here: Here) -> Iterator[Found]:
    """Σ of weighted cross-entropies of ``rows`` rows, forward and backward; differences are from PyTorch's chunks."""

    def measure(dtype: torch.dtype, count: int) -> Found:
        generator = torch.Generator().manual_seed(0)
        hidden, matrix = (
            torch.randn(n, width, generator=generator).div(width**0.5 / scale).to(here.device).requires_grad_()
            for n, scale in ((count, 8.0), (words, 1.0))
        )
        targets = torch.randint(words, (count,), generator=generator).to(here.device)
        weights = (1 + torch.rand(count, generator=generator)).to(here.device)

        def chunks() -> Tensor:
            return cross_entropy.weighted_cross_entropy_sum(hidden, matrix, targets, weights)

        def whole() -> Tensor:
            logits = torch.nn.functional.linear(hidden, matrix).float()
            return (weights * torch.nn.functional.cross_entropy(logits, targets, reduction="none")).sum()

        def step(loss: Callable[[], Tensor]) -> list[Tensor]:
            hidden.grad = matrix.grad = None
            with torch.autocast(here.device.type, torch.bfloat16, enabled=dtype == torch.bfloat16):
                value = loss()
            value.backward()
            assert hidden.grad is not None and matrix.grad is not None
            return [value.detach(), hidden.grad, matrix.grad]

        found: Found = {}
        no_kernel = patch.object(cross_entropy, "kernel_for", lambda device, dtype: None)
        with no_kernel:
            right = [one.clone() for one in step(chunks)]
        if cross_entropy.kernel_for(here.device, dtype) is not None:
            found["difference"] = max(map(relative, step(chunks), right))
            found["kernel ms"], found["kernel GB"] = _costs(here, lambda: step(chunks))
        with no_kernel:
            found["chunks ms"], found["chunks GB"] = _costs(here, lambda: step(chunks))
        found["difference of whole"] = max(map(relative, step(whole), right))
        found["whole ms"], found["whole GB"] = _costs(here, lambda: step(whole))
        return found

    def alone() -> Found:
        from mdc.models.fused_cross_entropy import cross_entropy_

        block = torch.randn(1024, words, device=here.device).to(torch.bfloat16)
        targets, weights = torch.zeros(1024, dtype=torch.long, device=here.device), torch.ones(1024, device=here.device)
        taken = timed(here.device, lambda: cross_entropy_(block, targets, weights, True), 20)
        return {"kernel ms": taken, "TB/s": 3 * block.numel() * 2 / taken / 1e9}

    words, width = here.vocabulary.size, here.of(512, 64)
    for dtype in (torch.bfloat16, torch.float32):
        for count in (1_000, 8_192, 16_384)[: here.of(3, 1)]:
            yield tried(f"{count} rows, {str(dtype).split('.')[1]}", lambda: measure(dtype, count))  # noqa: B023
    if here.gpu:
        yield tried("the kernel alone, 1024 rows in bf16", alone)


def _costs(here: Here, work: Callable[[], object]) -> tuple[float, float | None]:
    """Milliseconds, and 10⁹ bytes at the most beside what was there."""
    work()
    there = 0
    if here.gpu:
        torch.cuda.reset_peak_memory_stats(here.device)
        there = torch.cuda.memory_allocated(here.device)
    taken = timed(here.device, work)
    peak = peak_gigabytes(here.device)
    return taken, None if peak is None else peak - there / 1e9


def rates(here: Here) -> Iterator[Found]:
    """Speed at the paper's batch: one of eight GPUs' part of it, and the whole on as many GPUs as there are, in parts."""
    each, whole = here.of(128, 8), here.of(1024, 16)
    for compiled in (False, True):
        for backbone in here.backbones:
            for method in METHODS[: 1 if compiled and here.quick else 3]:
                yield _rate(here, backbone, method, each, 1, compiled)
            if not compiled:
                yield tried(f"{backbone} clip, batch {each}, beside open_clip", lambda: _beside(here, backbone, each))  # noqa: B023
        for backbone in here.backbones:
            for method in METHODS[: 1 if here.quick else 3]:
                yield _rate(here, backbone, method, whole, whole // each, compiled)
    for processes in (2, 4, 8):
        if processes <= torch.cuda.device_count() or (here.quick and processes == 2):
            yield from _of_several(here, processes)
        else:
            yield {"what": f"{processes} GPUs", "failed": f"not here: {torch.cuda.device_count()} GPUs"}


def _rate(here: Here, backbone: str, method: str, size: int, parts: int, compiled: bool, group: Group = ALONE) -> Found:
    parts *= 2 if backbone == "ViT-L-14" and parts > 1 else 1
    own = {"accumulation": parts, "processes": group.world, "compile": compiled}
    keys = {"backbone": backbone, "method": method, "batch": size, "parts": parts, "GPUs": group.world}

    def measure() -> Found:
        return {**keys, **Run(here, here.job(backbone, method, size, **own), group).speed(here.of(12, 4), warm=3)}

    return tried(f"{backbone} {method}, {mode(compiled)}, batch {size} in {parts}, {group.world} GPU", measure)


def _beside(here: Here, backbone: str, size: int) -> Found:
    """CLIP by ours and by open_clip's loop. Both find their batches on the device: uint8 ours, normalised floats open_clip."""
    import clip_step

    from mdc.models.normalise import normalise

    job, steps = here.job(backbone, "clip", size), here.of(20, 4)
    assert isinstance(job.backbone, Backbone)
    ours = Run(here, job)
    asked = argparse.Namespace(device=str(here.device), precision="bf16")
    eps = job.protocol.pretrain.adam_eps
    model: Any = ours.training.model
    peer = clip_step.Peer(job.backbone, model, job.recipe, eps, asked)
    made: Any = ours.training.data
    there = [
        (normalise(one.images.to(here.device)), _zeros_behind(one).to(here.device)) for one in islice(made.made, 4)
    ]
    batches = [pair for pair, _ in zip(cycle(there), range(steps), strict=False)]
    ours.resident()
    ours.steps(3)
    peer.epoch(batches[:3])
    mine, theirs = [], []
    for _ in range(5):
        mine.append(size * steps / ours.steps(steps))
        theirs.append(size / timed(here.device, lambda: peer.epoch(batches), 1, 0) * 1e3 * steps)
    told = {"images/s": median(mine), "open_clip images/s": median(theirs)}
    return {**told, "ratio": median(a / b for a, b in zip(mine, theirs, strict=True))}


def _zeros_behind(batch: CaptionBatch) -> Tensor:
    """Captions as open_clip's tokenizer pads them."""
    short = torch.arange(batch.tokens.shape[1]) < batch.lengths[:, None]
    padded = torch.zeros(len(batch), training_batches.CONTEXT, dtype=torch.long)
    padded[:, : batch.tokens.shape[1]] = batch.tokens * short
    return padded


def _of_several(here: Here, processes: int) -> Iterator[Found]:
    """The whole batch on several GPUs, by torchrun."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.json"
        torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes)]
        code = subprocess.run([*torchrun, *_section("group", path, here.quick)]).returncode
        yield from _read(path)
        if code:
            yield {"what": f"{processes} processes", "failed": f"ended with code {code}; see the log"}


def group_rates(here: Here) -> Iterator[Found]:
    """What each of torchrun's processes does."""
    with process_group(int(os.environ["WORLD_SIZE"]), here.device) as group:
        for compiled in (False, True):
            for backbone in here.backbones:
                for method in METHODS[: here.of(3, 1)]:
                    parts = max(here.of(1024, 16) // here.of(128, 8) // group.world, 1)
                    yield _rate(here, backbone, method, here.of(1024, 16), parts, compiled, group)


def memory(here: Here) -> Iterator[Found]:
    """The most that eager steps allocate, and the estimate of ``mdc config --memory``; captions of 30 tokens."""

    def measure(backbone: str, method: str) -> Found:
        job = here.job(backbone, method, here.of(128, 8))
        about = held(job, Captions(here.vocabulary, 30, "")).all / 1e9
        if here.gpu:
            torch.cuda.reset_peak_memory_stats(here.device)
        Run(here, job, tokens=30).steps(3)
        real = peak_gigabytes(here.device)
        return {"estimate GB": about, "peak GB": real, "estimate / peak": about / real if real else None}

    for method in METHODS[: here.of(3, 1)]:
        for backbone in here.backbones:
            yield tried(f"{backbone} {method}", lambda: measure(backbone, method))  # noqa: B023


def curves(here: Here) -> Iterator[Found]:
    """Losses over 300 steps on a small fixed set, of mini's ViT-T/12: means of 25 steps, and the largest relative difference."""
    tiny = Here(here.device, here.quick, "mini")
    steps, window = here.of(300, 12), here.of(25, 4)

    def smoothed(method: str, precision: str, compiled: bool) -> Tensor:
        recipe = {"precision": precision, "compile": compiled, "lr": 5e-4, "warmup_steps": 20}
        run = Run(tiny, tiny.job("ViT-T-12", method, here.of(64, 8), **recipe))
        run.steps(steps)
        return torch.tensor(run.settled()).unfold(0, window, 1).mean(dim=1)

    for method in METHODS:
        print(f"{method}, bf16, eager …", flush=True)
        plain = smoothed(method, "bf16", False)
        for what, precision, compiled in (("bf16 beside fp32", "fp32", False), ("compiled beside eager", "bf16", True)):
            if here.quick and compiled and method != METHODS[0]:
                continue

            def measure() -> Found:
                other = smoothed(method, precision, compiled)  # noqa: B023
                most = float(((plain - other).abs() / other.abs()).max())  # noqa: B023
                ends = f"{float(plain[0]):.3f} → {float(plain[-1]):.3f}"  # noqa: B023
                ends_other = f"{float(other[0]):.3f} → {float(other[-1]):.3f}"
                told = "apart" if not most < APART else "together"
                return {"bf16, eager": ends, "other": ends_other, "largest difference": most, "verdict": told}

            yield tried(f"{method}, {what}", measure)


def adamw(here: Here) -> Iterator[Found]:
    """A step of AdamW over all parameters, ours and PyTorch's."""

    def measure(backbone: str) -> Found:
        run = Run(here, here.job(backbone, "mdc", here.of(16, 8)))
        groups = [{"params": g.parameters, "weight_decay": g.weight_decay} for g in run.optimizer.groups]
        theirs = torch.optim.AdamW(groups, lr=1e-4, betas=(0.9, 0.98), eps=1e-6, fused=True)
        for parameter in run.parameters:
            parameter.grad = torch.full_like(parameter, 1e-3)
        ours, other = timed(here.device, run.optimizer.step, 20), timed(here.device, theirs.step, 20)
        count = sum(p.numel() for p in run.parameters)
        speed = {"TB/s": 28 * count / ours / 1e9}  # reads weight, gradient and moments, writes all but the gradient
        return {"million parameters": count / 1e6, "ours ms": ours, "torch ms": other, **speed}

    for backbone in here.backbones[:: here.of(2, 1)]:
        yield tried(backbone, lambda: measure(backbone))  # noqa: B023


def gradients_ready(here: Here) -> Iterator[Found]:
    """Which share of the backward pass is over when each quarter of the gradients' numbers is ready."""

    def measure(method: str, compiled: bool) -> Found:
        run = Run(here, here.job(here.backbones[0], method, here.of(128, 8), compile=compiled))
        run.steps(here.of(5, 2))
        moments: list[tuple[int, Any]] = []
        begun: list[Any] = []
        backward = torch.autograd.backward

        def began(*given: Any, **named: Any) -> None:
            begun.append(_moment(here))
            backward(*given, **named)

        for parameter in run.parameters:
            parameter.register_post_accumulate_grad_hook(lambda p: moments.append((p.numel(), _moment(here))))
        shares = []
        with patch.object(torch.autograd, "backward", began):
            for _ in range(here.of(9, 3)):
                moments.clear()
                run.steps(1)
                shares.append(_quarters(begun[-1], moments))
        names = ("backward ms", "25 %", "50 %", "75 %", "100 %")
        return dict(zip(names, map(median, zip(*shares, strict=True)), strict=True))

    for compiled in (False, True):
        for method in METHODS[: here.of(3, 1)]:
            yield tried(f"{here.backbones[0]} {method}, {mode(compiled)}", lambda: measure(method, compiled))  # noqa: B023


def _moment(here: Here) -> Any:
    """Now, on the device's own clock."""
    if not here.gpu:
        return time.perf_counter()
    event = torch.cuda.Event(enable_timing=True)
    event.record()
    return event


def _quarters(began: Any, moments: list[tuple[int, Any]]) -> list[float]:
    """Milliseconds of the backward pass, and its share at which each quarter of the gradients' numbers is ready."""
    ms = [(n, began.elapsed_time(at) if isinstance(at, torch.cuda.Event) else 1e3 * (at - began)) for n, at in moments]
    total, done = sum(n for n, _ in ms), 0
    found: list[float] = []
    for count, at in ms:
        done += count
        while len(found) < 4 and done >= total * (len(found) + 1) / 4:
            found.append(at / ms[-1][1])
    return [ms[-1][1], *found]


def writing(here: Here) -> Iterator[Found]:
    """Captions a second of untrained models, and scores: passes of the decoder a second."""
    from mdc.evaluation.predictors.caption_scores import CaptionScorer, Pair
    from mdc.evaluation.predictors.draws import draws_of
    from mdc.evaluation.predictors.writing import Writer

    count, name = here.of(1024, 4), here.backbones[0]
    vocabulary = here.vocabulary
    models: dict[str, Any] = {m: Run(here, here.job(name, m, here.of(64, 8))).training.model for m in ("mdc", "arc")}
    generator = torch.Generator().manual_seed(0)
    side = models["mdc"].encoder.tower.image_size[0]
    images = torch.randint(0, 256, (count, 3, side, side), generator=generator, dtype=torch.uint8)
    keys, settings = [str(n) for n in range(count)], (vocabulary, "bf16", here.device, here.of(65_536, 8192))

    def written(method: str, length: int) -> Found:
        writer = Writer(models[method], *settings)

        def write() -> object:
            seen = writer.look(images)
            if method == "mdc":
                return writer.unmasked(seen, Unmasking(kind="unmask", lengths=[length]), keys)
            return writer.searched(seen, Beam(kind="beam", width=1, least=length, most=length))

        return {"captions/s": 1e3 * count / timed(here.device, write, here.of(3, 1), 1)}

    for length in (10, 15, 20)[: here.of(3, 1)]:
        for method, how in (("mdc", "the most confident place a step"), ("arc", "greedy")):
            what = f"{name} {method} writes {length} pieces, {how}"
            yield tried(what, lambda: written(method, length))  # noqa: B023
    ids, _ = training_batches.encoded(Path("none"), here.of(64, 2), vocabulary)
    pairs, samples = [Pair(n, one, n) for n, one in enumerate(ids)], here.of(1024, 16)
    draws = [draws_of(str(n), 0, samples, training_batches.CONTEXT) for n in range(len(ids))]

    def scored(way: str) -> Found:
        scorer = CaptionScorer(
            models["arc" if way == "autoregressive" else "mdc"],
            vocabulary.mask_id,
            "bf16",
            here.device,
            here.of(262_144, 8192),
        )

        def score() -> object:
            seen = scorer.look(images[: len(ids)] if count >= len(ids) else images)
            if way == "monte_carlo":
                return scorer.monte_carlo(seen, pairs, draws, samples)
            return getattr(scorer, way)(seen, pairs)

        passes = {"monte_carlo": samples * len(ids), "autoregressive": len(ids)}.get(
            way, sum(len(one) - 1 for one in ids)
        )
        return {"passes/s": 1e3 * passes / timed(here.device, score, here.of(3, 1), 1)}

    for way in ("monte_carlo", "heuristic", "autoregressive"):
        yield tried(f"{name} scores, {way.replace('_', ' ')}", lambda: scored(way))  # noqa: B023


def hours(here: Here, found: list[Found]) -> Iterator[Found]:
    """GPU hours of Table 1's runs over ten million pairs each, by the best images/s that ``rates`` found for a method."""
    best: dict[tuple[str, str], Found] = {}
    for one in found:
        if "images/s" in one and "backbone" in one:
            key = one["backbone"], one["method"]
            if key not in best or one["images/s"] / one["GPUs"] > best[key]["images/s"] / best[key]["GPUs"]:
                best[key] = one
    total: Found = {"what": "Table 1", "runs": 0, "GPU hours": 0.0}
    for name in sorted({run for s in here.plan.jobs["table1"].systems for run in s.runs if run.startswith("runs/")}):  # type: ignore[attr-defined]
        job = here.plan.jobs[name]
        assert isinstance(job, PretrainJob)
        rate = best.get((job.backbone_name, "clip" if job.method_name == "clip_lb" else job.method_name))
        if rate is None:
            if job.backbone_name in here.backbones:
                yield {"what": name, "failed": "its rate was not measured"}
            continue
        own = job.recipe.epochs * PAIRS / (rate["images/s"] / rate["GPUs"]) / 3600
        total = {**total, "runs": total["runs"] + 1, "GPU hours": total["GPU hours"] + own}
        yield {"what": name, "GPU hours": own, "by": rate["what"]}
    yield total


#: name → what measures it, and its seconds of eight minutes; with more minutes each has as many times more
SECTIONS: dict[str, tuple[Callable[..., Iterator[Found]], int]] = {
    "tests": (gpu_tests, 150),
    "steps": (two_hundred_steps, 150),
    "kernel": (cross_entropies, 40),
    "rates": (rates, 110),
    "memory": (memory, 45),
    "curves": (curves, 60),
    "adamw": (adamw, 25),
    "gradients": (gradients_ready, 50),
    "writing": (writing, 40),
    "hours": (hours, 10),
}


# --- the report -------------------------------------------------------------------------------------------------------


def measure_section(name: str, path: Path, quick: bool) -> None:
    """Run a section in this process; ``path`` gets its rows as they come, from the first of several processes."""
    device = choose_device("auto", local_rank())
    torch.set_num_threads(1 if quick else min(os.cpu_count() or 1, 16))
    measure = group_rates if name == "group" else SECTIONS[name][0]
    found: list[Found] = []
    for row in measure(Here(device, quick, "mini" if quick else "paper")):
        found.append(row)
        print(json.dumps(row), flush=True)
        if local_rank() == 0:
            new = path.with_suffix(".new")
            new.write_text(json.dumps(found), encoding="utf-8")
            new.replace(path)


def _section(name: str, path: Path, quick: bool) -> list[str]:
    """The call that measures one section."""
    return [str(Path(__file__).resolve()), "--section", name, "--out", str(path), *(["--quick"] if quick else [])]


def _read(path: Path) -> list[Found]:
    found: list[Found] = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else []
    return found


def run_section(name: str, limit: float, quick: bool, log: Path) -> Found:
    """A section in a process of its own for at most ``limit`` seconds: its rows, and how it ended."""
    began = time.perf_counter()
    environment = {**os.environ, "PYTHONUNBUFFERED": "1", "NO_ALBUMENTATIONS_UPDATE": "1", "TORCH_LOGS": "recompiles"}
    with tempfile.TemporaryDirectory() as folder, log.open("a", encoding="utf-8") as stream:
        stream.write(f"\n===== {name}\n")
        stream.flush()
        path = Path(folder) / "rows.json"
        call = [sys.executable, *_section(name, path, quick)]
        process = subprocess.Popen(call, stdout=stream, stderr=stream, env=environment, start_new_session=True)
        try:
            code = process.wait(limit)
            ended = "" if code == 0 else f"it ended with code {code}"
        except subprocess.TimeoutExpired:
            ended = f"it was ended after {limit:.0f} s"
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        found = _read(path)
    lines = [line for line in log.read_text(encoding="utf-8").split(f"===== {name}\n")[-1].splitlines() if line.strip()]
    told = {"ended": ended, "last lines": [line[:200] for line in lines[-8:]] if ended else []}
    return {"seconds": time.perf_counter() - began, **told, "rows": found}


def machine() -> Found:
    """What computes here."""
    gpus: list[str] = []
    if shutil.which("nvidia-smi"):
        asked = ["nvidia-smi", "--query-gpu=name,driver_version,memory.total,power.limit", "--format=csv,noheader"]
        gpus = subprocess.run(asked, capture_output=True, text=True).stdout.strip().splitlines()
    return {"GPUs": gpus, "processor": rows.machine(), "versions": rows.installed(), "command": rows.command()}


def write_report(folder: Path, about: Found, found: dict[str, Found]) -> None:
    """report.json, and report.md with a table for each section."""
    (folder / "report.json").write_text(json.dumps({**about, "sections": found}, indent=1) + "\n", encoding="utf-8")
    text = [f"# The first hour on {'; '.join(about['GPUs']) or 'a machine without a GPU'}", ""]
    text += [f"{about['processor']}. {', '.join(f'{k} {v}' for k, v in about['versions'].items())}.", ""]
    text += [f"    {about['command']}", ""]
    for name, section in found.items():
        told = " ".join(str(SECTIONS[name][0].__doc__).split())
        text += [f"## {name}", "", f"{told} {section['seconds']:.0f} s.", ""]
        if section["ended"]:
            text += [f"**{section['ended']}**", "", *(f"    {line}" for line in section["last lines"]), ""]
        columns = list(dict.fromkeys(key for row in section["rows"] for key in row))
        if columns:
            text += [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
            text += [f"| {' | '.join(_cell(row.get(key)) for key in columns)} |" for row in section["rows"]]
        text.append("")
    (folder / "report.md").write_text("\n".join(text), encoding="utf-8")


def _cell(value: Any) -> str:
    if value is None:
        return ""
    found = f"{value:.4g}" if isinstance(value, float) and abs(value) < 1000 else str(value)
    return f"{value:,.0f}" if isinstance(value, float) and abs(value) >= 1000 else found.replace("|", "¦")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("first-hour"), help="the folder of the report")
    parser.add_argument("--minutes", type=float, default=60.0, help="sections for which no time is left are dropped")
    parser.add_argument("--only", default=",".join(SECTIONS), help=f"of {','.join(SECTIONS)}")
    parser.add_argument("--quick", action="store_true", help="tiny models, to see that all works")
    parser.add_argument("--section", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.section:
        return measure_section(args.section, args.out, args.quick)
    chosen = args.only.split(",")
    if unknown := set(chosen) - set(SECTIONS):
        parser.error(f"no section {', '.join(sorted(unknown))}; allowed: {', '.join(SECTIONS)}")
    args.out.mkdir(parents=True, exist_ok=True)
    log, ends = args.out / "log.txt", time.monotonic() + 60 * args.minutes
    log.write_text("", encoding="utf-8")
    about, found = machine(), dict[str, Found]()
    for name in (name for name in SECTIONS if name in chosen):
        left, share = ends - time.monotonic(), args.minutes / 8
        if name == "hours":
            measured = list(
                hours(
                    Here(torch.device("cpu"), args.quick, "mini" if args.quick else "paper"),
                    found.get("rates", {}).get("rows", []),
                )
            )
            found[name] = {"seconds": 0.0, "ended": "", "last lines": [], "rows": measured}
        elif left < 10:
            found[name] = {"seconds": 0.0, "ended": "dropped: no time was left", "last lines": [], "rows": []}
        else:
            found[name] = run_section(name, min(SECTIONS[name][1] * share, left), args.quick, log)
        told = found[name]
        print(f"{name}: {told['seconds']:.0f} s, {len(told['rows'])} rows {told['ended']}", flush=True)
        write_report(args.out, about, found)
    print((args.out / "report.md").read_text(encoding="utf-8"))


if __name__ == "__main__":
    main()
