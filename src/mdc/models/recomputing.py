"""Per-layer activation checkpointing and compilation of a model's towers."""

from functools import partial
from typing import Any

from torch import nn
from torch.utils.checkpoint import checkpoint

from mdc.models.image_text import ImageText
from mdc.models.pixel_encoder import PixelEncoder


def recompute_layers(model: ImageText) -> None:
    """Activation checkpointing: every layer keeps its inputs alone and recomputes its activations in the backward pass. Gradients
    do not change: nothing in a layer is random."""
    # an LSTM has no layers: its steps are sequential
    for layer in [*_text_layers(model), *_encoder_layers(model)]:
        layer.forward = partial(checkpoint, layer.forward, use_reentrant=False, preserve_rng_state=False)


def compile_layers(model: ImageText) -> None:
    """Compile every layer of a model's towers by itself: equal layers share their code, which is compiled once, and a layer's
    gradients are ready, and on their way to other processes, while those of the layers before it are computed."""
    for layer in _encoder_layers(model) or [model.encoder]:
        layer.compile()
    for layer in _text_layers(model) or [model.text]:
        layer.compile(dynamic=True)


def _text_layers(model: ImageText) -> list[nn.Module]:
    texts: list[Any] = [model.text, getattr(model, "text_backward", None)]
    return [block for text in texts for block in getattr(text, "blocks", ())]


def _encoder_layers(model: ImageText) -> list[nn.Module]:
    return model.encoder.layers if isinstance(model.encoder, PixelEncoder) else []
