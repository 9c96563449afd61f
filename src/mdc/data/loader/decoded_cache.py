"""The decoded training samples of a split; as many as fit into a budget of memory are cached.

Every sample occurs once per epoch, so any choice is equally good: the first ones are kept.
"""

from typing import Any, NamedTuple

import torch

from mdc.data.formats.pixels import decode_pixels
from mdc.data.loader.center_crops import decoded
from mdc.data.shards.index import ShardReader

KEPT = 1 << 28  # bytes of pixels of one process: 256 MiB


class Sample(NamedTuple):
    """``pixels`` (H, W, 3) uint8 must not be changed."""

    key: str
    pixels: torch.Tensor
    record: dict[str, Any]


class DecodedCache:
    """``budget``: bytes of pixels that are kept; 0 if no sample recurs in this process."""

    def __init__(self, reader: ShardReader, budget: int) -> None:
        self.reader, self.room = reader, budget
        self._kept: dict[int, Sample] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_kept": {}}  # a worker keeps its own

    def read(self, numbers: list[int]) -> list[Sample]:
        """The samples of these ``numbers``; UserError names one whose image cannot be decoded.

        All are read before the first is decoded.
        """
        missing = {number: self.reader.read(number) for number in numbers if number not in self._kept}
        decoded_now = {
            number: Sample(key, decoded(data, key, self.reader, decode_pixels), record)
            for number, (key, data, record) in missing.items()
        }
        for number, sample in decoded_now.items():
            size = sample.pixels.numel()
            if size <= self.room:
                self.room -= size
                self._kept[number] = sample
        return [decoded_now[number] if number in decoded_now else self._kept[number] for number in numbers]
