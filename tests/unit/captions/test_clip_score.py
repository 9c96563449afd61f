"""CLIPScore and RefCLIPScore from their definitions (Hessel et al., 2021), with a stand-in for the model."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from mdc.evaluation.clip_score import ClipScore
from mdc.predictors.score import TooLong

REFERENCES = [["a dog", "some dog here"], ["red cat", "one two three four five", "a cat"], ["the plate of food"]]
CAPTIONS = ["a brown dog", "cat", "one two three four five six"]


def _unit(seed: str) -> Tensor:
    generator = torch.Generator().manual_seed(sum(ord(letter) * 31**n for n, letter in enumerate(seed)) % 2**40)
    return torch.nn.functional.normalize(torch.rand(4, generator=generator) - 0.3, dim=0)


class _Model:
    """Embeds a text by its words; at most six of them, the prefix's two included."""

    def tokens(self, text: str) -> list[str]:
        if len(text.split()) > 6:
            raise TooLong(text)
        return text.split()

    def picture(self, image: Any) -> Tensor:
        return _unit(image)

    def look(self, pictures: Tensor) -> Tensor:
        return pictures

    def read(self, captions: list[list[str]]) -> Tensor:
        return torch.stack([_unit(" ".join(words)) for words in captions])


class _Images(SimpleNamespace):
    def __len__(self) -> int:
        return len(self.references)


def test_each_image_has_its_own_score_and_its_best_reference_counts() -> None:
    images: Any = _Images(references=REFERENCES, image=lambda n: f"image {n}")
    scores = ClipScore(_Model(), images, "A photo ", {})
    found = scores.of(CAPTIONS)
    read = [
        ["a brown dog", "cat", "one two three four"],
        [["a dog", "some dog here"], ["red cat", "a cat"], ["the plate of food"]],
    ]
    for n, (caption, references) in enumerate(zip(*read, strict=True)):
        text = _unit(f"A photo {caption}")
        own = 2.5 * max(float(_unit(f"image {n}") @ text), 0)
        near = max(0.0, *(float(_unit(f"A photo {one}") @ text) for one in references))
        both = 2 * own * near / (own + near) if own + near else 0
        assert found[n] == pytest.approx((100 * own, 100 * both), abs=1e-4)
    assert scores.told["cut"] == 1, "a caption that is too long loses its end, a reference goes"
    assert len({round(own) for own, _ in found}) == 3
