"""The parameters of ``dropped``: as ``masked``, with a share of the patch tokens."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from mdc.methods.masked.method import MaskedMethod


class Dropped(MaskedMethod):
    """``patches_kept``: the share of patch tokens that the decoder reads in training."""

    objective: Literal["dropped"]
    patches_kept: Annotated[float, Field(gt=0, lt=1)]

    abilities: ClassVar = {**MaskedMethod.abilities, "train": "mdc.extensions.neighbours.dropped.loss"}

    @property
    def reads_patches(self) -> bool:
        return True


METHOD = Dropped
