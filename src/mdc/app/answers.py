"""What a model answers, and the options of what it is asked (docs/api.md)."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, TypedDict

from torch import Tensor

_NAMED = 20  # unknown tokens that a warning names


@dataclass(frozen=True)
class Encoded:
    """Of B images, float32 on the CPU: ``patches`` (B, M, D) after the encoder's last norm, their mean ``patch_mean`` (B, D),
    ``cls`` (B, D), ``probed`` (B, D), the feature that linear probes see (paper, section 4.2), and, of a CLIP, ``embedding``
    (B, E), of unit length."""

    patches: Tensor
    patch_mean: Tensor
    cls: Tensor
    probed: Tensor
    embedding: Tensor | None


@dataclass(frozen=True)
class Score:
    """``score``: of a captioner log p(caption | image) in nats, or what its ``estimator`` puts in its place (docs/scoring.md);
    of a CLIP the cosine. ``error``: its standard error, 0 where nothing is drawn. ``tokens``: what each token adds, none of a
    cosine. ``blind``: the score with other images, where it was asked for, and ``blind_error``. ``unknown``: tokens of the
    caption that the vocabulary does not have, without which it was scored. If it has none of them, all numbers are NaN."""

    caption: str
    score: float
    error: float
    tokens: list[tuple[str, float]]
    blind: float | None
    blind_error: float | None
    unknown: list[str]
    estimator: str

    def plain(self) -> dict[str, Any]:
        """As JSON has it: None for what is no number."""
        return {key: None if value != value else value for key, value in asdict(self).items()}


@dataclass(frozen=True)
class Piece:
    """A token of a written caption: at which ``step`` it was written, from 1 (0: it was given), and the ``probability`` that it
    had then (None: given)."""

    piece: str
    step: int
    probability: float | None


@dataclass(frozen=True)
class Caption:
    """``text`` in lower case; ``log_prob``: the sum of the logarithms of what ``pieces`` were written with."""

    text: str
    log_prob: float
    pieces: list[Piece]


class Sampling(TypedDict, total=False):
    """``samples``: masks of an estimator that draws, a multiple of 16 (256); ``seed``: of the masks (0)."""

    samples: int
    seed: int


class Drawing(Sampling, total=False):
    """``blind``: also score with held-out images of the run's corpus, which must lie beside it (False)."""

    blind: bool


@dataclass(frozen=True)
class Classified:
    """An image's class. ``label``: that of the highest score; ``scores``: by class, in the order that they were given, as
    ``estimator`` has them (a mean over templates), or, of the ``debiased``, less the log of the captions' mean probability with
    other images. ``probabilities``: by class, their softmax, which takes all classes for equally frequent; None where scores are
    no probabilities of captions. ``unknown``: by class, where there are any, tokens of its captions that the vocabulary does not
    have, without which they were scored."""

    label: str
    scores: dict[str, float]
    probabilities: dict[str, float] | None
    estimator: str
    debiased: bool
    unknown: dict[str, list[str]]


class Classifying(Sampling, total=False):
    """``estimator``: as of ``score`` (the method's own); ``debiased``: take off what a class's words alone say, by held-out
    images of the run's corpus, which must lie beside it (False)."""

    estimator: str | None
    debiased: bool


def left_out(unknown: Iterable[str]) -> str:
    """A warning that names the tokens that a vocabulary does not have; "" if there are none."""
    words = sorted(set(unknown))
    more = f" and {len(words) - _NAMED} more" if len(words) > _NAMED else ""
    return bool(words) * (
        f"not in this model's vocabulary, and left out: {', '.join(words[:_NAMED])}{more}; to train with all of CLIP's pieces: "
        "data.vocabularies: {words: full}"
    )


def warn_of(unknown: Iterable[str], above: int = 2) -> None:
    """One warning that names them, at the line of the caller so many calls ``above``; none if there are none."""
    if told := left_out(unknown):
        warnings.warn(told, stacklevel=above + 1)
