"""A run's scores of captions that a person gives, of several images at a time."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path

import torch
from torch import Tensor

from mdc.app.answers import Drawing, Score
from mdc.evaluation.predictors.blind import log_mean_probability, mean_score
from mdc.evaluation.predictors.caption_scores import Pair, Scored
from mdc.evaluation.predictors.draws import Draws
from mdc.evaluation.predictors.score import RunScorer, caption_tokens
from mdc.evaluation.retrieval import HeldOut
from mdc.models.runs import RunModel
from mdc.models.text import clip_pieces, clip_text
from mdc.plan.estimators import ESTIMATORS
from mdc.plan.records import UserError

_MOST_SAMPLES = 2**20
_OTHERS = 8  # mismatched held-out images of a blind score


class Scores:
    """``scorer`` asked by one ``estimator``; ``corpus``: where the images of a blind score lie, None: it is not asked for."""

    def __init__(self, run: RunModel, scorer: RunScorer, estimator: str, samples: int, seed: int, corpus: Path | None):
        self.scorer, self.estimator, self.corpus = scorer, estimator, corpus
        self.vocabulary, self.context_length = run.vocabulary, run.context_length
        self.draws = [Draws("asked", seed, samples, run.context_length)]

    def tokens(self, caption: str) -> list[int]:
        """By which a caption is scored: [SOT, pieces…, EOT] without those that the vocabulary does not have; [] if it has none.
        UserError for a caption without a word, or one that is longer than the context."""
        pieces = clip_pieces(caption)
        if pieces and not self.vocabulary.known(pieces):
            return []
        return caption_tokens(self.vocabulary, caption, self.context_length, drop_unknown=True)

    def of(self, pixels: Tensor, captions: Sequence[Sequence[str]]) -> list[list[Score]]:
        """``pixels`` (B, 3, S, S) uint8 as ``scorer.picture`` gives them, each with its own captions. Errors as ``tokens``."""
        asked = [(image, caption, self.tokens(caption)) for image, own in enumerate(captions) for caption in own]
        others = [other_places(self._held_out, one) for one in pixels] if self.corpus else [[] for _ in pixels]
        seen = self.scorer.look(torch.cat([pixels, self._held_out]) if self.corpus else pixels)
        shown = [[image, *(len(pixels) + place for place in places)] for image, places in enumerate(others)]
        pairs = [Pair(place, ids) for image, _, ids in asked if ids for place in shown[image]]
        scored = iter(self.scorer.score(self.estimator, seen, pairs, self.draws) if pairs else ())
        found: list[list[Score]] = [[] for _ in captions]
        for image, caption, ids in asked:
            found[image].append(self._score(caption, [next(scored) for _ in shown[image]] if ids else []))
        return found

    def _score(self, caption: str, scores: Sequence[Scored]) -> Score:
        unknown = self.vocabulary.unknown(caption)
        if not scores:
            blind = math.nan if self.corpus else None
            return Score(caption, math.nan, math.nan, [], blind, blind, unknown, self.estimator)
        own, *others = scores
        nats = ESTIMATORS[self.estimator].nats
        mean = (log_mean_probability if nats else mean_score)(own, others) if others else None
        pieces = [clip_text([piece]) for piece in self.vocabulary.known(clip_pieces(caption))]
        each = list(zip([*pieces, "<end>"], own.tokens.tolist(), strict=True)) if nats else []
        value, error = (None, None) if mean is None else (mean.value, mean.error)
        return Score(caption, own.value, own.error, each, value, error, unknown, self.estimator)

    @cached_property
    def _held_out(self) -> Tensor:
        """Held-out images of the corpus as the model sees them, twice as many as one needs."""
        assert self.corpus is not None
        images = HeldOut.of(self.corpus, 2 * _OTHERS, self.context_length).images
        return torch.stack([self.scorer.picture(image) for image in images])


def checked(drawing: Drawing) -> tuple[int, int, bool]:
    """(samples, seed, blind); UserError for what cannot be."""
    samples, seed = drawing.get("samples", 256), drawing.get("seed", 0)
    if not 16 <= samples <= _MOST_SAMPLES or samples % 16:
        raise UserError(f"samples {samples}: must be a multiple of 16, at most {_MOST_SAMPLES}")
    if seed < 0:
        raise UserError(f"seed {seed}: must be 0 or more")
    return samples, seed, drawing.get("blind", False)


def other_places(held_out: Tensor, own: Tensor) -> list[int]:
    """The first eight of ``held_out`` (N, 3, S, S) in place of ``own`` (3, S, S): none that is ``own`` itself.

    UserError if there are fewer than two of them.
    """
    found = [place for place, one in enumerate(held_out) if not torch.equal(one, own)]
    if len(found) < 2:
        raise UserError(
            f"a blind score needs two held-out images that are not the image itself, {len(found)} are there"
        )
    return found[:_OTHERS]


def ranked(scores: Iterable[Score]) -> list[Score]:
    """The best first, those without a number last."""
    return sorted(scores, key=lambda one: (math.isnan(one.score), -one.score))
