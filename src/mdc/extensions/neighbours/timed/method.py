"""The parameters of ``timed``: those of ``masked``."""

from typing import ClassVar, Literal

from mdc.methods.masked.method import MaskedMethod


class Timed(MaskedMethod):
    """A masked method whose decoder is conditioned on t."""

    objective: Literal["timed"]

    abilities: ClassVar = {**MaskedMethod.abilities, "train": "mdc.extensions.neighbours.timed.loss"}


METHOD = Timed
