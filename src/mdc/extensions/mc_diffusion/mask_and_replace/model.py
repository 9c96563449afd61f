"""Captioner of mask-and-replace diffusion: a condition made of the image, the timed decoder, and an output layer of K classes.

The classes are a vocabulary's BPE tokens and EOT; SOT is none. They have the vocabulary's numbers, except that EOT takes SOT's,
so [MASK] is class K."""

import torch
from torch import Tensor, nn

from mdc.extensions.mc_diffusion.mask_and_replace.diffusion import ReplaceSchedule
from mdc.extensions.mc_diffusion.mask_and_replace.method import MaskAndReplace
from mdc.extensions.mc_diffusion.mask_and_replace.timed_decoder import TimedDecoder
from mdc.models.build import ModelSetup
from mdc.models.image_text import ImageCaptioner, word_head
from mdc.models.initial import normal_
from mdc.models.memory import Memory
from mdc.plan.config.kinds.backbones import FrozenEncoderBackbone


class DiffusionCaptioner(ImageCaptioner):
    """``length``: places of a caption, taken from the corpus and stored with the weights. ``schedule``: of the noise.
    ``guidance``: how it is trained for guidance, or None."""

    length: Tensor
    text: TimedDecoder

    def __init__(self, setup: ModelSetup) -> None:
        backbone, seed, places = setup.backbone, setup.seed, setup.context_length - 1  # SOT is none
        method: MaskAndReplace = setup.method
        steps, guidance = method.diffusion_steps, method.guidance
        super().__init__(backbone, seed)
        self.classes = setup.vocabulary_size - 1
        self.schedule = ReplaceSchedule(self.classes, steps, 1 - method.replaced, method.replaced)
        self.text = TimedDecoder(backbone.decoder, self.classes, places, steps, seed, self.encoder.width)
        if method.words is not None:  # others', and with them [MASK]'s, are not trained
            self.text.token_embedding.weight.requires_grad_(False)
        self.head = word_head(backbone.decoder.width, self.classes, seed)
        self.guidance = guidance
        self.masked: nn.Parameter | None = None
        if guidance is not None and guidance.kind == "mcs":
            assert isinstance(backbone, FrozenEncoderBackbone)  # the schema sees to it
            self.masked = nn.Parameter(torch.empty(backbone.frozen.width))
            normal_(self.masked, 0.02, seed, "masked")
        self.register_buffer("length", torch.tensor(places))

    def remember(self, vectors: Tensor) -> Memory:
        """Keys and values of a condition, as the encoder's ``prepared`` or :meth:`degraded` gives it."""
        return self.text.remember(self.visual(vectors))

    def degraded(self, vectors: Tensor, where: Tensor) -> Tensor:
        """The condition (B, M, E) with less of the image: at the places ``where`` (B, M) bool it is [MASK], or, of a model that
        is trained for CFG, zeros."""
        filler = self.masked if self.masked is not None else torch.zeros((), device=vectors.device)
        return torch.where(where[..., None], filler.to(vectors.dtype), vectors)

    def class_of(self, tokens: Tensor) -> Tensor:
        """The classes (…) of a vocabulary's tokens (…), pieces and EOT."""
        return tokens.clamp(max=self.classes - 1)

    def token_of(self, classes: Tensor) -> Tensor:
        """The vocabulary's tokens of classes."""
        return torch.where(classes == self.classes - 1, classes + 1, classes)
