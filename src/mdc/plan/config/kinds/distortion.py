"""Distortions of the images that captioners are tested on. Extensions bring them."""

from abc import abstractmethod
from typing import Self

from mdc.plan.config.kinds.kind import Kind
from mdc.plan.config.types import Positive


class Distortion(Kind):
    """One kind at one ``strength``, 1 the weakest. Its module has ``distort(image, distortion, key, seed)``: an RGB image of the
    same size, the same for every captioner."""

    kind: str
    strength: Positive

    @classmethod
    @abstractmethod
    def at_all_strengths(cls, kind: str) -> list[Self]:
        """A kind at each strength, the weakest first."""

    @property
    @abstractmethod
    def in_words(self) -> str:
        """Its kind."""
