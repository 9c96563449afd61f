"""What the neighbours add to scales: nearest neighbours as a head of probes, and Winoground's items."""

from typing import Annotated, Literal

from pydantic import Field

from mdc.plan.config.kinds.choice_sources import ChoiceSource
from mdc.plan.config.kinds.heads import Head
from mdc.plan.config.kinds.sources import OfDataset
from mdc.plan.config.references import DATASET
from mdc.plan.config.types import NonNegative, Positive


class Neighbours(Head):
    """k-NN: the ``k`` nearest training items vote with the weight exp(cosine / ``temperature``)."""

    module = "mdc.extensions.neighbours.knn"
    kind: Literal["knn"]
    k: Positive
    temperature: Annotated[float, Field(gt=0)]

    def sentence(self) -> str:
        return (
            f"votes of the {self.k} nearest training items by cosine of the linear probe's feature, weighted by exp(cosine / "
            f"{self.temperature:g})"
        )

    def least_items(self) -> int:
        return self.k


class ScenesPairs(ChoiceSource):
    """Winoground's task in the built-in world: ``items`` pairs of scenes in which two objects are swapped."""

    module = "mdc.extensions.neighbours.winoground.scenes"
    paired = True
    kind: Literal["scenes_pairs"]
    items: Positive
    seed: NonNegative
    pixels: Annotated[int, Field(ge=16, le=512)]


class WinogroundChoice(ChoiceSource, OfDataset):
    """Winoground: each item has two images, and two captions of the same words."""

    module = "mdc.extensions.neighbours.winoground.published"
    paired = True
    kind: Literal["winoground"]
    dataset: Annotated[Literal["winoground"], DATASET]


KINDS = (Neighbours, ScenesPairs, WinogroundChoice)
