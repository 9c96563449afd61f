"""Scores of captions by a captioner's likelihood or its substitutes (paper, section 4.2, equations 7 and 8).

All scores are in nats, over every token that training supervises: L tokens, the BPE tokens and EOT. Estimators without
sampling have no standard error. Pairs of an image and a caption are scored in batches of captions of equal length, whatever their
images.

Captions of equal length get the same masks, so that their scores do not differ by the masks. Captions of other lengths share
the share l/L of masked tokens and the order of the places, in which EOT has a key of its own. A draw depends on the item
alone.
"""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from mdc.diffusion.likelihood import masked_places, shifted
from mdc.evaluation.predictors.folded import by_length, in_order, log_probabilities, read_images
from mdc.models.image_text import TokenCaptioner
from mdc.models.memory import Memory
from mdc.models.precision import autocast

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


@dataclass(frozen=True)
class Pair:
    """``image``: its number in a memory. ``tokens``: [SOT, pieces…, EOT]. ``item``: the number of its draws."""

    image: int
    tokens: Sequence[int]
    item: int = 0


@dataclass(frozen=True)
class Scored:
    """``value`` in nats, its standard ``error`` (0 without sampling), and the contribution of each of the L ``tokens``.

    ``groups`` (G,) float64: the value by each of the 16 groups of draws alone, None without sampling.
    """

    value: float
    error: float
    tokens: Tensor
    groups: Tensor | None = None


class CaptionScorer:
    """What the scorers of all captioners share. ``mask_id``: the input id of [MASK]. ``batch_tokens``: tokens that are computed
    at a time, a matter of memory alone."""

    def __init__(
        self, model: TokenCaptioner, mask_id: int, precision: str, device: torch.device, batch_tokens: int = 8192
    ) -> None:
        self.model = model.to(device).eval()
        self.mask_id, self.precision, self.device, self.batch_tokens = mask_id, precision, device, batch_tokens

    def look(self, images: Tensor) -> Memory:
        """images (I, 3, S, S) uint8 → what the decoder reads of them, computed once."""
        return read_images(self.model, images.to(self.device), self.precision)

    def hidden(self, tokens: Tensor, memory: Memory) -> Tensor:
        """See :meth:`mdc.models.image_text.TokenCaptioner.hidden_states`."""
        with autocast(self.device, self.precision):
            return self.model.hidden_states(tokens, memory)

    def log_probs(self, hidden: Tensor, targets: Tensor) -> Tensor:
        """See :func:`mdc.evaluation.predictors.folded.log_probabilities`."""
        with autocast(self.device, self.precision):
            return log_probabilities(self.model, hidden, targets)

    @torch.no_grad()
    def exact(
        self,
        memory: Memory,
        pairs: Sequence[Pair],
        scores: Callable[[Tensor, Memory, Sequence[Pair]], Tensor],
        versions: Callable[[int], int] = lambda length: 1,
    ) -> list[Scored]:
        """Scores without sampling: ``scores`` gives each token's contribution, (C, L); ``versions`` of a caption per call."""
        scored_pairs: list[tuple[int, Scored]] = []
        for chosen, tokens in self.batches(pairs, versions):
            part = memory.of([pairs[p].image for p in chosen])
            terms = scores(tokens, part, [pairs[p] for p in chosen]).double().cpu()
            scored_pairs += [
                (place, Scored(float(values.sum()), 0.0, values)) for place, values in zip(chosen, terms, strict=True)
            ]
        return in_order(scored_pairs)

    def batches(self, pairs: Sequence[Pair], versions: Callable[[int], int]) -> Iterator[tuple[list[int], Tensor]]:
        """Places of pairs of equal length, and their tokens (C, T): as many as ``batch_tokens`` allows, at least one."""
        lengths = [len(pair.tokens) for pair in pairs]
        for chosen in by_length(lengths, lambda length: self.batch_tokens // (length * versions(length - 1))):
            yield chosen, torch.tensor([list(pairs[p].tokens) for p in chosen], device=self.device)
