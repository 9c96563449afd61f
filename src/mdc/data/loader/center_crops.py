"""Images of a split in order, each resized and centre-cropped as in CLIP's evaluation, without randomness."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import torch

from mdc.data.formats.images import ImageError, center_resize, decode
from mdc.data.loader.workers import ahead
from mdc.data.shards.index import ShardReader
from mdc.plan.records import UserError

_Image = TypeVar("_Image")


def center_crops(
    reader: ShardReader, indices: Sequence[int], image_size: int
) -> tuple[torch.Tensor, list[tuple[str, dict[str, Any]]]]:
    """The central crops (B, 3, S, S) uint8 of some samples, and their keys and records."""
    images = torch.empty((len(indices), 3, image_size, image_size), dtype=torch.uint8)
    read = []
    for index, image in zip(indices, images, strict=True):
        key, data, record = reader.read(index)
        pixels = center_resize(decoded(data, key, reader, decode), image_size)
        image.copy_(torch.from_numpy(pixels).permute(2, 0, 1))
        read.append((key, record))
    return images, read


def corpus_images(
    path: str | Path, split: str, *, image_size: int, batch_size: int, start: int, stop: int, workers: int = 0
) -> Iterator[torch.Tensor]:
    """The images ``start`` to ``stop`` of a split, (B, 3, S, S) uint8; the last batch may be short. ``workers`` processes
    read and decode ahead (0: none)."""
    reader = ShardReader(path, split)
    runs = [range(first, min(first + batch_size, stop)) for first in range(start, stop, batch_size)]
    return ahead(partial(_images, reader, image_size), runs, workers)


def _images(reader: ShardReader, image_size: int, indices: range) -> torch.Tensor:
    return center_crops(reader, indices, image_size)[0]


def decoded(data: bytes, key: str, reader: ShardReader, decode: Callable[[bytes], _Image]) -> _Image:
    """The image of a sample by ``decode``; UserError, which names the sample, if it cannot be decoded."""
    try:
        return decode(data)
    except ImageError as error:
        raise UserError(f"{reader.index['name']}, split {reader.split}: image of {key} {error}") from None
