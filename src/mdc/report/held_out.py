"""Scores of held-out pairs, each image with each caption: retrieval, and the weight α of the language prior to subtract."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mdc.plan.records import UserError

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Matrix:
    """``scores`` (N images, N captions); ``pieces`` (N,): BPE tokens of the captions; ``captions``: equal for equal captions."""

    keys: tuple[str, ...]
    scores: Floats
    pieces: NDArray[np.int64]
    captions: tuple[Any, ...]

    @property
    def same(self) -> NDArray[np.bool_]:
        """(N, N): whether two captions are equal, so that both are right answers."""
        codes = np.array([self.captions.index(caption) for caption in self.captions])
        return np.asarray(codes[:, None] == codes[None, :])


def read_matrix(file: Path, record: dict[str, Any], estimator: str) -> Matrix:
    """The scores of one estimator beside the record of a retrieval job; UserError if they are no numbers."""
    from safetensors import safe_open

    with safe_open(str(file), framework="numpy") as tensors:
        scores, pieces = tensors.get_tensor(estimator), tensors.get_tensor("pieces")
    if np.isnan(scores).any():
        raise UserError(f"{file}: scores by {estimator} are no numbers (NaN); score again, with weights that are")
    captions = tuple(tuple(caption) for caption in record["captions"])
    return Matrix(tuple(record["keys"]), scores.astype(np.float64), pieces.astype(np.int64), captions)


def mismatched_scores(scores: Floats, others: int | None = None) -> Floats:
    """The mismatched-image control (N, N): for image i and caption c the log of the caption's mean probability under all N images
    but i, or under ``others`` of them, drawn for each image.

    The query image i is left out, for right and wrong captions alike. Leaving out the caption's own image would leak the answer.
    """
    count = len(scores)
    if others is not None and others < count - 1:
        rng = np.random.default_rng(0)
        drawn = [rng.permutation(np.delete(np.arange(count), image))[:others] for image in range(count)]
        return np.stack([np.logaddexp.reduce(scores[images], axis=0) for images in drawn]) - np.log(others)
    edge = np.full((1, scores.shape[1]), -np.inf)
    # log of the sums over the images before and behind each, so that nothing is subtracted from a sum
    before = np.concatenate([edge, np.logaddexp.accumulate(scores, axis=0)[:-1]])
    behind = np.concatenate([np.logaddexp.accumulate(scores[::-1], axis=0)[-2::-1], edge])
    return np.asarray(np.logaddexp(before, behind) - np.log(count - 1))


def prior_subtracted(scores: Floats, alpha: float) -> Floats:
    """Scores minus α times :func:`mismatched_scores`, (N, N)."""
    return np.asarray(scores - alpha * mismatched_scores(scores))


def recall(scores: Floats, right: NDArray[np.bool_], count: int) -> Floats:
    """The probability, (N,), that a right answer is among the ``count`` highest scores of each row, if ties are broken at random.
    ``scores``, ``right`` (N, M)."""
    best = np.where(right, scores, -np.inf).max(axis=1, keepdims=True)
    level = scores == best
    drawn = zip((level & ~right).sum(axis=1), (level & right).sum(axis=1), (scores > best).sum(axis=1), strict=True)

    def probability(wrong: int, right_count: int, above: int) -> float:
        # places left for the ties with the best right answer
        places = min(max(count - above, 0), wrong + right_count)
        return 1 - math.comb(wrong, places) / math.comb(wrong + right_count, places)

    return np.array([probability(*map(int, row)) for row in drawn])


def best_alpha(
    scores: Floats,
    right: NDArray[np.bool_],
    alphas: Sequence[float],
    tokens: NDArray[np.int64] | None = None,
    others: int | None = None,
) -> float:
    """The α with the highest image-to-text R@1; the least of equals.

    ``tokens`` (N,): of each caption, if scores are divided by them. ``others``: the number of mismatched images that α will be
    used with, since with fewer images the best α is smaller.
    """
    mismatched = mismatched_scores(scores, others)

    def recall_at_1(alpha: float) -> float:
        taken = scores - alpha * mismatched
        # ties count as fractions, whose sum depends on their order in the last bit
        return round(float(recall(taken if tokens is None else taken / tokens, right, 1).mean()), 12)

    return min((-recall_at_1(alpha), alpha) for alpha in alphas)[1]
