"""Trainings as bench/first_hour.py makes them: of noise, and step by step as `mdc pretrain` would."""

import gc
import json
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import cycle, islice
from pathlib import Path
from statistics import median
from typing import Any

import torch
import training_batches
from torch import Tensor

from mdc.data.loader.batch import CaptionBatch
from mdc.models.text import Vocabulary
from mdc.plan.config.kinds.backbones import Backbone
from mdc.plan.config.read import load
from mdc.plan.jobs.model import PretrainJob
from mdc.plan.jobs.plan import Plan
from mdc.plan.processes.group import SINGLE_PROCESS, Group
from mdc.training.memory import Captions, operations
from mdc.training.metrics import DeferredMetrics
from mdc.training.peaks import peak_here
from mdc.training.prefetch import DeviceBatch, prefetch_to_device
from mdc.training.run import prepare
from mdc.training.trainer import build_optimizer, optimizer_step

ROOT = Path(__file__).resolve().parents[1]
Found = dict[str, Any]
METHODS = ("mdc", "clip", "arc")


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
        job = self.plan.jobs[f"runs/{'cc12m' if self.scale == 'paper' else 'alt'}/{backbone}/{method}/s0"]
        assert isinstance(job, PretrainJob) and isinstance(job.backbone, Backbone)
        new = {"batch_size": size, "accumulation": 1, "processes": 1, "precision": "bf16", "compile": False, **recipe}
        changed: Found = {"recipe": job.recipe.model_copy(update=new)}
        if self.quick:
            short = job.backbone.decoder.model_copy(update={"layers": 2})
            changed["backbone"] = job.backbone.model_copy(update={"layers": 2, "decoder": short})
        return job.model_copy(update=changed)


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
            ids = [[caption[0], *[1] * (tokens - 2), caption[-1]] for caption in ids]
        self.mean_tokens = sum(map(len, ids)) / len(ids)
        self.made = [self._batch(ids[n * self.size :][: self.size], n * group.world + group.rank) for n in range(count)]

    def _batch(self, ids: list[list[int]], seed: int) -> CaptionBatch:
        batch = training_batches.make_batch(ids, self.vocabulary, self.image_size, seed)
        batch.place.mul_(self.group.world).add_(self.group.rank)
        return batch

    def batches(self, start: int) -> Iterator[CaptionBatch]:
        return cycle(self.made)


class Run:
    """A training as ``mdc pretrain`` prepares it, step by step through the trainer's own step."""

    def __init__(self, here: Here, job: PretrainJob, group: Group = SINGLE_PROCESS, tokens: int = 0) -> None:
        self.job, self.device, data = job, here.device, Noise(here.vocabulary, job, group, tokens)
        self.vocabulary, self.tokens = here.vocabulary, round(data.mean_tokens)
        stand_in: Any = data
        self.training = prepare(job, stand_in, here.device)
        self.training.model.train()
        self.parameters = [p for p in self.training.model.parameters() if p.requires_grad]
        self.optimizer = build_optimizer(self.training.model, job.recipe, job.protocol.pretrain)
        self.metrics = DeferredMetrics(here.device, group)
        self.number, self.losses, objective = 0, list[float](), self.training.objective
        self.prepared = [objective.prepare(batch, job.recipe.accumulation) for batch in data.made]
        self.batches: Iterator[DeviceBatch] = prefetch_to_device(
            data.batches(0), lambda batch: objective.prepare(batch, job.recipe.accumulation), here.device
        )

    def steps(self, count: int) -> float:
        """Make so many steps; seconds."""
        synchronise(self.device)
        began = time.perf_counter()
        for batch in islice(self.batches, count):
            measured = optimizer_step(self.training, self.optimizer, self.number, batch, self.metrics)
            self.losses += [values["loss"] for _, values in measured]
            self.number += 1
        synchronise(self.device)
        return time.perf_counter() - began

    def settled(self) -> list[float]:
        """The losses of all steps."""
        self.losses += [values["loss"] for _, values in self.metrics.flush()]
        return self.losses

    def resident(self) -> None:
        """From here on batches lie on the device already."""
        resident = list(islice(self.batches, len(self.prepared)))
        self.batches = cycle(resident)

    def speed(self, steps: int = 0, warm: int = 3) -> Found:
        """Images a second, share of the peak and peak memory of ``steps`` steps after ``warm`` ones, of every batch at least
        one; 0: of some three seconds."""
        first = self.steps(max(warm, len(self.prepared)))
        if self.device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(self.device)
        each = max(steps // 3, 1) if steps else min(max(round(2 / self.steps(2)), 2), 20)
        seconds = median(self.steps(each) for _ in range(3)) / each
        flops = operations(self.job, Captions(self.vocabulary, self.tokens, ""))
        peak = peak_here(self.device, self.job.recipe.precision)
        return {
            "images/s": self.job.recipe.batch_size / seconds,
            "MFU": None if peak is None else flops / seconds / peak,
            "ms/step": 1e3 * seconds,
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
    times = []
    for _ in range(warm + repeats):
        synchronise(device)
        began = time.perf_counter()
        work()
        synchronise(device)
        times.append(1e3 * (time.perf_counter() - began))
    return median(times[warm:])


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


def relative(value: Tensor, reference: Tensor) -> float:
    """The norm of the difference, over that of ``reference``."""
    return float((value.double() - reference.double()).norm() / reference.double().norm())


def section_call(name: str, path: Path, quick: bool) -> list[str]:
    """The call that measures one section."""
    return [
        str(Path(__file__).with_name("first_hour.py")),
        "--section",
        name,
        "--out",
        str(path),
        *(["--quick"] if quick else []),
    ]


def read_rows(path: Path) -> list[Found]:
    """The rows that a section has left there by now."""
    rows: list[Found] = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else []
    return rows
