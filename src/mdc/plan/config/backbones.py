"""Backbones: an image encoder, trained or frozen, and the decoder that goes with it."""

from typing import Annotated, Any, Literal, Self

from pydantic import Discriminator, Field, Tag, model_validator

from mdc.plan.config.references import EncoderName
from mdc.plan.config.types import Positive, Strict


class Decoder(Strict):
    """The text decoder of MDC and ARC; without cross-attention it is CLIP's text encoder."""

    width: Positive
    layers: Positive
    heads: Positive

    @model_validator(mode="after")
    def _heads(self) -> Self:
        if self.width % self.heads:
            raise ValueError(f"width {self.width} must be a multiple of heads {self.heads}")
        return self


#: the visual tokens that a decoder reads: patch tokens, their mean, [CLS], the means of a grid of regions, or those of the
#: objects of a rendered scene
VisualContext = Literal["patches", "mean", "cls", "grid_2", "grid_3", "objects"]


class Backbone(Strict):
    """A vision transformer and its decoder (paper, section 4.1). ``visual_context``: the visual tokens that the decoder reads
    (:mod:`mdc.models.visual_context`); in the paper all patch tokens."""

    label: str
    image_size: Positive
    patch_size: Positive
    width: Positive
    layers: Positive
    heads: Positive
    embed_dim: Positive
    decoder: Decoder
    visual_context: VisualContext = "patches"

    @model_validator(mode="after")
    def _shape(self) -> Self:
        if self.width % self.heads:
            raise ValueError(f"width {self.width} must be a multiple of heads {self.heads}")
        if self.image_size % self.patch_size:
            raise ValueError(f"image_size {self.image_size} must be a multiple of patch_size {self.patch_size}")
        side = self.image_size // self.patch_size
        if self.visual_context.startswith("grid") and side < int(self.visual_context[-1]):
            raise ValueError(
                f"visual_context {self.visual_context}: there are {side} patches per side, fewer than the grid has cells"
            )
        return self


class ResNet(Backbone):
    """A residual network (He et al., 2016) of torchvision and its decoder: ``blocks`` residual blocks in each of one to four
    stages, each stage at half the resolution and twice the width of the one before. ResNet-18 has ``basic`` blocks, [2, 2, 2, 2],
    and ResNet-50 ``bottleneck`` blocks, [3, 4, 6, 3].

    Each cell of the last stage's grid is a visual token: ``patch_size``² pixels of the image, ``width`` channels.
    """

    block: Literal["basic", "bottleneck"]
    blocks: Annotated[list[Positive], Field(min_length=1, max_length=4)]

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


class FrozenTokens(Strict):
    """A frozen encoder's output for an image of ``image_size``² pixels: ``tokens`` vectors of ``width`` numbers, from the encoder
    job ``job`` with this configuration hash."""

    job: str
    config_sha256: str
    image_size: Positive
    tokens: Positive
    width: Positive


class FrozenBackbone(Strict):
    """A decoder on a frozen encoder: ``frozen`` is a key of the scale's ``encoders``."""

    label: str
    frozen: EncoderName
    decoder: Decoder


def _which(value: Any) -> str:
    if isinstance(value, dict):
        return "frozen" if "frozen" in value else "resnet" if "blocks" in value or "block" in value else "vit"
    return "frozen" if isinstance(value, _OnFrozen) else "resnet" if isinstance(value, ResNet) else "vit"


#: distinguished by the keys ``frozen`` and ``blocks``, so that an error is reported for the right class
AnyBackbone = Annotated[
    Annotated[Backbone, Tag("vit")] | Annotated[ResNet, Tag("resnet")] | Annotated[FrozenBackbone, Tag("frozen")],
    Discriminator(_which),
]


class FrozenEncoderBackbone(Strict):
    """A :class:`FrozenBackbone` as a job has it: with the encoder's token shape and its ``image_size``."""

    label: str
    image_size: Positive
    frozen: FrozenTokens
    decoder: Decoder


_OnFrozen = FrozenBackbone | FrozenEncoderBackbone | FrozenTokens

#: a backbone as a run's job has it, and one whose encoder is trained
JobBackbone = Annotated[
    Annotated[Backbone, Tag("vit")]
    | Annotated[ResNet, Tag("resnet")]
    | Annotated[FrozenEncoderBackbone, Tag("frozen")],
    Discriminator(_which),
]
TrainedBackbone = Annotated[Annotated[Backbone, Tag("vit")] | Annotated[ResNet, Tag("resnet")], Discriminator(_which)]
