"""What bench/first_hour.py measures: a function for each section, which yields its rows."""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import cycle, islice
from pathlib import Path
from statistics import median
from typing import Any
from unittest.mock import patch

import torch
import training_batches
from first_hour_runs import (
    METHODS,
    ROOT,
    Found,
    Here,
    Run,
    mode,
    peak_gigabytes,
    read_rows,
    relative,
    section_call,
    timed,
    tried,
)
from torch import Tensor

from mdc.models import cross_entropy
from mdc.plan.config.decoding import Beam, Unmasking
from mdc.plan.config.kinds.backbones import Backbone
from mdc.plan.jobs.model import PretrainJob
from mdc.plan.jobs.shown import ArtefactJob
from mdc.plan.processes.group import SINGLE_PROCESS, Group, process_group
from mdc.training.memory import Captions, held

#: smoothed losses that differ by more than this share are called apart; what rounding alone does lies below
APART = 0.03
PAIRS = 10_000_000  # of a corpus of Table 1, as docs/scales.md counts


def gpu_tests(here: Here) -> Iterator[Found]:
    """The tests that need a GPU: counts, and the last line of what each failure says."""
    files = sorted(str(p) for p in (ROOT / "tests").rglob("test_*.py") if "mark.gpu" in p.read_text(encoding="utf-8"))
    call = [sys.executable, "-m", "pytest", "-m", "gpu", "-p", "no:cacheprovider", "-vv", "--tb=short", "--durations=8"]
    process = subprocess.Popen([*call, *files], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert process.stdout is not None
    last, counts = "", dict.fromkeys(("PASSED", "FAILED", "ERROR", "SKIPPED"), 0)
    for line in map(str.rstrip, process.stdout):
        print(line, flush=True)
        words, last = line.split(), line or last
        if len(words) > 1 and "::" in words[0] and words[1] in counts:
            counts[words[1]] += 1
            yield {"what": words[0].rpartition("/")[2], "outcome": words[1]}
        if line.startswith(("FAILED ", "ERROR ")):
            yield {"what": line.partition(" - ")[0], "failed": line.partition(" - ")[2]}
    yield {"what": "all", "exit code": process.wait(), **counts, "last line": last.strip("= ")}


def two_hundred_steps(here: Here) -> Iterator[Found]:
    """200 steps of the first backbone by each method, eager and compiled. ``graphs``: compiled ones, and those after step 20."""

    def measure(method: str, compiled: bool) -> Found:
        from torch._dynamo.utils import counters

        counters.clear()
        run = Run(here, here.job(here.backbones[0], method, size, compile=compiled))
        before = run.steps(here.of(20, 2))
        graphs = counters["stats"]["unique_graphs"]
        speed = run.speed(here.of(180, 4), warm=here.of(4, 1))
        losses, after = run.settled(), counters["stats"]["unique_graphs"]
        compilation = {"graphs": f"{after}, {after - graphs} late", "breaks": sum(counters["graph_break"].values())}
        ends = f"{losses[0]:.3f} → {losses[-1]:.3f}"
        return {**speed, "first steps s": before, "loss": ends, **(compilation if compiled else {})}

    size = here.of(128, 8)
    for compiled in (False, True):
        for method in METHODS[: 1 if compiled and here.quick else 3]:
            what = f"{here.backbones[0]} {method}, {mode(compiled)}, batch {size}"
            yield tried(what, partial(measure, method, compiled))


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

        row: Found = {}
        no_kernel = patch.object(cross_entropy, "kernel_for", lambda device, dtype: None)
        with no_kernel:
            right = [tensor.clone() for tensor in step(chunks)]
        if cross_entropy.kernel_for(here.device, dtype) is not None:
            row["difference"] = max(map(relative, step(chunks), right))
            row["kernel ms"], row["kernel GB"] = _costs(here, lambda: step(chunks))
        with no_kernel:
            row["chunks ms"], row["chunks GB"] = _costs(here, lambda: step(chunks))
        row["difference of whole"] = max(map(relative, step(whole), right))
        row["whole ms"], row["whole GB"] = _costs(here, lambda: step(whole))
        return row

    def alone() -> Found:
        from mdc.models.fused_cross_entropy import cross_entropy_

        block = torch.randn(1024, words, device=here.device).to(torch.bfloat16)
        targets, weights = torch.zeros(1024, dtype=torch.long, device=here.device), torch.ones(1024, device=here.device)
        milliseconds = timed(here.device, lambda: cross_entropy_(block, targets, weights, True), 20)
        return {"kernel ms": milliseconds, "TB/s": 3 * block.numel() * 2 / milliseconds / 1e9}

    words, width = here.vocabulary.size, here.of(512, 64)
    for dtype in (torch.bfloat16, torch.float32):
        for count in (1_000, 8_192, 16_384)[: here.of(3, 1)]:
            yield tried(f"{count} rows, {str(dtype).split('.')[1]}", partial(measure, dtype, count))
    if here.gpu:
        yield tried("the kernel alone, 1024 rows in bf16", alone)


def _costs(here: Here, work: Callable[[], object]) -> tuple[float, float | None]:
    """Milliseconds, and 10⁹ bytes at the most beside what was there."""
    work()
    allocated = 0
    if here.gpu:
        torch.cuda.reset_peak_memory_stats(here.device)
        allocated = torch.cuda.memory_allocated(here.device)
    milliseconds = timed(here.device, work)
    peak = peak_gigabytes(here.device)
    return milliseconds, None if peak is None else peak - allocated / 1e9


def rates(here: Here) -> Iterator[Found]:
    """Speed at the paper's batch: one of eight GPUs' part of it, and the whole on as many GPUs as there are, in parts."""
    each, whole = here.of(128, 8), here.of(1024, 16)
    for compiled in (False, True):
        for backbone in here.backbones:
            for method in METHODS[: 1 if here.quick else 3]:
                yield _rate(here, backbone, method, each, 1, compiled)
    for backbone in here.backbones:
        yield tried(f"{backbone} clip, batch {each}, beside open_clip", partial(_beside, here, backbone, each))
    for compiled in (True, False):
        for backbone in here.backbones:
            for method in METHODS[: 1 if here.quick else 3]:
                yield _rate(here, backbone, method, whole, whole // each, compiled)
    for processes in (2, 4, 8):
        if processes <= torch.cuda.device_count() or (here.quick and processes == 2):
            yield from _of_several(here, processes)
        else:
            yield {"what": f"{processes} GPUs", "failed": f"not here: {torch.cuda.device_count()} GPUs"}


def _rate(
    here: Here, backbone: str, method: str, size: int, parts: int, compiled: bool, group: Group = SINGLE_PROCESS
) -> Found:
    parts *= 2 if backbone == "ViT-L-14" and parts > 1 else 1
    recipe = {"accumulation": parts, "processes": group.world, "compile": compiled}
    keys = {"backbone": backbone, "method": method, "batch": size, "parts": parts, "GPUs": group.world}

    def measure() -> Found:
        return {**keys, **Run(here, here.job(backbone, method, size, **recipe), group).speed(here.of(0, 3))}

    return tried(f"{backbone} {method}, {mode(compiled)}, batch {size} in {parts}, {group.world} GPU", measure)


def _beside(here: Here, backbone: str, size: int) -> Found:
    """CLIP by ours and by open_clip's loop. Both find their batches on the device: uint8 ours, normalised floats open_clip."""
    import clip_step

    from mdc.models.normalise import normalise

    job, steps = here.job(backbone, "clip", size), here.of(20, 4)
    assert isinstance(job.backbone, Backbone)
    ours = Run(here, job)
    options = argparse.Namespace(device=str(here.device), precision="bf16")
    eps = job.protocol.pretrain.adam_eps
    model: Any = ours.training.model
    peer = clip_step.Peer(job.backbone, model, job.recipe, eps, options)
    data: Any = ours.training.data
    batches_on_device = [
        (normalise(batch.images.to(here.device)), clip_step.padded(batch).to(here.device))
        for batch in islice(data.made, 4)
    ]
    batches = [pair for pair, _ in zip(cycle(batches_on_device), range(steps), strict=False)]
    ours.resident()
    ours.steps(3)
    peer.epoch(batches[:3])
    mine, theirs = [], []
    for _ in range(5):
        mine.append(size * steps / ours.steps(steps))
        theirs.append(size / timed(here.device, lambda: peer.epoch(batches), 1, 0) * 1e3 * steps)
    speeds = {"images/s": median(mine), "open_clip images/s": median(theirs)}
    return {**speeds, "ratio": median(a / b for a, b in zip(mine, theirs, strict=True))}


def _of_several(here: Here, processes: int) -> Iterator[Found]:
    """The whole batch on several GPUs, by torchrun."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.json"
        torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes)]
        code = subprocess.run([*torchrun, *section_call("group", path, here.quick)]).returncode
        yield from read_rows(path)
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
            yield tried(f"{backbone} {method}", partial(measure, backbone, method))


def curves(here: Here) -> Iterator[Found]:
    """Losses over 300 steps on a small fixed set, of mini's ViT-T/12: means of 25 steps, and their largest difference, over
    the loss, or a tenth of the first one where it is below."""
    tiny = Here(here.device, here.quick, "mini")
    steps, window = here.of(300, 12), here.of(25, 4)

    def smoothed(method: str, precision: str, compiled: bool) -> Tensor:
        recipe = {"precision": precision, "compile": compiled, "lr": 5e-4, "warmup_steps": 20}
        run = Run(tiny, tiny.job("ViT-T-12", method, here.of(64, 8), **recipe))
        run.steps(steps)
        return torch.tensor(run.settled()).unfold(0, window, 1).mean(dim=1)

    def measure(plain: Tensor, method: str, precision: str, compiled: bool) -> Found:
        other = smoothed(method, precision, compiled)
        difference = float(((plain - other).abs() / other.clamp(min=0.1 * float(other[0]))).max())
        ends, ends_other = (f"{float(curve[0]):.3f} → {float(curve[-1]):.3f}" for curve in (plain, other))
        verdict = "apart" if not difference < APART else "together"  # also if one is no number
        return {"bf16, eager": ends, "other": ends_other, "largest difference": difference, "verdict": verdict}

    for method in METHODS:
        print(f"{method}, bf16, eager …", flush=True)
        plain = smoothed(method, "bf16", False)
        yield tried(f"{method}, bf16 beside fp32", partial(measure, plain, method, "fp32", False))
        if not here.quick or method == METHODS[0]:
            yield tried(f"{method}, compiled beside eager", partial(measure, plain, method, "bf16", True))


def gradients_ready(here: Here) -> Iterator[Found]:
    """Which share of the backward pass is over when each quarter of the gradients' numbers is ready."""

    def measure(method: str, compiled: bool) -> Found:
        run = Run(here, here.job(here.backbones[0], method, here.of(128, 8), compile=compiled))
        run.steps(here.of(5, 2))
        moments: list[tuple[int, Any]] = []
        begun: list[Any] = []
        backward = torch.autograd.backward

        def began(*args: Any, **named: Any) -> None:
            begun.append(_moment(here))
            backward(*args, **named)

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
            yield tried(f"{here.backbones[0]} {method}, {mode(compiled)}", partial(measure, method, compiled))


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
    shares: list[float] = []
    for count, at in ms:
        done += count
        while len(shares) < 4 and done >= total * (len(shares) + 1) / 4:
            shares.append(at / ms[-1][1])
    return [ms[-1][1], *shares]


def writing(here: Here) -> Iterator[Found]:
    """Captions a second of untrained models, and scores: passes of the decoder a second."""
    from mdc.evaluation.predictors.caption_scores import Draws, Pair

    count, name = here.of(1024, 4), here.backbones[0]
    vocabulary = here.vocabulary
    models: dict[str, Any] = {m: Run(here, here.job(name, m, here.of(64, 8))).training.model for m in ("mdc", "arc")}
    generator = torch.Generator().manual_seed(0)
    side = models["mdc"].encoder.tower.image_size[0]
    images = torch.randint(0, 256, (count, 3, side, side), generator=generator, dtype=torch.uint8)
    keys, settings = [str(n) for n in range(count)], (vocabulary, "bf16", here.device, here.of(65_536, 8192))

    def written(method: str, length: int) -> Found:
        own = here.job(name, method, here.of(64, 8)).method.load("generate")
        writer = own.Writer(models[method], *settings)
        unmask = Unmasking(kind="unmask", lengths=[length])
        search = Beam(kind="beam", num_beams=1, min_tokens=length, max_tokens=length)

        def write() -> object:
            visual = writer.look(images)
            return writer.unmasked(visual, unmask, keys) if method == "mdc" else writer.searched(visual, search)

        return {"captions/s": 1e3 * count / timed(here.device, write, here.of(3, 1), 1)}

    for length in (10, 15, 20)[: here.of(3, 1)]:
        for method, policy in (("mdc", "the most confident place a step"), ("arc", "greedy")):
            what = f"{name} {method} writes {length} pieces, {policy}"
            yield tried(what, partial(written, method, length))
    ids, _ = training_batches.encoded(Path("none"), here.of(64, 2), vocabulary)
    pairs, samples = [Pair(n, tokens, n) for n, tokens in enumerate(ids)], here.of(1024, 16)
    draws = [Draws(str(n), 0, samples, training_batches.CONTEXT) for n in range(len(ids))]

    def scored(estimator: str) -> Found:
        method = "arc" if estimator == "autoregressive" else "mdc"
        own = here.job(name, method, here.of(64, 8)).method.load("score")
        scorer = own.Scorer(models[method], vocabulary.mask_id, "bf16", here.device, here.of(262_144, 8192))

        def score() -> object:
            visual = scorer.look(images[: len(ids)] if count >= len(ids) else images)
            if estimator == "monte_carlo":
                return scorer.monte_carlo(visual, pairs, draws, samples)
            return getattr(scorer, estimator)(visual, pairs)

        passes = {"monte_carlo": samples * len(ids), "autoregressive": len(ids)}.get(
            estimator, sum(len(tokens) - 1 for tokens in ids)
        )
        return {"passes/s": 1e3 * passes / timed(here.device, score, here.of(3, 1), 1)}

    for estimator in ("monte_carlo", "heuristic", "autoregressive"):
        yield tried(f"{name} scores, {estimator.replace('_', ' ')}", partial(scored, estimator))


def hours(here: Here, measured: list[Found]) -> Iterator[Found]:
    """GPU hours of Table 1's runs over ten million pairs each, by the best images/s of ``rates`` for a method."""
    best: dict[tuple[str, str], Found] = {}
    for row in measured:
        if "images/s" in row and "backbone" in row:
            key = row["backbone"], row["method"]
            if key not in best or row["images/s"] / row["GPUs"] > best[key]["images/s"] / best[key]["GPUs"]:
                best[key] = row
    total: Found = {"what": "Table 1", "runs": 0, "GPU hours": 0.0}
    table = here.plan.jobs["table1"]
    assert isinstance(table, ArtefactJob)
    jobs = {run: here.plan.jobs.get(f"runs/{run}") for system in table.systems for run in system.runs}
    for name, job in jobs.items():
        if not isinstance(job, PretrainJob):
            continue  # an encoder that nobody trains
        rate = best.get((job.backbone_name, "clip" if job.method_name == "clip_lb" else job.method_name))
        if rate is None:
            yield {"what": name, "by": "nothing: no rate was measured"}
            continue
        gpu_hours = job.recipe.epochs * PAIRS / (rate["images/s"] / rate["GPUs"]) / 3600
        total = {**total, "runs": total["runs"] + 1, "GPU hours": total["GPU hours"] + gpu_hours}
        yield {"what": name, "GPU hours": gpu_hours, "by": rate["what"]}
    yield total
