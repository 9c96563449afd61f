"""Results and options of the Python API (docs/api.md)."""

import warnings
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, TypedDict

from torch import Tensor

_NAMED = 20  # unknown tokens that a warning names


@dataclass(frozen=True)
class Encoded:
    """Features of B images, float32 on the CPU: ``patches`` (B, M, D) after the encoder's last norm, their mean ``patch_mean``
    (B, D), ``cls`` (B, D), ``probed`` (B, D), the feature that linear probes see (paper, section 4.2), and, of a CLIP,
    ``embedding`` (B, E), of unit length."""

    patches: Tensor
    patch_mean: Tensor
    cls: Tensor
    probed: Tensor
    embedding: Tensor | None


@dataclass(frozen=True)
class Score:
    """``score``: log p(caption | image) in nats of a captioner, or its ``estimator``'s substitute (docs/scoring.md); the cosine
    of a CLIP. ``error``: its standard error, 0 without sampling. ``tokens``: each token's contribution, empty for a cosine.
    ``mismatched``, ``mismatched_error``: the mismatched-image control, if requested. ``unknown``: tokens outside the vocabulary,
    left out of the score. If all are unknown, all numbers are NaN."""

    caption: str
    score: float
    error: float
    tokens: list[tuple[str, float]]
    mismatched: float | None
    mismatched_error: float | None
    unknown: list[str]
    estimator: str

    def plain(self) -> dict[str, Any]:
        """For JSON: None for NaN."""
        return {key: None if value != value else value for key, value in asdict(self).items()}


@dataclass(frozen=True)
class Piece:
    """A token of a caption: the ``step`` at which it was decoded, from 1 (0: given), and its ``probability`` then (None:
    given)."""

    piece: str
    step: int
    probability: float | None


@dataclass(frozen=True)
class Caption:
    """``text`` in lower case; ``log_prob``: the sum of the log probabilities of ``pieces``."""

    text: str
    log_prob: float
    pieces: list[Piece]


class Sampling(TypedDict, total=False):
    """``samples``: masks of a sampled estimator, a multiple of 16 (256); ``seed``: of the masks (0)."""

    samples: int
    seed: int


class Drawing(Sampling, total=False):
    """``mismatched``: also score with mismatched held-out images of the run's corpus, which must lie beside it (False)."""

    mismatched: bool


@dataclass(frozen=True)
class Classified:
    """An image's class. ``label``: that of the highest score; ``scores``: by class in the given order, means over templates;
    if ``debiased``, minus the log of the captions' mean probability with other images. ``probabilities``: their softmax by
    class, with a uniform prior; None where scores are no log probabilities. ``unknown``: by class, tokens of its captions
    outside the vocabulary, left out of the scores."""

    label: str
    scores: dict[str, float]
    probabilities: dict[str, float] | None
    estimator: str
    debiased: bool
    unknown: dict[str, list[str]]


class Classifying(Sampling, total=False):
    """``estimator``: as of ``score`` (the method's own); ``debiased``: subtract the mismatched-image control, by held-out images
    of the run's corpus, which must lie beside it (False)."""

    estimator: str | None
    debiased: bool


def left_out(unknown: Iterable[str]) -> str:
    """A warning that names tokens outside the vocabulary; "" if there are none."""
    words = sorted(set(unknown))
    more = f" and {len(words) - _NAMED} more" if len(words) > _NAMED else ""
    return bool(words) * (
        f"not in this model's vocabulary, and left out: {', '.join(words[:_NAMED])}{more}; to train with all of CLIP's pieces: "
        "data.vocabularies: {words: full}"
    )


def warn_of(unknown: Iterable[str], above: int = 2) -> None:
    """Warn of ``unknown`` tokens, if any, at the line of the caller ``above`` frames up."""
    if message := left_out(unknown):
        warnings.warn(message, stacklevel=above + 1)
