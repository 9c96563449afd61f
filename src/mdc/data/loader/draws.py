"""Random streams of samples: one of each sample and epoch for all that every objective draws, and others for a few."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from mdc.data.loader.batch import CaptionBatch

# The last word of a Philox counter says what the draws are for, so that no two purposes share a number.
SAMPLE, ORDER, VALIDATION, _REPLACEMENT, _CONDITION, _VALIDATION_REPLACEMENT, BLOCKS, WINDOW, _MASKS = range(9)


def sample_rng(seed: int, epoch: int, index: int, stream: int = SAMPLE) -> np.random.Generator:
    """Generator of one sample's draws: Philox with key ``seed`` and counter [0, index, epoch, stream]."""
    return np.random.Generator(np.random.Philox(key=seed, counter=[0, index, epoch, stream]))


@dataclass(frozen=True)
class MoreDraws:
    """What methods that replace tokens, or read a part of an image, draw besides: a number a token place, and, in training, one a
    sample and one for each of ``vectors`` of its condition. No draw that other methods make depends on them."""

    context_length: int
    vectors: int

    def of_training(self, batch: CaptionBatch, seed: int, epoch: int, indices: Sequence[int]) -> CaptionBatch:
        """The batch of the samples ``indices`` with these draws."""
        found = replace(batch, replacement=self._replacement(batch, [(seed, epoch, i, _REPLACEMENT) for i in indices]))
        streams = [sample_rng(seed, epoch, index, _CONDITION) for index in indices]
        return replace(found, condition=_drawn(streams, 1 + self.vectors))

    def of_validation(self, batch: CaptionBatch, indices: Sequence[int]) -> CaptionBatch:
        """The same of held-out samples, which are always the same and whose condition is complete."""
        return replace(
            batch, replacement=self._replacement(batch, [(0, 0, i, _VALIDATION_REPLACEMENT) for i in indices])
        )

    def _replacement(self, batch: CaptionBatch, names: Sequence[tuple[int, int, int, int]]) -> torch.Tensor:
        # of the whole context, so that a place's number does not depend on the batch's width
        return _drawn([sample_rng(*name) for name in names], self.context_length)[:, : batch.tokens.shape[1]].clone()


@dataclass(frozen=True)
class FewMasks:
    """The token places' numbers of ``masks`` passes, again and again: a caption has so many masks and no others.

    No other draw depends on them, so a run differs from one with new masks in every pass in nothing else.
    """

    context_length: int
    masks: int

    def of_training(self, batch: CaptionBatch, seed: int, epoch: int, indices: Sequence[int]) -> CaptionBatch:
        """The batch of the samples ``indices`` with these draws."""
        found = _drawn([sample_rng(seed, epoch % self.masks, i, _MASKS) for i in indices], self.context_length)
        # of the whole context, so that a place's number does not depend on the batch's width
        return replace(batch, uniforms=found[:, : batch.tokens.shape[1]].clone())

    def of_validation(self, batch: CaptionBatch, indices: Sequence[int]) -> CaptionBatch:
        """Held-out samples always have the same numbers."""
        return batch


def _drawn(streams: Sequence[np.random.Generator], count: int) -> torch.Tensor:
    return torch.from_numpy(np.stack([stream.random(count, dtype=np.float32) for stream in streams]))
