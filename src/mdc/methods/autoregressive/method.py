"""The parameters of autoregressive methods: ARC, in either direction, and with half of its decoder's layers."""

from collections.abc import Iterator
from typing import ClassVar, Literal

from mdc.plan.config.kinds.known import AnyBackbone
from mdc.plan.config.method import Method


class LeftToRight(Method):
    """A method that predicts the next token; its captions are scored and generated as ARC's."""

    abilities: ClassVar = {
        "score": "mdc.methods.autoregressive.score",
        "generate": "mdc.methods.autoregressive.generate",
        "positions": "mdc.methods.autoregressive.positions",
    }
    decoding = "beam"

    @property
    def estimators(self) -> tuple[str, ...]:
        return ("likelihood",)


class Autoregressive(LeftToRight):
    """``direction: right_to_left``: the tokens of a caption are predicted from the last to the first. ``layers``: ``half`` is a
    decoder of half the layers."""

    objective: Literal["autoregressive"]
    direction: Literal["right_to_left"] | None = None
    layers: Literal["half"] | None = None

    abilities: ClassVar = {**LeftToRight.abilities, "train": "mdc.methods.autoregressive.loss"}

    @property
    def reverse(self) -> bool:
        return self.direction is not None

    def misfits(self, name: str, backbone: AnyBackbone, place: str) -> Iterator[str]:
        yield from super().misfits(name, backbone, place)
        if self.layers is not None:
            yield from cannot_halve(name, backbone, place)


def cannot_halve(name: str, backbone: AnyBackbone, place: str) -> Iterator[str]:
    """Why the method ``name``, whose decoders have half the layers, cannot be trained on a ``backbone``."""
    if (layers := backbone.decoder.layers) % 2:
        yield f"{place}.decoder.layers = {layers}: {name} has decoders of half the layers; allowed: an even number"


METHOD = Autoregressive
