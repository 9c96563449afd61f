"""From a method's entry to its model."""

from __future__ import annotations

from mdc.config import Backbone, Method, ProtocolPretrain
from mdc.models.captioner import Captioner
from mdc.models.contrastive import Contrastive


def build_model(
    method: Method,
    backbone: Backbone,
    protocol: ProtocolPretrain,
    vocabulary_size: int,
    context_length: int,
    seed: int,
) -> Captioner | Contrastive:
    """The model of a method with the initial weights of ``seed``."""
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
    return Captioner(backbone, vocabulary_size, context_length, causal=method.objective == "autoregressive", seed=seed)
