"""Layers whose activations are computed again in the backward pass, so that memory holds those of one layer at a time."""

from __future__ import annotations

from functools import partial
from typing import Any

from torch import nn
from torch.utils.checkpoint import checkpoint

from mdc.models.encoder import Encoder
from mdc.models.image_text import ImageText


def recompute_layers(model: ImageText) -> None:
    """Let every layer of a model's towers keep its inputs alone. Gradients stay what they are: nothing in a layer is random."""
    text: Any = model.text
    layers: list[nn.Module] = [*text.blocks]
    if isinstance(model.encoder, Encoder):
        layers += model.encoder.tower.transformer.resblocks
    for layer in layers:
        layer.forward = partial(checkpoint, layer.forward, use_reentrant=False, preserve_rng_state=False)
