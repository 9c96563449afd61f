"""A caption's blind score, what a model says of it with other images than its own, with its standard error.

The images of an item share their masks, so the errors of their scores are not independent: neither of one another, nor of that
of the caption's own image. What the 16 groups of masks say of the scores is therefore added up group by group, and the
groups' spread tells the error of the sum (docs/scoring.md).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from mdc.evaluation.predictors.caption_scores import Scored


@dataclass(frozen=True)
class Blind:
    """``value`` and its standard ``error``; ``covariance`` of its error with that of the score with the caption's own image.

    0 where nothing is drawn. The error of own − α·blind is √(own.error² − 2α·covariance + α²·error²).
    """

    value: float
    error: float
    covariance: float


def log_mean_probability(own: Scored, others: Sequence[Scored]) -> Blind:
    """The log of the mean of e^score over ``others``, k ≥ 1 scores in nats.

    Its error is that of its linear part (the delta method): score j weighs softmax(scores)_j.
    """
    values = torch.tensor([one.value for one in others], dtype=torch.float64)
    value = float(values.logsumexp(dim=0)) - math.log(len(others))
    return _with_error(value, values.softmax(dim=0), own, others)


def mean_score(own: Scored, others: Sequence[Scored]) -> Blind:
    """The mean of ``others``, k ≥ 1 scores."""
    weights = torch.full((len(others),), 1 / len(others), dtype=torch.float64)
    return _with_error(sum(one.value for one in others) / len(others), weights, own, others)


def _with_error(value: float, weights: Tensor, own: Scored, others: Sequence[Scored]) -> Blind:
    drawn = [one.groups for one in others if one.groups is not None]
    if own.groups is None or len(drawn) < len(others):
        return Blind(value, 0.0, 0.0)
    both = torch.stack([own.groups, weights @ torch.stack(drawn)])
    covariance = both.cov() / both.shape[1]
    return Blind(value, math.sqrt(float(covariance[1, 1])), float(covariance[0, 1]))
