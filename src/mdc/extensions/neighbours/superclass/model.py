"""SuperClass: an encoder that predicts which tokens occur in a caption, without a decoder (Huang et al., 2024)."""

import torch
from torch import Tensor, nn

from mdc.models.build import ModelSetup
from mdc.models.image_text import ImageText, word_head
from mdc.models.initial import normal_
from mdc.models.precision import at_least_float32


class SuperClass(ImageText):
    """The mean x of the visual tokens → x + MLP(x), of a norm and a layer four times as wide → a norm → logits of V tokens with a
    bias; SOT and EOT are none. As the original's ``MixClsHead`` with one layer, with its initial MLP."""

    def __init__(self, setup: ModelSetup) -> None:
        super().__init__(setup.backbone, setup.seed)
        width = self.encoder.width
        self.text = nn.Sequential(
            nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )
        for name, parameter in self.text.named_parameters():
            if parameter.ndim > 1:
                normal_(parameter, (2 * width) ** -0.5, setup.seed, f"text.{name}")
            elif name.endswith("bias"):
                nn.init.zeros_(parameter)
        self.norm = nn.LayerNorm(width)
        # a vocabulary's last two ids are SOT and EOT
        self.classes = setup.vocabulary_size - 2
        self.head = word_head(width, self.classes, setup.seed)
        self.head.bias = nn.Parameter(torch.zeros(self.classes))

    def log_probabilities(self, images: Tensor) -> Tensor:
        """images as the encoder's ``prepared`` gives them → log softmax over tokens (B, V), at least float32."""
        _, tokens = self.encoder(images)
        pooled = tokens.mean(dim=1)
        return at_least_float32(self.head(self.norm(pooled + self.text(pooled)))).log_softmax(dim=-1)

    def forward(self, images: Tensor, rows: Tensor, pieces: Tensor, weights: Tensor) -> Tensor:
        """−Σ weight · log softmax, a scalar in nats, over n pieces (n,) int64 of the captions ``rows`` (n,) int64."""
        return -(weights * self.log_probabilities(images)[rows, pieces]).sum()
