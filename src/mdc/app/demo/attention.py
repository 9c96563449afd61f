"""Attention of each token of a caption at its decoding step: cross-attention, or an LSTM's α."""

from typing import Any

import torch
from torch import Tensor

from mdc.evaluation.predictors.writing import DecodedCaption
from mdc.models.captioner import Captioner
from mdc.models.memory import Memory
from mdc.models.text import Vocabulary


@torch.no_grad()
def cross_attention(model: Captioner, tokens: Tensor, memory: Memory) -> tuple[Tensor, Tensor]:
    """Attention weights (C, T, M), the mean over layers and heads, and hidden states (C, T, W).

    ``tokens`` (C, T) int64 read one image's ``memory``. Each row of weights sums to 1.
    """
    text = model.text
    x = text.token_embedding(tokens) + text.positional_embedding[: tokens.shape[1]]
    layers, time = [], text.time(tokens)
    for block, (key, value) in zip(model.blocks, memory.layers, strict=True):
        x = x + block.self_attention(block.norm_self(x, time), causal=text.causal)
        attention = block.cross_attention
        query = attention.query(block.norm_cross(x, time)).unflatten(-1, (attention.heads, -1)).transpose(1, 2)
        weights = (query @ key.transpose(-1, -2) * query.shape[-1] ** -0.5).softmax(dim=-1)  # (C, H, T, M)
        layers.append(weights.float().mean(dim=1))
        x = x + attention.out((weights @ value).transpose(1, 2).flatten(2))
        x = x + block.mlp(block.norm_mlp(x))
    return torch.stack(layers).mean(dim=0), text.norm(x)


@torch.no_grad()
def looked_at(
    model: Any, vocabulary: Vocabulary, memory: Memory, caption: DecodedCaption, *, reverse: bool = False
) -> Tensor:
    """Attention of each token of a caption at its decoding step, (pieces, M).

    A masked model saw the tokens revealed before, and masks up to the caption's end; an autoregressive one the tokens before
    (with ``reverse`` those after). For a given token, the whole caption is visible."""
    pieces = torch.tensor(caption.pieces, dtype=torch.int64)
    if not len(pieces):
        return torch.empty(0, memory.layers[0][0].shape[2])
    device = memory.device
    sot, eot = torch.tensor([vocabulary.sot]), torch.tensor([vocabulary.eot])
    if hasattr(model, "attention"):
        return torch.as_tensor(model.attention(torch.cat([sot, pieces])[None].to(device), memory)[0, :-1].cpu())
    if model.text.causal:
        order = pieces.flip(0) if reverse else pieces
        weights = cross_attention(model, torch.cat([sot, order])[None].to(device), memory)[0][0, :-1].cpu()
        return weights.flip(0) if reverse else weights
    steps = torch.tensor(caption.step)
    # a row per step, before its tokens were decoded; step 0: the whole caption
    moments = steps.unique()
    visible = torch.stack([pieces.masked_fill((steps >= m) & (m > 0), vocabulary.mask_id) for m in moments])
    ends = (torch.full((len(moments), 1), int(end)) for end in (sot, eot))
    first, last = ends
    weights = cross_attention(model, torch.cat([first, visible, last], dim=1).to(device), memory)[0][:, 1:-1].cpu()
    return weights[torch.searchsorted(moments, steps), torch.arange(len(pieces))]
