"""What the page asks of a run, without the page."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from PIL import Image

from mdc.app.demo.attention import looked_at
from mdc.data.formats.images import FORMATS, ImageError, center_resize, decode
from mdc.evaluation.ask import Answer, ask
from mdc.evaluation.predictors.generate import RunWriter
from mdc.evaluation.predictors.writing import Written
from mdc.evaluation.scored_run import run_scorer
from mdc.evaluation.tell import policy, template
from mdc.models.runs import RunModel
from mdc.plan.config.caption import WRITES
from mdc.plan.config.score import Scoring, estimators_of
from mdc.plan.estimators import ESTIMATORS
from mdc.plan.parts import family_of
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

    def __init__(self, run: RunModel, device: torch.device) -> None:
        self.job, self.family = run.job, family_of(run.job.method.objective)
        self.vocabulary = run.vocabulary
        estimators = estimators_of(self.family, run.job.method.t_range)
        self.estimator = estimators[0] if estimators else None
        self.writes = self.family in WRITES
        if not self.writes and self.estimator is None:
            raise UserError(f"{run.job.job}: neither writes nor scores captions")
        self.writer = RunWriter(run, precision="fp32", device=device) if self.writes else None
        scoring = Scoring(
            samples=_SAMPLES,
            mismatched=1,
            seed=0,
            batch_tokens=8192,
            precision="fp32",
            processes=1,
            threads=torch.get_num_threads(),
            device="auto",
        )
        self.scorer = run_scorer(run, scoring, device) if self.estimator is not None else None

    @property
    def estimator_text(self) -> str:
        """What a score is, in words."""
        return ESTIMATORS[self.estimator].text if self.estimator is not None else ""

    @property
    def looks_anywhere(self) -> bool:
        """Whether a word chooses between places of the image. One that is written many times, as a diffusion with replacement
        does, looks many times; a decoder that reads one vector, or objects, has no places."""
        backbone = self.job.backbone
        reads = getattr(backbone, "reads", "patches")
        return self.family in ("masked", "autoregressive", "recurrent") and reads not in ("mean", "cls", "objects")

    @property
    def looks_text(self) -> str:
        """What the pictures under a caption are, in words."""
        if not self.looks_anywhere:
            return "What each word looked at is not shown: this run's words do not choose between places of the image."
        of = "its attention α" if self.family == "recurrent" else "cross-attention, mean over layers and heads"
        return f"What each word looked at when it was written ({of}):"

    def caption(self, image: Image.Image, **how: Any) -> Told:
        """``how``: options as `mdc caption` has them; those left out have its defaults. UserError as there."""
        assert self.writer is not None
        seen = self.writer.look(self.writer.picture(image)[None])
        (written,) = self.writer.write(seen, self._policy(**how), ["image"])
        return self._told(image, seen, written)

    def fill(self, image: Image.Image, text: str, **how: Any) -> Told:
        """A caption whose gaps, ? each, are filled in; UserError if the run cannot."""
        assert self.writer is not None
        chosen: Any = self._policy(fill=text, **how)
        seen = self.writer.look(self.writer.picture(image)[None])
        (written,) = self.writer.fill(seen, [template(text, self.vocabulary)], chosen, ["image"])
        return self._told(image, seen, written)

    def scores(self, image: Image.Image, captions: Sequence[str]) -> list[Answer]:
        """Of each caption; UserError names one that cannot be scored."""
        assert self.scorer is not None and self.estimator is not None
        if not captions:
            raise UserError("type at least one caption, one a line")
        return ask(self.scorer, self.estimator, [image], captions, _SAMPLES, seed=0)

    def _policy(self, **how: Any) -> Any:
        options = ("policy", "length", "per_step", "threshold", "temperature", "beam", "steps", "guidance", "fill")
        asked = SimpleNamespace(**{**dict.fromkeys(options), "seed": 0, **how})
        return policy(asked, self.job)  # type: ignore[arg-type]

    def _told(self, image: Image.Image, seen: Any, written: Written) -> Told:
        assert self.writer is not None
        pieces = [self.writer.piece(piece) for piece in written.pieces]
        moments = [
            Moment(
                step,
                tuple(word if at <= step else HIDDEN for word, at in zip(pieces, written.step, strict=True)),
                tuple(place for place, at in enumerate(written.step) if at == step),
            )
            for step in sorted({*written.step})
        ]
        probabilities = [
            math.exp(value) if step else None for value, step in zip(written.confidence, written.step, strict=True)
        ]
        return Told(self.writer.text(written), moments, probabilities, self._looks(image, seen, written, pieces))

    def _looks(
        self, image: Image.Image, seen: Any, written: Written, pieces: Sequence[str]
    ) -> list[tuple[Image.Image, str]]:
        """Nothing where words do not choose between places, and for tokens that are no square."""
        writer = self.writer
        if writer is None or not self.looks_anywhere:
            return []
        reverse = self.job.method.direction is not None
        weights = looked_at(writer.writer.model, self.vocabulary, seen, written, reverse=reverse)
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
    try:
        return decode(Path(path).read_bytes())
    except ImageError as error:
        raise UserError(f"{Path(path).name}: {error}; allowed: a whole {FORMATS} image") from None
    except OSError as error:
        raise UserError(f"{Path(path).name}: cannot be read ({error.strerror})") from None
