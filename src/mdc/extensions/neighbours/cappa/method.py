"""The parameters of CapPa, which has none of its own."""

from typing import ClassVar, Literal

from mdc.methods.autoregressive.method import LeftToRight


class CapPa(LeftToRight):
    objective: Literal["cappa"]

    abilities: ClassVar = {**LeftToRight.abilities, "train": "mdc.extensions.neighbours.cappa.loss"}


METHOD = CapPa
