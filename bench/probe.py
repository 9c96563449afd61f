"""The linear probe against CLIP-benchmark's loop, side by side: ``python bench/probe.py [--items N --dim D ...]``.

CLIP-benchmark's ``train`` trains on CUDA only; here its moves to CUDA are undone. In each round its loop, ours and ours with
the fused AdamW see the same features, one after the other, and their weights are compared. Prints one line a round and the
median ratios, of seconds and of processor seconds, which other processes on the machine disturb less.

Two sizes, if none is given: a small one, where the loop's own costs count, and 50,000 × 768 with 1,000 classes, where products of
matrices do, for one epoch, since every epoch costs the same. ``--profile`` says what each part of a step takes by itself.
"""

import argparse
import contextlib
import io
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from unittest import mock

import rows
import torch
import torch.nn.functional as F
from clip_benchmark.metrics import linear_probe as peer

from mdc.evaluation import linear_probe
from mdc.evaluation.linear_probe import ProbeRecipe, train_linear_probe

#: items, dimensions, classes, epochs
SIZES = ((5000, 128, 10, 2), (50_000, 768, 1000, 1))


def ours(features: torch.Tensor, targets: torch.Tensor, classes: int, recipe: ProbeRecipe) -> torch.Tensor:
    return train_linear_probe(features, targets, classes, recipe, seed=0).weight


def fused(features: torch.Tensor, targets: torch.Tensor, classes: int, recipe: ProbeRecipe) -> torch.Tensor:
    return train_linear_probe(features, targets, classes, replace(recipe, fused=True), seed=0).weight


def theirs(features: torch.Tensor, targets: torch.Tensor, classes: int, recipe: ProbeRecipe) -> torch.Tensor:
    first = torch.randperm(len(features), generator=torch.Generator().manual_seed(0))
    data = peer.FeatureDataset(F.normalize(features, dim=-1)[first], targets[first])
    loader = torch.utils.data.DataLoader(data, batch_size=recipe.batch_size, shuffle=True)
    with (
        mock.patch.object(torch.nn.Module, "cuda", lambda self: self),
        mock.patch.object(torch.Tensor, "cuda", lambda self: self),
        mock.patch.object(torch.nn, "DataParallel", lambda module, device_ids: module),
        contextlib.redirect_stdout(io.StringIO()),
    ):
        model = peer.train(loader, features.shape[1], classes, 0, recipe.lr, recipe.epochs, False, "cpu", 0)
    return model.weight.detach()


def profiled(items: int, dim: int, classes: int) -> None:
    """Median processor milliseconds of each part of a step, each repeated by itself, its memory warm."""
    draws = torch.Generator().manual_seed(0)
    x, weight = torch.randn(64, dim, generator=draws), torch.randn(classes, dim, generator=draws) / 30
    bias, target = torch.zeros(classes), torch.randint(0, classes, (64,), generator=draws)
    rows, every = torch.randint(0, items, (64,), generator=draws), torch.randn(items, dim, generator=draws)
    residual, gradient = torch.randn(64, classes, generator=draws), torch.randn(classes, dim, generator=draws)
    state = (weight.clone(), gradient, torch.zeros_like(weight), torch.zeros_like(weight), torch.empty_like(weight))
    count = [torch.zeros(())]
    parts: dict[str, Callable[[], object]] = {
        "gather a batch": lambda: every.index_select(0, rows),
        "logits (GEMM)": lambda: torch.addmm(bias, x, weight.t()),
        "softmax and its gradient": lambda: linear_probe._softmax_residual(torch.zeros_like(residual), target),
        "gradient of the weight (GEMM)": lambda: torch.mm(residual.t(), x, out=gradient),
        "AdamW": lambda: linear_probe._adamw_(*state, 0.1, 0.0, 5),
        "AdamW, fused": lambda: linear_probe._fused_adamw_([state], count, 0.1, 0.0, 5),
    }
    for name, part in parts.items():
        times = []
        for _ in range(100):
            start = time.process_time()
            part()
            times.append(1000 * (time.process_time() - start))
        print(f"{statistics.median(times):6.2f} ms  {name}")


def compared(size: Sequence[int], arguments: argparse.Namespace) -> list[rows.Row]:
    """The three ways on features of one of SIZES."""
    items, dim, classes, epochs = size
    draws = torch.Generator().manual_seed(0)
    features = torch.randn(items, dim, generator=draws)
    targets = torch.randint(0, classes, (items,), generator=draws)
    targets[0] = classes - 1  # CLIP-benchmark takes the number of classes from the largest target
    theirs(features[:64], targets[:64], classes, ProbeRecipe(epochs=1))  # its imports are not its loop

    ratios: dict[str, list[tuple[float, float]]] = {"ours": [], "fused": []}
    seconds: dict[str, list[float]] = {"theirs": [], "ours": [], "fused": []}
    variants = {"theirs": theirs, "ours": ours, "fused": fused}
    what = f"linear probe, {items:,} × {dim}, {classes:,} classes, {epochs} epoch{'s' if epochs > 1 else ''}"
    print(what)
    for number in range(arguments.rounds):
        timed = {}
        names = list(variants)
        for name in names[number % 3 :] + names[: number % 3]:
            start, busy = time.perf_counter(), time.process_time()
            weight = variants[name](features, targets, classes, ProbeRecipe(epochs=epochs))
            timed[name] = ((time.perf_counter() - start, time.process_time() - busy), weight)
            seconds[name].append(timed[name][0][1])
        took, weights = zip(*(timed[name] for name in names), strict=True)
        for (name, speedups), (wall, busy), weight in zip(ratios.items(), took[1:], weights[1:], strict=True):
            speedups.append((took[0][0] / wall, took[0][1] / busy))
            apart = float((weights[0] - weight).abs().max())
            same = "bit-identical" if apart == 0 else f"weights at most {apart:.1e} apart"
            print(
                f"CLIP-benchmark {took[0][0]:.2f} s ({took[0][1]:.2f} of the processor), {name} {wall:.2f} s ({busy:.2f}): "
                f"{speedups[-1][0]:.1f} times faster ({speedups[-1][1]:.1f}), {same}",
                flush=True,
            )
    for name, speedups in ratios.items():
        wall, busy = (statistics.median(column) for column in zip(*speedups, strict=True))
        print(f"{name}: median {wall:.1f} times faster, {busy:.1f} in processor seconds")
    labels = {"ours": what, "fused": f"{what}, with `fused: true`"}
    setting = f"fp32, {rows.threads(arguments.threads)}"
    return [
        rows.compared(labels[name], "CLIP-benchmark's probe", "processor s", seconds[name], seconds["theirs"], setting)
        for name in labels
    ]


def main() -> None:
    parser = rows.parser(__doc__.splitlines()[0], rounds=3, threads=1)
    parser.add_argument("--items", type=int, help="one size of one's own: so many features")
    parser.add_argument("--dim", type=int, help="of so many numbers each")
    parser.add_argument("--classes", type=int)
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--profile", action="store_true", help="say what each part of a step takes, and train nothing")
    arguments = rows.arguments(parser, items=1000, epochs=1)
    chosen = [getattr(arguments, name) for name in ("items", "dim", "classes", "epochs")]
    sizes = [
        [value or usual for value, usual in zip(chosen, size, strict=True)]
        for size in (SIZES[:1] if any(chosen) else SIZES)
    ]
    torch.set_num_threads(arguments.threads)
    if arguments.profile:
        items, dim, classes, _ = sizes[-1]
        profiled(items, dim, classes)
        return
    rows.write("probe", [row for size in sizes for row in compared(size, arguments)], arguments.results)


if __name__ == "__main__":
    main()
