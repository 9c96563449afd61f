"""Scores of CLIP runs: the cosine of image and caption."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from mdc.models.contrastive import Contrastive
from mdc.models.normalise import normalise
from mdc.models.precision import autocast

_BATCH = 256


class Similarity:
    """A CLIP run; tokens are [SOT, pieces…, EOT]."""

    def __init__(self, model: Contrastive, precision: str, device: torch.device) -> None:
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
