"""CLIPScore and RefCLIPScore of captions (Hessel et al., 2021), by any CLIP that can embed images and captions."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from mdc.evaluation.captioned import Captioned
from mdc.evaluation.predictors.score import TooLong
from mdc.models.text import Vocabulary, clip_pieces
from mdc.plan.estimators import CLIP_COUNTS

_WEIGHT = 2.5  # of the paper's equation 1
_BATCH = 64


class ClipScore:
    """``prefix`` precedes every caption and reference. ``metadata`` of the model, with counts of what it cannot read
    (:data:`mdc.plan.estimators.CLIP_COUNTS`).

    A caption that is longer than the model's context loses its end, as in the authors' code. A run of ours, whose
    vocabulary may be smaller than CLIP's, leaves out pieces that it does not have. References that are too long are left out.
    """

    def __init__(self, scorer: Any, images: Captioned, prefix: str, metadata: dict[str, Any]) -> None:
        self.scorer, self.prefix = scorer, prefix
        self.metadata = {**metadata, "prefix": prefix, **dict.fromkeys(CLIP_COUNTS, 0)}
        self._images = torch.cat(
            [
                scorer.look(torch.stack([scorer.picture(images.image(n)) for n in range(start, stop)]))
                for start in range(0, len(images), _BATCH)
                for stop in [min(start + _BATCH, len(images))]
            ]
        )
        references = [[ids for text in texts if (ids := self._tokens(text)) is not None] for texts in images.references]
        self._references = self._read([ids for texts in references for ids in texts]).split(
            [len(texts) for texts in references]
        )

    def of(self, captions: Sequence[str], clip_ids: Sequence[Sequence[int] | None]) -> list[tuple[float, float]]:
        """CLIPScore and RefCLIPScore of each image's caption, × 100. An empty caption scores 0.

        ``clip_ids``: the tokens, in CLIP's numbers, of a caption that a run of ours decoded. A CLIP run reads these as they are:
        the tokenizer may split the text differently, even into tokens outside the vocabulary.
        """
        scores = []
        token_ids = [self._readable(caption, ids) for caption, ids in zip(captions, clip_ids, strict=True)]
        rows = iter(self._read([ids for ids in token_ids if ids]))
        for place, ids in enumerate(token_ids):
            if not ids:
                self.metadata["empty"] += 1
                scores.append((0.0, 0.0))
                continue
            text = next(rows)
            own = _WEIGHT * max(float(self._images[place] @ text), 0.0)
            references = self._references[place]
            near = max(float((references @ text).max()), 0.0) if len(references) else 0.0
            both = 2 * own * near / (own + near) if own + near else 0.0
            scores.append((100 * own, 100 * both))
        return scores

    def _tokens(self, text: str) -> list[int] | None:
        try:
            return list(self.scorer.tokens(self.prefix + text))
        except TooLong:
            self.metadata["long_references"] += 1
            return None

    def _readable(self, caption: str, clip_ids: Sequence[int] | None) -> list[int]:
        """The tokens of a caption that the model can read; empty if there are none."""
        vocabulary: Vocabulary | None = getattr(self.scorer, "vocabulary", None)
        if vocabulary is None:
            return self._of_words(caption.split())
        pieces = clip_pieces(caption) if clip_ids is None else list(clip_ids)
        known = vocabulary.known(pieces)
        fitting = known[: self.scorer.context_length - 2]
        self.metadata["unknown"] += len(known) < len(pieces)
        self.metadata["cut"] += len(fitting) < len(known)
        return vocabulary.encode_pieces(fitting, self.scorer.context_length) if fitting else []

    def _of_words(self, words: Sequence[str]) -> list[int]:
        for count in range(len(words), 0, -1):
            try:
                tokens = list(self.scorer.tokens(self.prefix + " ".join(words[:count])))
            except TooLong:
                continue
            self.metadata["cut"] += count < len(words)
            return tokens
        return []

    def _read(self, captions: Sequence[list[int]]) -> Tensor:
        if not captions:
            return self._images[:0]
        return torch.as_tensor(self.scorer.read(captions))
