"""The mismatched-image control of a caption's score, with its standard error.

The images of an item share their masks, so the errors of their scores are correlated, also with that of the caption's own
image. Scores are therefore combined within each of the 16 groups of masks, and the spread of the groups gives the error of
the combination (docs/scoring.md).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from mdc.evaluation.predictors.caption_scores import Scored


@dataclass(frozen=True)
class Mismatched:
    """``value`` and its standard ``error``; ``covariance`` of its error with that of the score with the caption's own image.

    0 without sampling. The error of own − α·mismatched is √(own.error² − 2α·covariance + α²·error²).
    """

    value: float
    error: float
    covariance: float


def log_mean_probability(own: Scored, others: Sequence[Scored]) -> Mismatched:
    """The log of the mean of e^score over ``others``, k ≥ 1 scores in nats.

    Its error is that of its linear part (the delta method): score j weighs softmax(scores)_j.
    """
    values = torch.tensor([score.value for score in others], dtype=torch.float64)
    value = float(values.logsumexp(dim=0)) - math.log(len(others))
    return _with_error(value, values.softmax(dim=0), own, others)


def mean_score(own: Scored, others: Sequence[Scored]) -> Mismatched:
    """The mean of ``others``, k ≥ 1 scores."""
    weights = torch.full((len(others),), 1 / len(others), dtype=torch.float64)
    return _with_error(sum(score.value for score in others) / len(others), weights, own, others)


def _with_error(value: float, weights: Tensor, own: Scored, others: Sequence[Scored]) -> Mismatched:
    groups = [score.groups for score in others if score.groups is not None]
    if own.groups is None or len(groups) < len(others):
        return Mismatched(value, 0.0, 0.0)
    stacked = torch.stack([own.groups, weights @ torch.stack(groups)])
    covariance = stacked.cov() / stacked.shape[1]
    return Mismatched(value, math.sqrt(float(covariance[1, 1])), float(covariance[0, 1]))
