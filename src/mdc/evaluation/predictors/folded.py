"""What scoring and decoding share: images read once, logits computed only where needed, and batches of equal length."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

import torch
from torch import Tensor

from mdc.models.image_text import TokenCaptioner
from mdc.models.memory import Memory
from mdc.models.precision import autocast

One = TypeVar("One")

_BLOCK, _ROWS_ON_GPU = 1 << 23, 4096  # logits that live at a time, but at least so many rows of them on a GPU


@torch.no_grad()
def read_images(model: TokenCaptioner, images: Tensor, precision: str) -> Memory:
    """The memory of images (I, 3, S, S) uint8, on the model's device."""
    with autocast(images.device, precision):
        return model.remember(model.visual(model.encoder.prepared(images)))


def log_probabilities(model: TokenCaptioner, hidden: Tensor, targets: Tensor) -> Tensor:
    """Of each row the log probability of its target, (N,) float32.

    ``hidden`` (N, W); ``targets`` (N,) int64.
    """
    out = torch.empty(len(hidden), device=hidden.device)
    for part, logits in logit_blocks(model, hidden):
        out[part] = logits.gather(1, targets[part, None]).squeeze(1) - logits.logsumexp(dim=-1)
    return out


def confidences(model: TokenCaptioner, hidden: Tensor) -> Tensor:
    """The greatest log probability over the vocabulary of each row of ``hidden`` (N, W), (N,) float32."""
    out = torch.empty(len(hidden), device=hidden.device)
    for part, logits in logit_blocks(model, hidden):
        out[part] = logits.amax(dim=-1) - logits.logsumexp(dim=-1)
    return out


def logit_blocks(model: TokenCaptioner, hidden: Tensor) -> Iterator[tuple[slice, Tensor]]:
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
