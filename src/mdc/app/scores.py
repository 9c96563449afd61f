"""A run's scores of a user's captions, for several images at a time."""

import math
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path

import torch
from torch import Tensor

from mdc.app.answers import Drawing, Score
from mdc.evaluation.predictors.caption_scores import Draws, Pair, Scored
from mdc.evaluation.predictors.mismatched import log_mean_probability, mean_score
from mdc.evaluation.predictors.score import RunScorer, caption_tokens
from mdc.evaluation.retrieval import HeldOut
from mdc.models.runs import RunModel
from mdc.models.text import clip_pieces, clip_text
from mdc.plan.estimators import ESTIMATORS
from mdc.plan.records import UserError

_MOST_SAMPLES = 2**20
_OTHERS = 8  # held-out images of a mismatched score


class Scores:
    """Scores by one ``estimator``; ``corpus``: with images for the mismatched-image control, None: without it."""

    def __init__(self, run: RunModel, scorer: RunScorer, estimator: str, samples: int, seed: int, corpus: Path | None):
        self.scorer, self.estimator, self.corpus = scorer, estimator, corpus
        self.vocabulary, self.context_length = run.vocabulary, run.context_length
        self.draws = [Draws("asked", seed, samples, run.context_length)]

    def tokens(self, caption: str) -> list[int]:
        """[SOT, tokens…, EOT] of a caption without those outside the vocabulary; [] if none is left.
        UserError for a caption without a word, or one that is longer than the context."""
        pieces = clip_pieces(caption)
        if pieces and not self.vocabulary.known(pieces):
            return []
        return caption_tokens(self.vocabulary, caption, self.context_length, drop_unknown=True)

    def of(self, pixels: Tensor, captions: Sequence[Sequence[str]]) -> list[list[Score]]:
        """``pixels`` (B, 3, S, S) uint8 as ``scorer.picture`` gives them, each with its own captions. Errors as ``tokens``."""
        items = [(image, caption, self.tokens(caption)) for image, texts in enumerate(captions) for caption in texts]
        mismatched = [other_places(self._held_out, x) for x in pixels] if self.corpus else [[] for _ in pixels]
        visual = self.scorer.look(torch.cat([pixels, self._held_out]) if self.corpus else pixels)
        images = [[image, *(len(pixels) + place for place in places)] for image, places in enumerate(mismatched)]
        pairs = [Pair(place, ids) for image, _, ids in items if ids for place in images[image]]
        scored = iter(self.scorer.score(self.estimator, visual, pairs, self.draws) if pairs else ())
        scores: list[list[Score]] = [[] for _ in captions]
        for image, caption, ids in items:
            scores[image].append(self._score(caption, [next(scored) for _ in images[image]] if ids else []))
        return scores

    def _score(self, caption: str, scores: Sequence[Scored]) -> Score:
        unknown = self.vocabulary.unknown(caption)
        if not scores:
            none = math.nan if self.corpus else None
            return Score(caption, math.nan, math.nan, [], none, none, unknown, self.estimator)
        score, *mismatched = scores
        nats = ESTIMATORS[self.estimator].nats
        mean = (log_mean_probability if nats else mean_score)(score, mismatched) if mismatched else None
        pieces = [clip_text([piece]) for piece in self.vocabulary.known(clip_pieces(caption))]
        each = list(zip([*pieces, "<end>"], score.tokens.tolist(), strict=True)) if nats else []
        value, error = (None, None) if mean is None else (mean.value, mean.error)
        return Score(caption, score.value, score.error, each, value, error, unknown, self.estimator)

    @cached_property
    def _held_out(self) -> Tensor:
        """Preprocessed held-out images of the corpus, twice as many as needed."""
        assert self.corpus is not None
        images = HeldOut.of(self.corpus, 2 * _OTHERS, self.context_length).images
        return torch.stack([self.scorer.picture(image) for image in images])


def checked(drawing: Drawing) -> tuple[int, int, bool]:
    """(samples, seed, mismatched); UserError for invalid values."""
    samples, seed = drawing.get("samples", 256), drawing.get("seed", 0)
    if not 16 <= samples <= _MOST_SAMPLES or samples % 16:
        raise UserError(f"samples {samples}: must be a multiple of 16, at most {_MOST_SAMPLES}")
    if seed < 0:
        raise UserError(f"seed {seed}: must be 0 or more")
    return samples, seed, drawing.get("mismatched", False)


def other_places(held_out: Tensor, image: Tensor) -> list[int]:
    """The first eight of ``held_out`` (N, 3, S, S) that differ from ``image`` (3, S, S).

    UserError if there are fewer than two of them.
    """
    places = [place for place, candidate in enumerate(held_out) if not torch.equal(candidate, image)]
    if len(places) < 2:
        raise UserError(
            f"a mismatched score needs two held-out images that are not the image itself, {len(places)} are there"
        )
    return places[:_OTHERS]


#: what stands between the two lists of :func:`ranked`
APART = "not ranked, for the score is that of the words that the vocabulary has:"


def ranked(scores: Iterable[Score]) -> tuple[list[Score], list[Score]]:
    """The ranking, the best caption first; and apart, in the same order, those with tokens outside the vocabulary: fewer tokens
    mostly score higher, so they compare with no other. Those without a number are last."""
    best_first = sorted(scores, key=lambda score: (math.isnan(score.score), -score.score))
    return [score for score in best_first if not score.unknown], [score for score in best_first if score.unknown]
