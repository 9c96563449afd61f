"""Captioner: encoder, decoder with cross-attention, and an output layer that cannot predict [MASK].

One class serves every captioning method with one transformer: autoregressive (causal) and masked (bidirectional). The encoder is
trained with it, or frozen (:class:`mdc.models.image_text.TokenEncoder`).
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from mdc.models.cross_entropy import weighted_cross_entropy_sum
from mdc.models.decoder import Block, TextTransformer
from mdc.models.image_text import TokenCaptioner, word_head
from mdc.models.memory import Memory
from mdc.models.packing import Packing
from mdc.plan.config.kinds.backbones import Backbone, FrozenEncoderBackbone


class Captioner(TokenCaptioner):
    text: TextTransformer

    def __init__(
        self,
        backbone: Backbone | FrozenEncoderBackbone,
        vocabulary_size: int,
        context_length: int,
        causal: bool,
        seed: int,
        timed: bool = False,
    ) -> None:
        """``timed``: the decoder is conditioned on the masked share of a caption."""
        super().__init__(backbone, seed)
        self.text = TextTransformer(
            backbone.decoder, vocabulary_size, context_length, causal, seed, self.encoder.width, timed
        )
        self.head = word_head(backbone.decoder.width, vocabulary_size, seed)

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
        """The sum of weight · cross-entropy over ``chosen`` tokens, a scalar in nats; logits are computed for these alone.

        images as the encoder's ``prepared`` gives them; inputs (N,) int64, the real tokens, at the places of ``packing``;
        chosen (n,) int64, which of them; their targets (n,) int64 and weights (n,) float32. ``kept`` (B, k) int64: which visual
        tokens are read, if not all; ``options``: of :meth:`mdc.models.decoder.TextTransformer.forward`.
        """
        visual = self.visual(images)
        if kept is not None:
            visual = visual.gather(1, kept[..., None].expand(-1, -1, visual.shape[2]))
        hidden = self.text(inputs, memory=visual, packing=packing, **options)
        return weighted_cross_entropy_sum(hidden.index_select(0, chosen), self.head.weight, targets, weights)

    @property
    def blocks(self) -> list[Block]:
        """The decoder's layers."""
        return [block for block in self.text.blocks if isinstance(block, Block)]

    def remember(self, visual: Tensor) -> Memory:
        return Memory(tuple(block.cross_attention.remember(visual) for block in self.blocks))

    def hidden_states(self, tokens: Tensor, memory: Memory) -> Tensor:
        """Equal to ``text`` of each version without padding. A caption's versions are folded into one long row of queries for the
        cross-attention, so the keys of its image are not copied."""
        captions, versions, length = tokens.shape
        text = self.text
        x = text.token_embedding(tokens) + text.positional_embedding[:length]
        x = x.reshape(captions * versions, length, -1)
        time = text.time(tokens.flatten(0, 1))
        for block, (key, value) in zip(self.blocks, memory.layers, strict=True):
            x = x + block.self_attention(block.norm_self(x, time), causal=text.causal)
            attention = block.cross_attention
            query = attention.query(block.norm_cross(x, time)).view(captions, versions * length, attention.heads, -1)
            mixed = F.scaled_dot_product_attention(query.transpose(1, 2), key, value)
            x = x + attention.out(mixed.transpose(1, 2).reshape(x.shape))
            x = x + block.mlp(block.norm_mlp(x))
        return torch.as_tensor(text.norm(x).view(captions, versions, length, -1))

    def logits(self, images: Tensor, inputs: Tensor, lengths: Tensor) -> Tensor:
        """All logits (B, T, V), for comparisons. Training uses ``forward``, which needs less memory."""
        return self.head(self.text(inputs, lengths, self.visual(images)))
