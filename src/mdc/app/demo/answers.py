"""The model side of the page."""

import math
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Unpack

import numpy as np
from PIL import Image

from mdc.app.answers import Caption, Classified, Score
from mdc.app.caption_options import Options
from mdc.app.demo.attention import looked_at
from mdc.app.model import Model
from mdc.app.user_images import picture_file
from mdc.data.formats.images import center_resize
from mdc.evaluation.predictors.writing import DecodedCaption
from mdc.plan.config.kinds.backbones import visual_contexts
from mdc.plan.estimators import ESTIMATORS
from mdc.plan.records import UserError, text_lines

_SHOWN = 256  # pixels of a picture with what a word looks at
_SAMPLES = 64  # masks of a sampled estimator: a page does not wait for more


class Demo:
    """A run on the page; UserError for one that neither decodes nor scores captions."""

    def __init__(self, model: Model) -> None:
        self.model, self.job, self.decoding = model, model.job, model.job.method.decoding
        self.vocabulary, self.writes, self.scores_captions = model.vocabulary, model.writes, bool(model.estimators)
        self.estimator = model.estimators[0] if model.estimators else None
        if not self.writes and self.estimator is None:
            raise UserError(f"{model.name}: neither writes nor scores captions")

    @property
    def can_debias(self) -> bool:
        """Whether scores can be debiased."""
        return self.estimator is not None and ESTIMATORS[self.estimator].nats and self.model.has_corpus

    @property
    def estimator_text(self) -> str:
        """What a score is, in words."""
        return ESTIMATORS[self.estimator].text if self.estimator is not None else ""

    @property
    def looks_anywhere(self) -> bool:
        """Whether tokens attend to regions of the image. A diffusion with replacement decodes a token many times."""
        reads = getattr(self.job.backbone, "visual_context", "patches")
        return self.decoding in ("unmask", "beam") and visual_contexts()[reads].regions

    @property
    def looks_text(self) -> str:
        """The heading of the pictures under a caption."""
        if not self.looks_anywhere:
            return "What each word looked at is not shown: this run's words do not choose between places of the image."
        own = hasattr(self.model.writer.writer.model, "attention")
        of = "its attention α" if own else "cross-attention, mean over layers and heads"
        return f"What each word looked at when it was written ({of}):"

    def caption(
        self, image: Image.Image, gaps: str | None = None, **options: Unpack[Options]
    ) -> tuple[Caption, list[tuple[Image.Image, str]]]:
        """A caption, and pictures of what its tokens look at. ``options``: those of `mdc caption`; ``gaps``: a text whose gaps,
        ? each, are filled in. UserError as there."""
        visual = self.model.writer.look(self.model.writer.picture(image)[None])
        (decoded,) = self.model.decoded(visual, ["image"], options, gaps)
        caption = self.model.as_caption(decoded)
        return caption, self._looks(image, visual, decoded, [piece.piece for piece in caption.pieces])

    def scores(self, image: Image.Image, captions: Sequence[str]) -> list[Score]:
        """Of each caption; UserError names one that cannot be scored."""
        if not captions:
            raise UserError("type at least one caption, one a line")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the page names the tokens that it left out beside each caption
            return self.model.score(image, captions, samples=_SAMPLES)

    def classes(self, image: Image.Image, typed: str, template: str, debiased: bool) -> Classified:
        """The class of an image; ``typed``: names with commas or line ends between them. UserError names one that cannot."""
        classes = [name.strip() for name in text_lines(typed.replace(",", "\n")) if name.strip()]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return self.model.classify(image, classes, template, samples=_SAMPLES, debiased=debiased)

    def _looks(
        self, image: Image.Image, visual: Any, decoded: DecodedCaption, pieces: Sequence[str]
    ) -> list[tuple[Image.Image, str]]:
        """Attention maps by token; none without places, or if these are no square."""
        if not self.looks_anywhere:
            return []
        reverse = self.job.method.reverse
        weights = looked_at(self.model.writer.writer.model, self.vocabulary, visual, decoded, reverse=reverse)
        side = math.isqrt(weights.shape[1])
        if side * side != weights.shape[1]:
            return []
        picture = Image.fromarray(center_resize(image, _SHOWN))
        return [
            (_overlaid(picture, row.view(side, side).numpy()), word) for row, word in zip(weights, pieces, strict=True)
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
