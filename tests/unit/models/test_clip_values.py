"""CLIP takes the protocol's values, and is scored by the embeddings that it was trained with."""

from __future__ import annotations

import pytest
import torch
import toy

from mdc.formats.pixels import normalise
from mdc.models.contrastive import Contrastive
from mdc.predictors.similarity import Similarity


def _clip(**protocol: float) -> Contrastive:
    values = toy.PROTOCOL.model_copy(update=protocol)
    found = toy.build_model(toy.METHODS["clip"], toy.BACKBONE, values, toy.V, 77, seed=0)
    assert isinstance(found, Contrastive)
    return found.eval()


def test_the_scale_begins_and_ends_where_the_protocol_says() -> None:
    model = _clip(temperature=0.5, max_logit_scale=3.0)
    assert model.scale().item() == pytest.approx(2.0)
    with torch.no_grad():
        model.logit_scale.fill_(10.0)
    model.clamp_scale()
    assert model.scale().item() == pytest.approx(3.0)


@torch.no_grad()
def test_what_is_scored_is_what_was_trained() -> None:
    model, batch = _clip(), toy.batch(4)
    scorer = Similarity(model, "fp32", torch.device("cpu"))
    assert torch.allclose(scorer.look(batch.images), model.embed_images(normalise(batch.images)), atol=1e-6)
    captions = [row[:length].tolist() for row, length in zip(batch.tokens, batch.lengths.tolist(), strict=True)]
    assert torch.allclose(scorer.read(captions), model.embed_texts(batch.tokens, batch.lengths), atol=1e-5)
