"""Scores of captions by CLIP: the cosine of image and caption."""

from collections.abc import Sequence

import torch
from torch import Tensor

from mdc.evaluation.predictors.caption_scores import Draws, Pair, Scored
from mdc.evaluation.predictors.score import cosines
from mdc.methods.contrastive.model import Contrastive
from mdc.models.normalise import normalise
from mdc.models.precision import autocast
from mdc.plan.config.method import Method

_BATCH = 256  # captions that are read at once


class Scorer:
    """Scores of CLIP runs: the cosine of image and caption."""

    def __init__(
        self, model: Contrastive, mask_id: int, precision: str, device: torch.device, batch_tokens: int = 8192
    ) -> None:
        self.model = model.to(device).eval()
        self.precision, self.device = precision, device

    @torch.no_grad()
    def look(self, images: Tensor) -> Tensor:
        """images (I, 3, S, S) uint8 → unit embeddings (I, E) float32."""
        with autocast(self.device, self.precision):
            return self.model.embed_images(normalise(images.to(self.device)))

    @torch.no_grad()
    def read(self, captions: Sequence[Sequence[int]]) -> Tensor:
        """Captions as token ids → unit embeddings (C, E) float32."""
        parts = []
        for start in range(0, len(captions), _BATCH):
            some = captions[start : start + _BATCH]
            lengths = torch.tensor([len(ids) for ids in some], device=self.device)
            tokens = torch.full((len(some), int(lengths.max())), some[0][-1], device=self.device)
            for row, ids in zip(tokens, some, strict=True):
                row[: len(ids)] = torch.tensor(list(ids), device=self.device)
            with autocast(self.device, self.precision):
                parts.append(self.model.embed_texts(tokens, lengths))
        return torch.cat(parts)


def score(
    scorer: Scorer,
    method: Method,
    estimator: str,
    visual: Tensor,
    pairs: Sequence[Pair],
    draws: Sequence[Draws],
    samples: int,
) -> list[Scored]:
    """See :class:`mdc.evaluation.predictors.score.ScoreModule`."""
    return cosines(visual, scorer.read, pairs)
