"""From a method's entry to its model."""

from __future__ import annotations

from mdc.config import Backbone, Method, ProtocolPretrain
from mdc.models.captioner import Captioner
from mdc.models.contrastive import Contrastive
from mdc.models.initial import seeded


def build_model(
    method: Method,
    backbone: Backbone,
    protocol: ProtocolPretrain,
    vocabulary_size: int,
    context_length: int,
    seed: int,
) -> Captioner | Contrastive:
    """The model of a method with the initial weights of ``seed``; the global generator is left as it was."""
    # PyTorch's layers draw weights of their own, which ours then replace
    with seeded(seed, "replaced"):
        if method.objective == "contrastive":
            return Contrastive(
                backbone,
                vocabulary_size,
                context_length,
                causal=protocol.clip_text_attention == "causal",
                temperature=protocol.temperature,
                max_logit_scale=protocol.max_logit_scale,
                seed=seed,
            )
        causal = method.objective == "autoregressive"
        return Captioner(backbone, vocabulary_size, context_length, causal=causal, seed=seed)
