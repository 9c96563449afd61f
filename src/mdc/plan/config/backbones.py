"""Backbones: an image encoder, trained or frozen, and the decoder that goes with it."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import Discriminator, Field, Tag, model_validator

from mdc.plan.config.references import EncoderName, WordsName
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


#: what of an image a decoder reads: its patch tokens, their mean, [CLS], the means of a grid of regions, or of the objects of a
#: rendered scene
VisualContext = Literal["patches", "mean", "cls", "grid_2", "grid_3", "objects"]


class Backbone(Strict):
    """A vision transformer and the decoder that goes with it (paper, section 4.1). ``visual_context``: what of an image the
    decoder reads (:mod:`mdc.models.visual_context`); the paper's reads every patch."""

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
    """A residual network (He et al., 2016) of torchvision and the decoder that goes with it: ``blocks`` residual blocks in
    each of its one to four stages, each stage at half the resolution of the one before it and twice as wide. ResNet-18 has
    ``basic`` blocks, [2, 2, 2, 2], and ResNet-50 ``bottleneck`` blocks, [3, 4, 6, 3].

    Each place of the last stage's grid is a visual token: ``patch_size`` pixels of the image a side, ``width`` channels.
    """

    block: Literal["basic", "bottleneck"]
    blocks: Annotated[list[Positive], Field(min_length=1, max_length=4)]

    @model_validator(mode="before")
    @classmethod
    def _grid(cls, value: Any) -> Any:
        """What follows from the blocks, where a vision transformer has numbers of its own."""
        if not isinstance(value, dict):
            return value
        blocks = value.get("blocks")
        # of blocks that are wrong, nothing follows that could be told as a mistake beside them
        stages = len(blocks) if isinstance(blocks, list) and 1 <= len(blocks) <= 4 else 1
        halved = 2 ** (stages - 1)
        width = 64 * halved * (4 if value.get("block") == "bottleneck" else 1)
        follow = {"patch_size": 4 * halved, "width": width, "layers": stages, "heads": 1}
        for key, number in follow.items():  # a job has them
            if value.get(key, number) != number:
                raise ValueError(f"{key} follows from blocks; leave it out")
        return {**value, **follow}


class FrozenWords(Strict):
    """Embeddings of ``width`` numbers that the job ``job``, whose configuration has that hash, brings."""

    job: str
    config_sha256: str
    width: Positive


class FrozenTokens(Strict):
    """What a decoder reads of an image: ``tokens`` vectors of ``width`` numbers that the encoder job ``job``, whose
    configuration has that hash, makes of ``image_size``² pixels."""

    job: str
    config_sha256: str
    image_size: Positive
    tokens: Positive
    width: Positive


class FrozenBackbone(Strict):
    """A decoder on an encoder that is not trained: ``frozen`` is a key of the scale's ``encoders``.

    ``words``, a key of the scale's ``words``: whose embeddings of BPE tokens it has, which are not trained either.
    """

    label: str
    frozen: EncoderName
    decoder: Decoder
    words: WordsName | None = None


def _which(value: Any) -> str:
    if isinstance(value, dict):
        return "frozen" if "frozen" in value else "resnet" if "blocks" in value or "block" in value else "vit"
    return "frozen" if isinstance(value, _OnFrozen) else "resnet" if isinstance(value, ResNet) else "vit"


#: told apart by the keys ``frozen`` and ``blocks``, so that a mistake in one is never told as one of another
AnyBackbone = Annotated[
    Annotated[Backbone, Tag("vit")] | Annotated[ResNet, Tag("resnet")] | Annotated[FrozenBackbone, Tag("frozen")],
    Discriminator(_which),
]


class FrozenEncoderBackbone(Strict):
    """The same, as a job has it: with what is to be known of the encoder, whose ``image_size`` it has."""

    label: str
    image_size: Positive
    frozen: FrozenTokens
    decoder: Decoder
    words: FrozenWords | None = None


_OnFrozen = FrozenBackbone | FrozenEncoderBackbone | FrozenTokens

#: a backbone as a run's job has it, and one that may be no run's
JobBackbone = Annotated[
    Annotated[Backbone, Tag("vit")]
    | Annotated[ResNet, Tag("resnet")]
    | Annotated[FrozenEncoderBackbone, Tag("frozen")],
    Discriminator(_which),
]
TrainedBackbone = Annotated[Annotated[Backbone, Tag("vit")] | Annotated[ResNet, Tag("resnet")], Discriminator(_which)]
