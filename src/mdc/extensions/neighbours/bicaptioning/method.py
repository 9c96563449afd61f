"""The parameters of VirTex's bicaptioning, which has none of its own."""

from collections.abc import Iterator
from typing import ClassVar, Literal

from mdc.methods.autoregressive.method import LeftToRight, cannot_halve
from mdc.plan.config.kinds.known import AnyBackbone


class Bicaptioning(LeftToRight):
    objective: Literal["bicaptioning"]

    abilities: ClassVar = {**LeftToRight.abilities, "train": "mdc.extensions.neighbours.bicaptioning.loss"}

    def misfits(self, name: str, backbone: AnyBackbone, place: str) -> Iterator[str]:
        yield from super().misfits(name, backbone, place)
        yield from cannot_halve(name, backbone, place)


METHOD = Bicaptioning
