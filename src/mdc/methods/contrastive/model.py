"""CLIP: the same image encoder, with the decoder's blocks without cross-attention as text encoder (paper, section 4.1)."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mdc.models.build import ModelSetup
from mdc.models.decoder import TextTransformer
from mdc.models.image_text import ImageText
from mdc.models.initial import normal_
from mdc.models.packing import Packing
from mdc.models.precision import at_least_float32
from mdc.plan.config.kinds.backbones import Backbone
from mdc.plan.records import UserError


class Contrastive(ImageText):
    text: TextTransformer

    def __init__(self, setup: ModelSetup) -> None:
        """UserError for a backbone that has no encoder to train."""
        backbone, protocol, seed = setup.backbone, setup.protocol, setup.seed
        if not isinstance(backbone, Backbone):
            raise UserError(
                f"{setup.method.label}: a contrastive method cannot use the frozen encoder {backbone.frozen.job}"
            )
        super().__init__(backbone, seed)
        causal = protocol.clip_text_attention == "causal"
        self.text = TextTransformer(backbone.decoder, setup.vocabulary_size, setup.context_length, causal, seed)
        self.image_projection = nn.Linear(backbone.width, backbone.embed_dim, bias=False)
        self.text_projection = nn.Linear(backbone.decoder.width, backbone.embed_dim, bias=False)
        self.logit_scale = nn.Parameter(torch.tensor(math.log(1 / protocol.temperature)))
        self.max_logit_scale = protocol.max_logit_scale
        normal_(self.image_projection.weight, backbone.width**-0.5, seed, "image_projection")
        normal_(self.text_projection.weight, backbone.decoder.width**-0.5, seed, "text_projection")

    def forward(self, images: Tensor, tokens: Tensor, packing: Packing, ends: Tensor) -> tuple[Tensor, Tensor]:
        """images (B, 3, S, S) normalised, tokens (N,) of B captions, of which ``ends`` (B,) are EOT → unit image and text
        embeddings (B, E) each."""
        hidden = self.text(tokens, packing=packing)
        return self.embed_images(images), self._embedding(hidden.index_select(0, ends))

    def embed_images(self, images: Tensor) -> Tensor:
        """images (B, 3, S, S) normalised → unit embeddings (B, E) float32."""
        cls, _ = self.encoder(images)
        return F.normalize(at_least_float32(self.image_projection(cls)), dim=-1)

    def embed_texts(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        """tokens (B, T) ending in EOT → unit embeddings (B, E) float32, pooled at EOT."""
        hidden = self.text(tokens, lengths)
        at_eot = hidden[torch.arange(len(tokens), device=tokens.device), lengths - 1]
        return self._embedding(at_eot)

    def _embedding(self, at_eot: Tensor) -> Tensor:
        return F.normalize(at_least_float32(self.text_projection(at_eot)), dim=-1)

    def scale(self) -> Tensor:
        """The learnt factor on the cosines; ``clamp_scale`` keeps it at most ``max_logit_scale``."""
        return self.logit_scale.exp()

    @torch.no_grad()
    def clamp_scale(self) -> None:
        """Keep the parameter itself in [0, ln max]. Called after each step, as in OpenCLIP."""
        self.logit_scale.clamp_(0.0, math.log(self.max_logit_scale))
