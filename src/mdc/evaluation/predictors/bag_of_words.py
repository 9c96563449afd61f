"""Scores of SuperClass runs: how likely the set of a caption's tokens is, whatever their order and number."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from mdc.evaluation.predictors.caption_scores import Pair, Scored
from mdc.models.precision import autocast
from mdc.models.superclass import SuperClass


class BagOfWords:
    """A SuperClass run; tokens are [SOT, pieces…, EOT]."""

    def __init__(self, model: SuperClass, precision: str, device: torch.device) -> None:
        self.model = model.to(device).eval()
        self.precision, self.device = precision, device

    @torch.no_grad()
    def look(self, images: Tensor) -> Tensor:
        """images (I, 3, S, S) uint8 → log probabilities of the tokens, (I, V) float32."""
        with autocast(self.device, self.precision):
            return self.model.log_probabilities(self.model.encoder.prepared(images.to(self.device))).float()

    def score(self, seen: Tensor, pairs: Sequence[Pair]) -> list[Scored]:
        """Σ log softmax over the distinct pieces of each caption; a piece that stands there again, and EOT, add nothing."""
        found = []
        for pair in pairs:
            pieces = pair.tokens[1:-1]
            first = [piece not in pieces[:place] for place, piece in enumerate(pieces)]
            each = seen[pair.image, list(pieces)].double().cpu() * torch.tensor(first)
            tokens = torch.cat([each, torch.zeros(1, dtype=torch.float64)])
            # in one order whatever the caption's, so that rounding tells no two orders apart
            found.append(Scored(float(tokens.sort().values.sum()), 0.0, tokens))
        return found
