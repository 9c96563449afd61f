"""Random masks for scoring: one set of draws per item, shared by all its captions and images.

Captions of equal length get the same masks, so that their scores do not differ by the masks. Captions of other lengths share
the share l/L of masked tokens and the order of the places, in which EOT has a key of its own. A draw depends on the item
alone.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from mdc.diffusion.likelihood import masked_places, shifted

#: independently shifted groups of samples; their spread is the standard error (docs/scoring.md)
GROUPS = 16


@dataclass(frozen=True)
class Draws:
    """The draws of the item of this name for up to ``samples`` samples, a multiple of 16, of captions of up to ``places`` tokens
    (the context length). Fewer samples are a prefix of the same draws; another ``places`` gives other draws. Drawn on first
    use."""

    item: str
    seed: int
    samples: int
    places: int

    def __post_init__(self) -> None:
        if self.samples < GROUPS or self.samples % GROUPS:
            raise ValueError(f"{self.samples} samples: must be a multiple of {GROUPS}")

    @cached_property
    def _drawn(self) -> tuple[Tensor, Tensor]:
        """Offsets (G,) of the shares of masked tokens, keys (m, G, places) of places; in [0, 1)."""
        digest = hashlib.blake2b(f"{self.seed} {self.item}".encode("utf-8", "replace"), digest_size=16).digest()
        rng = np.random.Generator(np.random.Philox(key=int.from_bytes(digest)))
        offsets, keys = rng.random(GROUPS), rng.random((self.samples // GROUPS, GROUPS, self.places))
        return torch.from_numpy(offsets), torch.from_numpy(keys)

    def masks(self, length: int, counts_of: Callable[[Tensor], Tensor], count: int) -> Tensor:
        """The first ``count`` samples of each group, (G, count, L) bool for a caption of L = ``length`` tokens.

        ``counts_of``: points in [0, 1) → numbers of masked tokens. A sample does not depend on ``count``.
        """
        offsets, keys = self._drawn
        keys = keys[:count].transpose(0, 1)
        counts = counts_of(shifted(offsets, count, base=2))
        return masked_places(counts, torch.cat([keys[..., 1:length], keys[..., :1]], dim=-1))
