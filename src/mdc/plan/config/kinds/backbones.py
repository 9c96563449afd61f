"""Backbones: an image encoder, trained or frozen, and the decoder that goes with it."""

from functools import cache
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from mdc.plan.config.kinds.kind import Kind, Loaded, kinds
from mdc.plan.config.references import EncoderName
from mdc.plan.config.types import Positive, Strict, check_reference


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


class VisualContext(Kind):
    """What a decoder reads of an image's tokens. Its module has ``read(kind, cls, patches, pixels)``, as
    :mod:`mdc.models.visual_context`."""

    #: whether its tokens are regions of the image, row by row
    regions: ClassVar[bool] = False
    #: the kinds of corpora whose images it can read; none: all
    corpora: ClassVar[tuple[str, ...]] = ()

    def least_side(self) -> int:
        """The least number of patches along a side of the image."""
        return 1


class Patches(VisualContext):
    """All patch tokens (paper, section 3.2)."""

    module = "mdc.models.visual_context"
    regions = True
    kind: Literal["patches"]


@cache
def visual_contexts() -> dict[str, VisualContext]:
    """Every visual context, by its name. A function, since extensions' kinds import this module."""
    return {name: one.model_validate({"kind": name}) for name, one in kinds(VisualContext, Patches).items()}


def _listed(schema: dict[str, Any]) -> None:
    schema["enum"] = list(visual_contexts())


class Backbone(Loaded):
    """A vision transformer and its decoder (paper, section 4.1). A subclass has another encoder; an entry with one of its own
    keys is of it. Its module has ``Encoder(backbone, seed)``, a :class:`mdc.models.pixel_encoder.PixelEncoder`, and ``ATTENDS``,
    whether that has ``heads`` attention heads.

    ``visual_context``: the visual tokens that the decoder reads; in the paper all patch tokens.
    """

    module = "mdc.models.encoder"
    #: why other libraries cannot load its encoder; None if they can
    only_here: ClassVar[str | None] = None

    label: str
    image_size: Positive
    patch_size: Positive
    width: Positive
    layers: Positive
    heads: Positive
    embed_dim: Positive
    decoder: Decoder
    visual_context: Annotated[str, Field(json_schema_extra=_listed)] = "patches"

    @property
    def in_words(self) -> str:
        """Its encoder."""
        return f"ViT of {self.layers} layers, patches of {self.patch_size} pixels"

    @property
    def module_names(self) -> list[str]:
        """What a model on it loads by name."""
        return [self.module, visual_contexts()[self.visual_context].module]

    @model_validator(mode="after")
    def _shape(self) -> Self:
        if self.width % self.heads:
            raise ValueError(f"width {self.width} must be a multiple of heads {self.heads}")
        if self.image_size % self.patch_size:
            raise ValueError(f"image_size {self.image_size} must be a multiple of patch_size {self.patch_size}")
        check_reference("visual_context", self.visual_context, visual_contexts(), "visual context")
        side, least = self.image_size // self.patch_size, visual_contexts()[self.visual_context].least_side()
        if side < least:
            raise ValueError(
                f"visual_context {self.visual_context}: needs {least} patches along a side, and there are {side}"
            )
        return self


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


class FrozenEncoderBackbone(Strict):
    """A :class:`FrozenBackbone` as a job has it: with the encoder's token shape and its ``image_size``."""

    label: str
    image_size: Positive
    frozen: FrozenTokens
    decoder: Decoder

    @property
    def module_names(self) -> list[str]:
        """What a model on it loads by name, besides the frozen encoder's module."""
        return [Patches.module]
