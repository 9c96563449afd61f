"""What the blog adds to scales: a residual network as a backbone, visual contexts of regions, and distortions of images."""

from typing import Annotated, Any, Literal, Self, cast

from pydantic import Field, model_validator

from mdc.plan.config.kinds.backbones import Backbone, VisualContext
from mdc.plan.config.kinds.distortion import Distortion
from mdc.plan.config.types import Positive


class ResNet(Backbone):
    """A residual network (He et al., 2016) of torchvision and its decoder: ``blocks`` residual blocks in each of one to four
    stages, each stage at half the resolution and twice the width of the one before. ResNet-18 has ``basic`` blocks, [2, 2, 2, 2],
    and ResNet-50 ``bottleneck`` blocks, [3, 4, 6, 3].

    Each cell of the last stage's grid is a visual token: ``patch_size``² pixels of the image, ``width`` channels.
    """

    module = "mdc.extensions.blog.residual"
    only_here = (
        "its encoder is a residual network with norms of groups, which neither open_clip nor timm builds as this one"
    )
    block: Literal["basic", "bottleneck"]
    blocks: Annotated[list[Positive], Field(min_length=1, max_length=4)]

    @property
    def in_words(self) -> str:
        """Its encoder."""
        return f"residual network of {' + '.join(map(str, self.blocks))} {self.block} blocks"

    @model_validator(mode="before")
    @classmethod
    def _grid(cls, value: Any) -> Any:
        """Derive from the blocks the shape that a vision transformer sets by keys."""
        if not isinstance(value, dict):
            return value
        blocks = value.get("blocks")
        # invalid blocks are reported elsewhere and must not cause a second error here
        stages = len(blocks) if isinstance(blocks, list) and 1 <= len(blocks) <= 4 else 1
        halved = 2 ** (stages - 1)
        width = 64 * halved * (4 if value.get("block") == "bottleneck" else 1)
        follow = {"patch_size": 4 * halved, "width": width, "layers": stages, "heads": 1}
        for key, number in follow.items():  # a job's configuration has these keys
            if value.get(key, number) != number:
                raise ValueError(f"{key} follows from blocks; leave it out")
        return {**value, **follow}


Distorted = Literal["noise", "blur", "jpeg", "cutout"]
#: the level of each strength. Noise: standard deviation as a share of the intensity range; blur: standard deviation in pixels at
#: a shorter side of 224; JPEG: quality; these three as in ImageNet-C (Hendrycks and Dietterich, 2019). Cut-out: the share of the
#: image under one square (after DeVries and Taylor, 2017; the shares are chosen here).
LEVELS: dict[Distorted, tuple[float, ...]] = {
    "noise": (0.08, 0.12, 0.18, 0.26, 0.38),
    "blur": (1.0, 2.0, 3.0, 4.0, 6.0),
    "jpeg": (25, 18, 15, 10, 7),
    "cutout": (0.05, 0.1, 0.2, 0.3, 0.4),
}
_IN_WORDS: dict[Distorted, str] = {
    "noise": "Gaussian noise",
    "blur": "Gaussian blur",
    "jpeg": "JPEG",
    "cutout": "cut-out",
}


class Corruption(Distortion):
    """A distortion in five strengths (docs/findings/noise.md). ``level``: in the unit of its kind (:data:`LEVELS`)."""

    module = "mdc.extensions.blog.distortions"
    kind: Distorted
    level: float

    @classmethod
    def at_all_strengths(cls, kind: str) -> list[Self]:
        """A kind at each strength, the weakest first."""
        levels = enumerate(LEVELS[cast(Distorted, kind)], 1)
        return [cls(kind=cast(Distorted, kind), strength=strength, level=level) for strength, level in levels]

    @property
    def in_words(self) -> str:
        """Its kind."""
        return _IN_WORDS[self.kind]


class OneVector(VisualContext):
    """The mean of the patch tokens, or [CLS]."""

    module = "mdc.extensions.blog.regions"
    kind: Literal["mean", "cls"]


class Grid(VisualContext):
    """The mean of each cell of a grid of 2 × 2 or 3 × 3 regions."""

    module = "mdc.extensions.blog.regions"
    regions = True
    kind: Literal["grid_2", "grid_3"]

    def least_side(self) -> int:
        return int(self.kind[-1])


class Objects(VisualContext):
    """The mean of all patch tokens, and of those of each object of a rendered scene."""

    module = "mdc.extensions.blog.regions"
    corpora = ("scenes",)
    kind: Literal["objects"]


KINDS = (ResNet, Corruption, OneVector, Grid, Objects)
