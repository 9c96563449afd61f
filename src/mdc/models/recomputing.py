"""Layers whose activations are computed again in the backward pass, so that memory holds those of one layer at a time."""

from __future__ import annotations

from functools import partial
from typing import Any

from torch import nn
from torch.utils.checkpoint import checkpoint

from mdc.models.encoder import Encoder
from mdc.models.image_text import ImageText
from mdc.models.pixel_encoder import PixelEncoder


def recompute_layers(model: ImageText) -> None:
    """Let every layer of a model's towers keep its inputs alone. Gradients stay what they are: nothing in a layer is random."""
    text: Any = model.text
    # an LSTM has no layers: its steps are one after another, each of a place
    layers: list[nn.Module] = [*getattr(text, "blocks", ())]
    encoder: Any = model.encoder
    if isinstance(encoder, Encoder):
        layers += encoder.tower.transformer.resblocks
    elif isinstance(model.encoder, PixelEncoder):
        layers += [block for stage in encoder.tower[1:] for block in stage]
    for layer in layers:
        layer.forward = partial(checkpoint, layer.forward, use_reentrant=False, preserve_rng_state=False)
