"""The probe against CLIP-benchmark's own code, run beside it on the CPU."""

from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from clip_benchmark_peer import on_the_cpu

from mdc.evaluation.linear_probe import (
    LinearProbe,
    ProbeRecipe,
    _binary_residual,
    _softmax_residual,
    predict,
    train_linear_probe,
)
from mdc.plan.records import UserError


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def peer(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    return on_the_cpu(monkeypatch)


def problem(count: int, dim: int, classes: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    draws = torch.Generator().manual_seed(seed)
    targets = torch.randint(0, classes, (count,), generator=draws)
    targets[0] = classes - 1  # CLIP-benchmark takes the number of classes from the largest target
    centres = torch.randn(classes, dim, generator=draws)
    return centres[targets] + 1.5 * torch.randn(count, dim, generator=draws), targets


def peers_layer(peer: ModuleType, features: torch.Tensor, targets: torch.Tensor, recipe: ProbeRecipe, seed: int) -> Any:
    """The layer that CLIP-benchmark trains, on what its loader gives it."""
    first = torch.randperm(len(targets), generator=torch.Generator().manual_seed(seed))
    data = peer.FeatureDataset(F.normalize(features, dim=-1)[first], targets[first])
    loader = torch.utils.data.DataLoader(data, batch_size=recipe.batch_size, shuffle=True)
    shape = features.shape[1], int(targets.max()) + 1
    return peer.train(loader, *shape, recipe.weight_decay, recipe.lr, recipe.epochs, amp=False, device="cpu", seed=seed)


@pytest.mark.parametrize(
    ("count", "dim", "classes", "recipe", "seed"),
    [
        (517, 48, 10, ProbeRecipe(), 0),  # 517 = 8 x 64 + 5: a short last batch
        (129, 7, 3, ProbeRecipe(batch_size=16), 3),  # 129 = 8 x 16 + 1: a last batch of one; odd sizes
        (40, 96, 101, ProbeRecipe(epochs=3), 1),  # fewer items than a batch
        (256, 64, 5, ProbeRecipe(weight_decay=0.03, epochs=4), 7),
        (700, 320, 200, ProbeRecipe(epochs=2, lr=0.03), 0),
        (1300, 96, 40, ProbeRecipe(epochs=3, fused=True), 4),
        (500, 33, 7, ProbeRecipe(epochs=3, weight_decay=0.02, fused=True), 4),
    ],
)
def test_weights_are_those_of_clip_benchmark_train(
    peer: ModuleType, count: int, dim: int, classes: int, recipe: ProbeRecipe, seed: int
) -> None:
    """To the bit; with the fused kernel, which rounds differently, to a hundred-thousandth."""
    features, targets = problem(count, dim, classes)
    ours = train_linear_probe(features, targets, classes, recipe, seed=seed)
    theirs = peers_layer(peer, features, targets, recipe, seed)
    for mine, other in ((ours.weight, theirs.weight), (ours.bias, theirs.bias)):
        torch.testing.assert_close(mine, other, rtol=0, atol=1e-5 if recipe.fused else 0)
    assert torch.equal(ours.weight, theirs.weight) is not recipe.fused


def test_global_generator_and_inputs_are_left_alone() -> None:
    features, targets = problem(100, 8, 4)
    kept = features.clone()
    before = torch.get_rng_state()
    train_linear_probe(features, targets, 4, ProbeRecipe(epochs=1))
    assert torch.equal(before, torch.get_rng_state())
    assert torch.equal(features, kept)


@pytest.mark.parametrize("batch", [64, 17, 1])
def test_written_out_gradients_are_autograds(batch: int) -> None:
    """Directly, since AdamW hardly sees a wrong scale of the gradient."""
    draws = torch.Generator().manual_seed(batch)
    logits = (3 * torch.randn(batch, 11, generator=draws)).requires_grad_()
    target = torch.randint(0, 11, (batch,), generator=draws)
    (expected,) = torch.autograd.grad(F.cross_entropy(logits, target), logits)
    assert torch.equal(_softmax_residual(logits.detach(), target), expected)

    labels = (torch.rand(batch, 11, generator=draws) < 0.4).float()
    loss = F.binary_cross_entropy_with_logits(logits, labels, reduction="none").sum(1).mean()
    (expected,) = torch.autograd.grad(loss, logits)
    torch.testing.assert_close(_binary_residual(logits.detach(), labels), expected)


@pytest.mark.parametrize("normalize", [True, False])
def test_predict_is_the_linear_layer(normalize: bool) -> None:
    features, _ = problem(50, 6, 3)
    probe = LinearProbe(torch.randn(3, 6), torch.randn(3), normalize)
    rows = features / features.norm(dim=1, keepdim=True) if normalize else features
    expected = torch.stack([probe.weight @ row + probe.bias for row in rows])
    torch.testing.assert_close(predict(probe, features, batch_size=7), expected)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_features_that_are_not_finite_are_refused(value: float) -> None:
    features = torch.zeros(4, 2)
    features[2, 1] = value
    with pytest.raises(UserError, match="not finite"):
        train_linear_probe(features, torch.tensor([0, 1, 2, 0]), 3)
