"""Random streams: one per sample, so that a sample can be drawn without those before it."""

from collections.abc import Sequence
from typing import TypeVar

import numpy as np

T = TypeVar("T")

# A stream's number is its position here and must not change; append new streams.
_STREAMS = (
    *("caption", "shape", "colour", "relation", "count", "background", "alt", "dense", "brief", "choices"),
    *("choices/relation", "choices/attribute", "choices/add_obj", "choices/add_att", "choices/replace_obj"),
    *("choices/replace_att", "choices/replace_rel", "choices/swap_obj", "choices/swap_att"),
    *("",) * 5,  # were streams of probes that are gone
    "choices/pairs",
)
_STREAM = {name: number for number, name in enumerate(_STREAMS)}
_SPLIT = {"train": 0, "val": 1, "test": 2}


class Draws:
    """Small random choices from a numpy generator, drawn in blocks because single draws are slow."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng
        self._left: list[float] = []

    def uniform(self) -> float:
        """A number in [0, 1)."""
        if not self._left:
            self._left = self._rng.random(48).tolist()
        return self._left.pop()

    def between(self, low: int, high: int) -> int:
        """An integer in [low, high]; ``low`` when the range is empty."""
        return low + int(self.uniform() * max(high - low + 1, 1))

    def pick(self, items: Sequence[T]) -> T:
        """One item, all equally likely."""
        return items[int(self.uniform() * len(items))]

    def chance(self, share: float) -> bool:
        """True with this probability."""
        return self.uniform() < share

    def sample(self, items: Sequence[T], count: int) -> list[T]:
        """``count`` different items in random order."""
        pool = list(items)
        return [pool.pop(int(self.uniform() * len(pool))) for _ in range(count)]


def draws_for(stream: str, split: str, seed: int, index: int, attempt: int = 0) -> Draws:
    """The random stream of one sample: Philox with the seed as its key, and everything else in its counter."""
    counter = [0, index, _STREAM[stream] * 8 + _SPLIT[split], attempt]
    return Draws(np.random.Generator(np.random.Philox(key=seed, counter=counter)))
