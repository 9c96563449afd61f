"""Captioner in both directions (Desai and Johnson, 2021, VirTex): a decoder from left to right, and one from right to left."""

from torch import Tensor

from mdc.diffusion.direction import right_to_left
from mdc.models.captioner import Captioner
from mdc.models.cross_entropy import weighted_cross_entropy_sum
from mdc.models.decoder import TextTransformer
from mdc.models.packing import Packing
from mdc.plan.config.kinds.backbones import Backbone, FrozenEncoderBackbone


class BiCaptioner(Captioner):
    """``text`` and ``head`` are those of a left-to-right captioner, used for scoring and decoding. ``text_backward`` has layers
    of its own and shares embeddings and ``head``."""

    def __init__(
        self, backbone: Backbone | FrozenEncoderBackbone, vocabulary_size: int, context_length: int, seed: int
    ) -> None:
        super().__init__(backbone, vocabulary_size, context_length, causal=True, seed=seed)
        shape, width = backbone.decoder, self.encoder.width
        self.text_backward = TextTransformer(
            shape, vocabulary_size, context_length, True, seed, width, name="text_backward"
        )
        del self.text_backward.token_embedding, self.text_backward.positional_embedding

    def forward(
        self,
        images: Tensor,
        inputs: Tensor,
        packing: Packing,
        chosen: Tensor,
        targets: Tensor,
        weights: Tensor,
        kept: Tensor | None = None,
        **options: Tensor,
    ) -> Tensor:
        """The mean of both directions' sums, each as :meth:`mdc.models.captioner.Captioner.forward` has it; ``targets`` are those
        from left to right, and every one of ``chosen`` has a token behind it."""
        visual = self.visual(images)
        forward = self.text(inputs, memory=visual, packing=packing)
        captions = packing.pad(inputs[:, None]).squeeze(2)
        reverse = packing.unpad(right_to_left(captions, packing.lengths)[..., None]).squeeze(1)
        embedded = self.text.embedded(reverse, packing)
        backward = self.text_backward.layers(embedded, visual, None, True, packing)
        before = reverse.index_select(0, chosen + 1)
        directions = ((forward, targets), (backward, before))
        sums = [
            weighted_cross_entropy_sum(hidden.index_select(0, chosen), self.head.weight, labels, weights)
            for hidden, labels in directions
        ]
        return (sums[0] + sums[1]) / 2
