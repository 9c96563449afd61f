"""The visual tokens that a decoder reads: every patch, as in the paper. Extensions have others."""

from collections.abc import Callable

from torch import Tensor

from mdc.plan.config.kinds.backbones import Backbone, FrozenEncoderBackbone


def count_of_tokens(backbone: Backbone | FrozenEncoderBackbone) -> int:
    """How many visual tokens an encoder gives for an image."""
    if isinstance(backbone, FrozenEncoderBackbone):
        return backbone.frozen.tokens
    return (backbone.image_size // backbone.patch_size) ** 2


def read(kind: str, cls: Tensor, patches: Tensor, pixels: Callable[[], Tensor]) -> Tensor:
    """[CLS] (B, D) and patch tokens (B, M, D) of B images → what the decoder reads, (B, k, D): the patches. ``pixels`` gives the
    images, (B, 3, S, S) uint8."""
    return patches
