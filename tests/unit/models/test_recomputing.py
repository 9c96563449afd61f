"""Activations that are computed again change no bit of a gradient, and memory holds fewer of them."""

from __future__ import annotations

import pytest
import torch
import toy
from torch import Tensor

from mdc.models.recomputing import recompute_layers


def gradients(method: str, recompute: bool) -> tuple[dict[str, Tensor], int]:
    """A step's gradients, and how many numbers the backward pass was left."""
    model = toy.build_model(toy.METHODS[method], toy.BACKBONE, toy.PROTOCOL, toy.V, 77, seed=0)
    if recompute:
        recompute_layers(model)
    objective = toy.build_objective(model, toy.METHODS[method], toy.PROTOCOL, toy.MASK, 8, "fp32")
    kept: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        toy.backward(objective, toy.batch(8))
    return {name: p.grad for name, p in model.named_parameters() if p.grad is not None}, sum(kept.values())


@pytest.mark.parametrize("method", ["mdc", "arc", "clip"])
def test_gradients_are_equal_to_the_bit(method: str) -> None:
    (plain, memory), (again, less) = gradients(method, False), gradients(method, True)
    assert plain.keys() == again.keys()
    assert all(torch.equal(gradient, again[name]) for name, gradient in plain.items())
    assert less < memory / 2
