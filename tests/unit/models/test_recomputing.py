"""Activations that are computed again change no bit of a gradient, and memory holds fewer of them."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import toy
from torch import Tensor

from mdc.models.recomputing import recompute_layers


def gradients(method: str, backbone: Any, recompute: bool) -> tuple[dict[str, Tensor], int]:
    """A step's gradients, and how many numbers the backward pass was left."""
    model = toy.model(method, backbone=backbone)
    if recompute:
        recompute_layers(model)
    objective = toy.objective(method, model)
    kept: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        toy.backward(objective, toy.batch(8))
    return toy.gradients(model), sum(kept.values())


@pytest.mark.parametrize("backbone", [toy.BACKBONE, toy.CONVOLUTIONAL], ids=["transformer", "convolutional"])
@pytest.mark.parametrize("method", ["mdc", "arc", "clip"])
def test_gradients_are_equal_to_the_bit(method: str, backbone: Any) -> None:
    (plain, memory), (again, less) = gradients(method, backbone, False), gradients(method, backbone, True)
    assert toy.same_tensors(plain, again) and any(name.startswith("encoder.tower") for name in plain)
    assert less < memory / (2 if backbone is toy.BACKBONE else 1)
