"""Scores of captions by an autoregressive model: its likelihood (paper, equation 7)."""

from collections.abc import Sequence

import torch
from torch import Tensor

from mdc.diffusion.direction import reads_backwards, right_to_left
from mdc.evaluation.predictors.caption_scores import CaptionScorer, Draws, Pair, Scored
from mdc.models.memory import Memory
from mdc.plan.config.method import Method


class Scorer(CaptionScorer):
    def autoregressive(self, memory: Memory, pairs: Sequence[Pair], reverse: bool = False) -> list[Scored]:
        """Σ log p(c_i | c_<i, V) (equation 7); ``reverse``: for a model trained on pieces from right to left."""

        def scores(tokens: Tensor, memory: Memory, _: Sequence[Pair]) -> Tensor:
            lengths = torch.full((len(tokens),), tokens.shape[1], device=tokens.device)
            inputs = right_to_left(tokens, lengths) if reverse else tokens
            hidden = self.hidden(inputs[:, None], memory)[:, 0, :-1]
            log_probs = self.log_probs(hidden.flatten(0, 1), inputs[:, 1:].flatten()).view(len(tokens), -1)
            return torch.cat([log_probs[:, :-1].flip(1), log_probs[:, -1:]], dim=1) if reverse else log_probs

        return self.exact(memory, pairs, scores)


def score(
    scorer: Scorer,
    method: Method,
    estimator: str,
    visual: Memory,
    pairs: Sequence[Pair],
    draws: Sequence[Draws],
    samples: int,
) -> list[Scored]:
    """See :class:`mdc.evaluation.predictors.score.ScoreModule`."""
    return scorer.autoregressive(visual, pairs, reverse=reads_backwards(method))
