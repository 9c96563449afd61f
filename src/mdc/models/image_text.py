"""The part of a model that every objective has."""

from __future__ import annotations

from torch import nn

from mdc.models.encoder import Encoder
from mdc.models.token_encoder import TokenEncoder


class ImageText(nn.Module):
    """An image encoder, which is evaluated later, and the text tower that it is trained with."""

    encoder: Encoder | TokenEncoder
    text: nn.Module
