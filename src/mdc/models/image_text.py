"""The parts of a model that every objective has, and those that all captioners have."""

from torch import Tensor, nn

from mdc.models.encoder import build_encoder
from mdc.models.initial import normal_
from mdc.models.pixel_encoder import PixelEncoder
from mdc.models.token_encoder import TokenEncoder
from mdc.models.visual_context import read
from mdc.plan.config.backbones import Backbone, FrozenEncoderBackbone, VisualContext


class ImageText(nn.Module):
    """An image encoder, which is evaluated later, and the text tower that it is trained with."""

    encoder: PixelEncoder | TokenEncoder
    text: nn.Module

    def __init__(self, backbone: Backbone | FrozenEncoderBackbone, seed: int) -> None:
        super().__init__()
        self.encoder = build_encoder(backbone, seed) if isinstance(backbone, Backbone) else TokenEncoder(backbone, seed)


class ImageCaptioner(ImageText):
    """A captioner: an encoder, what of its tokens the decoder reads (``visual_context``), and a ``head`` from hidden states to
    words."""

    head: nn.Linear

    def __init__(self, backbone: Backbone | FrozenEncoderBackbone, seed: int) -> None:
        super().__init__(backbone, seed)
        self.visual_context: VisualContext = backbone.visual_context if isinstance(backbone, Backbone) else "patches"

    def visual(self, images: Tensor) -> Tensor:
        """Of images as the encoder's ``prepared`` gives them, the visual tokens that the decoder reads, (B, k, E)."""
        cls, tokens = self.encoder(images)
        if self.visual_context != "objects":
            return read(self.visual_context, cls, tokens)
        assert isinstance(self.encoder, PixelEncoder)  # a frozen encoder has no ``visual_context``
        return read(self.visual_context, cls, tokens, self.encoder.pixels(images))


def word_head(width: int, vocabulary_size: int, seed: int) -> nn.Linear:
    """Hidden states to logits of V tokens: [MASK] is an input (row V of the embedding), but no output."""
    head = nn.Linear(width, vocabulary_size, bias=False)
    normal_(head.weight, width**-0.5, seed, "head.weight")
    return head
