"""Random streams of samples: one per sample and epoch for the draws of all objectives, and others for some objectives."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from mdc.data.loader.batch import CaptionBatch

# The last word of a Philox counter is the purpose of the draws, so that no two purposes share random numbers.
SAMPLE, ORDER, VALIDATION, _REPLACEMENT, _CONDITION, _VALIDATION_REPLACEMENT, BLOCKS, WINDOW = range(8)


def sample_rng(seed: int, epoch: int, index: int, stream: int = SAMPLE) -> np.random.Generator:
    """Generator of one sample's draws: Philox with key ``seed`` and counter [0, index, epoch, stream]."""
    return np.random.Generator(np.random.Philox(key=seed, counter=[0, index, epoch, stream]))


@dataclass(frozen=True)
class MoreDraws:
    """Further draws of methods that replace tokens, or drop parts of the image: one number per token and, in training, one per
    sample and one for each of ``vectors`` of its condition. Other draws do not depend on them."""

    context_length: int
    vectors: int

    def of_training(self, batch: CaptionBatch, seed: int, epoch: int, indices: Sequence[int]) -> CaptionBatch:
        """The batch of the samples ``indices`` with these draws."""
        replaced = replace(
            batch, token_draws=self._replacement(batch, [(seed, epoch, i, _REPLACEMENT) for i in indices])
        )
        streams = [sample_rng(seed, epoch, index, _CONDITION) for index in indices]
        return replace(replaced, image_draws=_drawn(streams, 1 + self.vectors))

    def of_validation(self, batch: CaptionBatch, indices: Sequence[int]) -> CaptionBatch:
        """The same for held-out samples: the draws are always the same, and the condition is complete."""
        return replace(
            batch, token_draws=self._replacement(batch, [(0, 0, i, _VALIDATION_REPLACEMENT) for i in indices])
        )

    def _replacement(self, batch: CaptionBatch, names: Sequence[tuple[int, int, int, int]]) -> torch.Tensor:
        # of the whole context, so that a token's number does not depend on the batch's width
        return _drawn([sample_rng(*name) for name in names], self.context_length)[:, : batch.tokens.shape[1]].clone()


def _drawn(streams: Sequence[np.random.Generator], count: int) -> torch.Tensor:
    return torch.from_numpy(np.stack([stream.random(count, dtype=np.float32) for stream in streams]))
