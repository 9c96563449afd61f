"""Captioner: encoder, decoder with cross-attention, and an output layer that cannot predict [MASK].

One class serves every captioning method: autoregressive (causal) and masked (bidirectional). The encoder is trained with it, or
frozen (:class:`mdc.models.token_encoder.TokenEncoder`).
"""

from __future__ import annotations

from torch import Tensor, nn

from mdc.config import Backbone, OnTokens
from mdc.models.cross_entropy import weighted_cross_entropy_sum
from mdc.models.decoder import TextTransformer
from mdc.models.encoder import Encoder
from mdc.models.image_text import ImageText
from mdc.models.initial import normal_
from mdc.models.token_encoder import TokenEncoder


class Captioner(ImageText):
    text: TextTransformer

    def __init__(
        self, backbone: Backbone | OnTokens, vocabulary_size: int, context_length: int, causal: bool, seed: int
    ) -> None:
        super().__init__()
        self.encoder = Encoder(backbone, seed) if isinstance(backbone, Backbone) else TokenEncoder(backbone, seed)
        self.text = TextTransformer(
            backbone.decoder, vocabulary_size, context_length, causal, seed, memory_width=self.encoder.width
        )
        # V rows: [MASK] is an input (row V of the embedding), but no output
        self.head = nn.Linear(backbone.decoder.width, vocabulary_size, bias=False)
        normal_(self.head.weight, backbone.decoder.width**-0.5, seed, "head.weight")

    def forward(self, images: Tensor, inputs: Tensor, lengths: Tensor, targets: Tensor, weights: Tensor) -> Tensor:
        """The sum of weight · cross-entropy over all tokens, a scalar in nats; logits are computed only for weights above 0.

        images as the encoder's ``prepared`` gives them; inputs, targets (B, T) int64; lengths (B,); weights (B, T) float32.
        """
        _, patches = self.encoder(images)
        hidden = self.text(inputs, lengths, patches)
        chosen = weights.reshape(-1).nonzero().squeeze(1)
        return weighted_cross_entropy_sum(
            hidden.reshape(-1, hidden.shape[-1])[chosen],
            self.head.weight,
            targets.reshape(-1)[chosen],
            weights.reshape(-1)[chosen],
        )

    def logits(self, images: Tensor, inputs: Tensor, lengths: Tensor) -> Tensor:
        """All logits (B, T, V), for sampling, scoring and tests. Training uses ``forward``, which needs less memory."""
        _, patches = self.encoder(images)
        return self.head(self.text(inputs, lengths, patches))
