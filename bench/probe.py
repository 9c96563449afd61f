"""The linear probe against CLIP-benchmark's loop, side by side: ``python bench/probe.py [--items N --dim D ...]``.

CLIP-benchmark's ``train`` trains on CUDA only; here its moves to CUDA are undone. Both loops see the same features, one
after the other in each round, and their weights are compared. Prints one line a round and the median ratio.
The project's size is ``--items 50000 --dim 768 --classes 1000 --epochs 1``: every epoch costs the same.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import statistics
import time
from unittest import mock

import torch
import torch.nn.functional as F
from clip_benchmark.metrics import linear_probe as peer

from mdc.evaluation.linear_probe import ProbeRecipe, train_linear_probe


def ours(features: torch.Tensor, targets: torch.Tensor, classes: int, recipe: ProbeRecipe) -> torch.Tensor:
    return train_linear_probe(features, targets, classes, recipe, seed=0).weight


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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--items", type=int, default=5000)
    parser.add_argument("--dim", type=int, default=128)
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()

    torch.set_num_threads(arguments.threads)
    draws = torch.Generator().manual_seed(0)
    features = torch.randn(arguments.items, arguments.dim, generator=draws)
    targets = torch.randint(0, arguments.classes, (arguments.items,), generator=draws)
    theirs(features[:64], targets[:64], arguments.classes, ProbeRecipe(epochs=1))  # its imports are not its loop

    ratios = []
    for _ in range(arguments.rounds):
        seconds, weights = [], []
        for loop in (theirs, ours):
            start = time.perf_counter()
            weights.append(loop(features, targets, arguments.classes, ProbeRecipe(epochs=arguments.epochs)))
            seconds.append(time.perf_counter() - start)
        ratios.append(seconds[0] / seconds[1])
        same = "bit-identical" if torch.equal(*weights) else "NOT identical"
        print(f"CLIP-benchmark {seconds[0]:.2f} s, ours {seconds[1]:.2f} s, {ratios[-1]:.1f} times faster, {same}")
    print(f"median {statistics.median(ratios):.1f} times faster")


if __name__ == "__main__":
    main()
