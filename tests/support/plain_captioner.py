"""A captioner from its definition, for oracles: padded captions, all logits, attention head by head."""

import math
from typing import Any

import torch
from torch import Tensor

from mdc.models.decoder import Attention


def attention(layer: Attention, x: Tensor, memory: Tensor, visible: Tensor) -> Tensor:
    """visible (B, T, keys) bool."""
    width = x.shape[-1]
    if layer.cross:
        q, (k, v) = layer.query(x), layer.key_value(memory).split(width, dim=-1)
    else:
        q, k, v = layer.qkv(x).split(width, dim=-1)
    size = width // layer.heads
    outputs = []
    for h in range(layer.heads):
        part = slice(h * size, (h + 1) * size)
        score = q[..., part] @ k[..., part].transpose(1, 2) / math.sqrt(size)
        weight = score.masked_fill(~visible, float("-inf")).softmax(-1)
        outputs.append(weight @ v[..., part])
    return layer.out(torch.cat(outputs, dim=-1))


def normed(norm: Any, x: Tensor, time: Tensor | None) -> Tensor:
    """A layer norm, told the time's vector (B, W) if there is one."""
    if time is None:
        return norm(x)
    mean, variance = x.mean(-1, keepdim=True), x.var(-1, correction=0, keepdim=True)
    gain, shift = (time @ norm.change.weight.t() + norm.change.bias)[:, None].split(x.shape[-1], dim=-1)
    return (x - mean) / (variance + 1e-5).sqrt() * (1 + gain) + shift


def logits(
    model: Any,
    images: Tensor,
    tokens: Tensor,
    sees_text: Tensor,
    text: Any = None,
    time: Tensor | None = None,
    sees_image: Tensor | None = None,
) -> Tensor:
    """(B, T, V) of tokens (B, T), which see each other as ``sees_text`` (B, T, T) says, and of the image all patches or those of
    ``sees_image`` (B, M). ``text``: whose layers they pass, if not the model's own; ``time`` (B, W): what its norms are told."""
    _, memory = model.encoder(images)
    layers = text or model.text
    x = model.text.token_embedding(tokens) + model.text.positional_embedding[: tokens.shape[1]]
    patches = torch.ones(memory.shape[:2], dtype=torch.bool) if sees_image is None else sees_image
    patches = patches[:, None].expand(-1, tokens.shape[1], -1)
    for block in layers.blocks:
        x = x + attention(block.self_attention, normed(block.norm_self, x, time), x, sees_text)
        x = x + attention(block.cross_attention, normed(block.norm_cross, x, time), memory, patches)
        x = x + block.mlp(block.norm_mlp(x))
    return model.head(layers.norm(x))
