"""Distortions of the images that captioners are tested on, in five strengths (docs/findings/noise.md)."""

from typing import Annotated, Literal

from pydantic import Field

from mdc.plan.config.types import Strict

Kind = Literal["noise", "blur", "jpeg", "cutout"]
STRENGTHS = 5
#: the level of each strength. Noise: standard deviation as a share of the intensity range; blur: standard deviation in pixels at
#: a shorter side of 224; JPEG: quality; these three as in ImageNet-C (Hendrycks and Dietterich, 2019). Cut-out: the share of the
#: image under one square (after DeVries and Taylor, 2017; the shares are chosen here).
LEVELS: dict[Kind, tuple[float, ...]] = {
    "noise": (0.08, 0.12, 0.18, 0.26, 0.38),
    "blur": (1.0, 2.0, 3.0, 4.0, 6.0),
    "jpeg": (25, 18, 15, 10, 7),
    "cutout": (0.05, 0.1, 0.2, 0.3, 0.4),
}
LABELS: dict[Kind, str] = {"noise": "Gaussian noise", "blur": "Gaussian blur", "jpeg": "JPEG", "cutout": "cut-out"}


class Distortion(Strict):
    """One kind at one strength, 1 the weakest."""

    kind: Kind
    strength: Annotated[int, Field(ge=1, le=STRENGTHS)]

    def at_level(self) -> "AtLevel":
        """As a job has it: with its level in :data:`LEVELS`."""
        return AtLevel(kind=self.kind, strength=self.strength, level=LEVELS[self.kind][self.strength - 1])


class AtLevel(Distortion):
    """The same, with its ``level``, in the unit of its kind (:data:`LEVELS`)."""

    level: float
