"""CLIPScore and RefCLIPScore of captions (Hessel et al., 2021), by any CLIP that can embed images and captions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from mdc.evaluation.captioned import Captioned
from mdc.evaluation.predictors.score import TooLong
from mdc.plan.records import UserError

_WEIGHT = 2.5  # of the paper's equation 1
_BATCH = 64


class ClipScore:
    """``prefix`` stands before every caption and reference. ``told``: what a table says of the model.

    A caption that is longer than the model's context loses words at its end, as in the authors' code; ``told["cut"]`` counts
    them. References that are too long are left out.
    """

    def __init__(self, scorer: Any, images: Captioned, prefix: str, told: dict[str, Any]) -> None:
        self.scorer, self.prefix = scorer, prefix
        self.told = {**told, "prefix": prefix, "cut": 0}
        self._images = torch.cat(
            [
                scorer.look(torch.stack([scorer.picture(images.image(n)) for n in range(start, stop)]))
                for start in range(0, len(images), _BATCH)
                for stop in [min(start + _BATCH, len(images))]
            ]
        )
        kept = [[ids for one in some if (ids := self._tokens(one)) is not None] for some in images.references]
        self._references = self._read([ids for some in kept for ids in some]).split([len(some) for some in kept])

    def of(self, captions: Sequence[str]) -> list[tuple[float, float]]:
        """CLIPScore and RefCLIPScore of each image's caption, × 100. A caption without a word scores 0."""
        found = []
        cut = [self._cut(caption) for caption in captions]
        texts = self._read([ids for ids in cut if ids is not None])
        rows = iter(texts)
        for place, ids in enumerate(cut):
            if ids is None:
                found.append((0.0, 0.0))
                continue
            text = next(rows)
            own = _WEIGHT * max(float(self._images[place] @ text), 0.0)
            references = self._references[place]
            near = max(float((references @ text).max()), 0.0) if len(references) else 0.0
            both = 2 * own * near / (own + near) if own + near else 0.0
            found.append((100 * own, 100 * both))
        return found

    def _tokens(self, text: str) -> list[int] | None:
        try:
            return list(self.scorer.tokens(self.prefix + text))
        except TooLong:
            return None

    def _cut(self, caption: str) -> list[int] | None:
        """The tokens of a caption, or of as many of its words as fit; None if it has none."""
        words = caption.split()
        while words:
            try:
                found = list(self.scorer.tokens(self.prefix + " ".join(words)))
            except TooLong:
                words = words[:-1]
                continue
            except UserError:  # no word that the model has pieces for
                return None
            self.told["cut"] += len(words) < len(caption.split())
            return found
        return None

    def _read(self, captions: Sequence[list[int]]) -> Tensor:
        if not captions:
            return self._images[:0]
        return torch.as_tensor(self.scorer.read(captions))
