"""What the page asks of a run, without the page."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Unpack

import numpy as np
from PIL import Image

from mdc.app.answers import Classified, Score
from mdc.app.demo.attention import looked_at
from mdc.app.given_images import picture_file
from mdc.app.model import Model
from mdc.app.ways import Options
from mdc.data.formats.images import center_resize
from mdc.evaluation.predictors.writing import Written
from mdc.plan.estimators import ESTIMATORS
from mdc.plan.records import UserError

_SHOWN = 256  # pixels of a picture with what a word looks at
_SAMPLES = 64  # masks of a sampled estimator: a page does not wait for more
HIDDEN = "▢"


@dataclass(frozen=True)
class Moment:
    """The caption after a step: its pieces as text, HIDDEN where there is none yet; ``new``: the places written in it."""

    step: int
    pieces: tuple[str, ...]
    new: tuple[int, ...]


@dataclass(frozen=True)
class Told:
    """A caption, the moments of its writing, of each piece the probability with which it was written (None of one that was
    given), and a picture of what it looked at."""

    caption: str
    moments: list[Moment]
    probabilities: list[float | None]
    looks: list[tuple[Image.Image, str]]


class Demo:
    """A run that answers; UserError for one that neither writes nor scores captions."""

    def __init__(self, model: Model) -> None:
        self.model, self.job, self.family = model, model.job, model.family
        self.vocabulary, self.writes, self.scores_captions = model.vocabulary, model.writes, bool(model.estimators)
        self.estimator = model.estimators[0] if model.estimators else None
        if not self.writes and self.estimator is None:
            raise UserError(f"{model.name}: neither writes nor scores captions")

    @property
    def can_debias(self) -> bool:
        """Whether what words alone say can be taken off."""
        return self.estimator is not None and ESTIMATORS[self.estimator].nats and self.model.has_corpus

    @property
    def estimator_text(self) -> str:
        """What a score is, in words."""
        return ESTIMATORS[self.estimator].text if self.estimator is not None else ""

    @property
    def looks_anywhere(self) -> bool:
        """Whether a word chooses between places of the image. One that is written many times, as a diffusion with replacement
        does, looks many times; a decoder that reads one vector, or objects, has no places."""
        backbone = self.job.backbone
        reads = getattr(backbone, "visual_context", "patches")
        return self.family in ("masked", "autoregressive", "recurrent") and reads not in ("mean", "cls", "objects")

    @property
    def looks_text(self) -> str:
        """What the pictures under a caption are, in words."""
        if not self.looks_anywhere:
            return "What each word looked at is not shown: this run's words do not choose between places of the image."
        of = "its attention α" if self.family == "recurrent" else "cross-attention, mean over layers and heads"
        return f"What each word looked at when it was written ({of}):"

    def caption(self, image: Image.Image, gaps: str | None = None, **options: Unpack[Options]) -> Told:
        """``options``: those of `mdc caption`; ``gaps``: a text whose gaps, ? each, are filled in. UserError as there."""
        seen = self.model.writer.look(self.model.writer_pixels([image]))
        (written,) = self.model.written(seen, ["image"], options, gaps)
        found = self.model.as_caption(written)
        pieces = [one.piece for one in found.pieces]
        moments = [
            Moment(
                step,
                tuple(word if at <= step else HIDDEN for word, at in zip(pieces, written.step, strict=True)),
                tuple(place for place, at in enumerate(written.step) if at == step),
            )
            for step in sorted({*written.step})
        ]
        probabilities = [one.probability for one in found.pieces]
        return Told(found.text, moments, probabilities, self._looks(image, seen, written, pieces))

    def scores(self, image: Image.Image, captions: Sequence[str]) -> list[Score]:
        """Of each caption; UserError names one that cannot be scored."""
        if not captions:
            raise UserError("type at least one caption, one a line")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the page names the tokens that it left out beside each caption
            return self.model.score(image, captions, samples=_SAMPLES)

    def classes(self, image: Image.Image, typed: str, template: str, debiased: bool) -> Classified:
        """The class of an image; ``typed``: names with commas or line ends between them. UserError names one that cannot."""
        classes = [name.strip() for name in typed.replace(",", "\n").splitlines() if name.strip()]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return self.model.classify(image, classes, template, samples=_SAMPLES, debiased=debiased)

    def _looks(
        self, image: Image.Image, seen: Any, written: Written, pieces: Sequence[str]
    ) -> list[tuple[Image.Image, str]]:
        """Nothing where words do not choose between places, and for tokens that are no square."""
        if not self.looks_anywhere:
            return []
        reverse = self.job.method.direction is not None
        weights = looked_at(self.model.writer.writer.model, self.vocabulary, seen, written, reverse=reverse)
        side = math.isqrt(weights.shape[1])
        if side * side != weights.shape[1]:
            return []
        shown = Image.fromarray(center_resize(image, _SHOWN))
        return [
            (_overlaid(shown, row.view(side, side).numpy()), word) for row, word in zip(weights, pieces, strict=True)
        ]


def _overlaid(image: Image.Image, weights: np.ndarray[Any, Any]) -> Image.Image:
    """The image, dark where little is looked at and red where much is; ``weights`` (G, G) are scaled to their greatest."""
    scaled = Image.fromarray((255 * weights / max(float(weights.max()), 1e-12)).astype(np.uint8))
    heat = np.asarray(scaled.resize(image.size, Image.Resampling.BICUBIC), dtype=np.float32)[..., None] / 255
    pixels = np.asarray(image, dtype=np.float32)
    red = np.array([230.0, 60.0, 30.0], dtype=np.float32)
    mixed = (0.35 + 0.35 * heat) * pixels + 0.45 * heat * red
    return Image.fromarray(mixed.clip(0, 255).astype(np.uint8))


def read(path: str | Path) -> Image.Image:
    """An image file that somebody dropped; UserError without its place on this machine."""
    return picture_file(path, Path(path).name)
