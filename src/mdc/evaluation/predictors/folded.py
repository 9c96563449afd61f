"""The captioners' decoder for scoring: many masked versions of a caption share the keys and values of one image.

The decoder's layers are those of training (:mod:`mdc.models.decoder`), with the same weights. Keys and values of an image are
computed once per layer. A caption's versions are folded into one long row of queries for the cross-attention, so keys are not
copied. All captions of a call have the same length, so nothing is padded. Logits are computed only where needed, a block at a
time.

C captions with n versions each, T tokens (SOT included), W the decoder's width, M visual tokens, E their width, H heads.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor

from mdc.models.captioner import Captioner
from mdc.models.decoder import Block
from mdc.models.memory import Memory
from mdc.models.precision import autocast
from mdc.models.recurrent import RecurrentCaptioner

#: a captioner whose decoder is a transformer, or an LSTM
AnyCaptioner = Captioner | RecurrentCaptioner
One = TypeVar("One")

_BLOCK, _ROWS_ON_GPU = 1 << 23, 4096  # logits that live at a time, but at least so many rows of them on a GPU


@torch.no_grad()
def read_images(model: AnyCaptioner, images: Tensor, precision: str) -> Memory:
    """The memory of images (I, 3, S, S) uint8, on the model's device."""
    with autocast(images.device, precision):
        return remember(model, model.visual(model.encoder.prepared(images)))


def remember(model: AnyCaptioner, visual: Tensor) -> Memory:
    """The memory of visual tokens (I, M, E), as ``model`` reads them of its encoder."""
    if isinstance(model, RecurrentCaptioner):
        return model.remember(visual)
    return Memory(tuple(block.cross_attention.remember(visual) for block in blocks_of(model)))


def hidden_states(model: AnyCaptioner, tokens: Tensor, memory: Memory) -> Tensor:
    """Hidden states (C, n, T, W) after the final norm, of ``tokens`` (C, n, T) int64 against ``memory`` of C images.

    Equal to ``model.text`` of each version without padding. For an LSTM, the input of its output layer.
    """
    if isinstance(model, RecurrentCaptioner):
        return model.hidden_states(tokens, memory)
    captions, versions, length = tokens.shape
    text = model.text
    x = text.token_embedding(tokens) + text.positional_embedding[:length]
    x = x.reshape(captions * versions, length, -1)
    time = text.time(tokens.flatten(0, 1))
    for block, (key, value) in zip(blocks_of(model), memory.layers, strict=True):
        x = x + block.self_attention(block.norm_self(x, time), causal=text.causal)
        attention = block.cross_attention
        query = attention.query(block.norm_cross(x, time)).view(captions, versions * length, attention.heads, -1)
        mixed = F.scaled_dot_product_attention(query.transpose(1, 2), key, value)
        x = x + attention.out(mixed.transpose(1, 2).reshape(x.shape))
        x = x + block.mlp(block.norm_mlp(x))
    return text.norm(x).view(captions, versions, length, -1)


def log_probabilities(model: AnyCaptioner, hidden: Tensor, targets: Tensor) -> Tensor:
    """Of each row the log probability of its target, (N,) float32.

    ``hidden`` (N, W); ``targets`` (N,) int64.
    """
    out = torch.empty(len(hidden), device=hidden.device)
    for part, logits in logit_blocks(model, hidden):
        out[part] = logits.gather(1, targets[part, None]).squeeze(1) - logits.logsumexp(dim=-1)
    return out


def confidences(model: AnyCaptioner, hidden: Tensor) -> Tensor:
    """The greatest log probability over the vocabulary of each row of ``hidden`` (N, W), (N,) float32."""
    out = torch.empty(len(hidden), device=hidden.device)
    for part, logits in logit_blocks(model, hidden):
        out[part] = logits.amax(dim=-1) - logits.logsumexp(dim=-1)
    return out


def logit_blocks(model: AnyCaptioner, hidden: Tensor) -> Iterator[tuple[slice, Tensor]]:
    """Logits over the vocabulary, float32, a block of rows at a time."""
    rows = max(_BLOCK // model.head.weight.shape[0], _ROWS_ON_GPU if hidden.is_cuda else 1)
    for start in range(0, len(hidden), rows):
        part = slice(start, start + rows)
        yield part, model.head(hidden[part]).float()


def by_length(lengths: Sequence[int], at_once: Callable[[int], int]) -> Iterator[list[int]]:
    """Places of equal ``lengths`` in batches of ``at_once(length)``, at least one."""
    places: dict[int, list[int]] = {}
    for place, length in enumerate(lengths):
        places.setdefault(length, []).append(place)
    for length, equal in places.items():
        size = max(at_once(length), 1)
        yield from (equal[start : start + size] for start in range(0, len(equal), size))


def in_order(placed: Iterable[tuple[int, One]]) -> list[One]:
    """Values sorted by their places."""
    return [value for _, value in sorted(placed, key=lambda entry: entry[0])]


def blocks_of(model: Captioner) -> list[Block]:
    """The decoder's layers."""
    return [block for block in model.text.blocks if isinstance(block, Block)]
