"""Scores of captions by SuperClass: how likely the set of a caption's tokens is, whatever their order and number."""

from collections.abc import Sequence

import torch
from torch import Tensor

from mdc.evaluation.predictors.caption_scores import Draws, Pair, Scored
from mdc.extensions.neighbours.superclass.model import SuperClass
from mdc.models.precision import autocast
from mdc.plan.config.method import Method


class Scorer:
    """Scores of SuperClass runs: how likely the set of a caption's tokens is, whatever their order and number."""

    def __init__(
        self, model: SuperClass, mask_id: int, precision: str, device: torch.device, batch_tokens: int = 8192
    ) -> None:
        self.model = model.to(device).eval()
        self.precision, self.device = precision, device

    @torch.no_grad()
    def look(self, images: Tensor) -> Tensor:
        """images (I, 3, S, S) uint8 → log probabilities of the tokens, (I, V) float32."""
        with autocast(self.device, self.precision):
            return self.model.log_probabilities(self.model.encoder.prepared(images.to(self.device))).float()


def score(
    scorer: Scorer,
    method: Method,
    estimator: str,
    visual: Tensor,
    pairs: Sequence[Pair],
    draws: Sequence[Draws],
    samples: int,
) -> list[Scored]:
    """Σ log softmax over the distinct tokens of each caption; repeated tokens and EOT add nothing."""
    scores = []
    for pair in pairs:
        pieces = pair.tokens[1:-1]
        first = [piece not in pieces[:place] for place, piece in enumerate(pieces)]
        each = visual[pair.image, list(pieces)].double().cpu() * torch.tensor(first)
        tokens = torch.cat([each, torch.zeros(1, dtype=torch.float64)])
        # sorted, so that rounding does not depend on the order of tokens
        scores.append(Scored(float(tokens.sort().values.sum()), 0.0, tokens))
    return scores
