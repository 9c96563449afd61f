"""CLIP's loss against OpenCLIP's, what equal captions do, and what is scored."""

import pytest
import torch
import toy

from mdc.methods.contrastive.loss import contrastive_loss, duplicate_share
from mdc.methods.contrastive.score import Scorer
from mdc.models.normalise import normalise
from mdc.models.open_clip_parts import load


def _features(size: int = 12) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    pair = (torch.nn.functional.normalize(torch.randn(size, 8, generator=generator), dim=1) for _ in range(2))
    image, text = pair
    return image, text


def test_equals_open_clip() -> None:
    image, text = _features()
    scale = torch.tensor(20.0)
    theirs = load("loss").ClipLoss()(image, text, scale)
    assert torch.allclose(contrastive_loss(image, text, scale), theirs, atol=1e-6)
    distinct = torch.arange(len(image))
    assert torch.equal(contrastive_loss(image, text, scale, distinct), contrastive_loss(image, text, scale))


def test_equal_captions_are_no_negatives() -> None:
    image, text = _features()
    text[5] = text[2]
    captions = torch.arange(12)
    captions[5] = 2
    scale = 10.0
    total = 0.0
    for rows, columns in ((image, text), (text, image)):  # brute force: leave the twin out of the sum
        for i in range(12):
            others = [j for j in range(12) if j == i or captions[j] != captions[i]]
            logits = torch.stack([scale * rows[i] @ columns[j] for j in others])
            total -= float(logits.log_softmax(0)[others.index(i)]) / 24
    assert abs(float(contrastive_loss(image, text, torch.tensor(scale), captions)) - total) < 1e-5
    assert duplicate_share(captions) == pytest.approx(2 / 12)


def test_logit_scale_starts_at_the_protocols_temperature_and_is_kept_from_1_to_its_maximum() -> None:
    for temperature, most in ((0.07, 100.0), (0.5, 3.0)):
        protocol = toy.PROTOCOL.model_copy(update={"temperature": temperature, "max_logit_scale": most})
        model = toy.build_model(toy.METHODS["clip"], toy.BACKBONE, protocol, toy.V, 77, 0)
        assert float(model.scale().detach()) == pytest.approx(1 / temperature)
        for learnt, kept in ((9.0, most), (-3.0, 1.0)):  # no lower than the plain cosine
            with torch.no_grad():
                model.logit_scale.fill_(learnt)
            model.clamp_scale()
            assert float(model.scale().detach()) == pytest.approx(kept)


@pytest.mark.parametrize(("share", "masked"), [(0.049, False), (0.051, True)])
def test_duplicates_are_masked_above_the_limit_only(share: float, masked: bool) -> None:
    batch = toy.batch(8)
    batch.tokens[3], batch.lengths[3] = batch.tokens[1], batch.lengths[1]
    batch.caption_hash[3] = batch.caption_hash[1]
    model = toy.model("clip")
    objective = toy.build_objective(model, toy.METHODS["clip"], toy.PROTOCOL, toy.MASK, 8, "fp32", share)
    image, text = model.embed_images(normalise(batch.images)), model.embed_texts(batch.tokens, batch.lengths)
    captions = batch.caption_hash if masked else None
    wanted = contrastive_loss(image, text, model.scale(), captions)
    assert torch.allclose(objective.backward(objective.prepare(batch))["loss"], wanted.detach(), atol=1e-6)


@torch.no_grad()
def test_what_is_scored_is_what_was_trained() -> None:
    model, batch = toy.model("clip").eval(), toy.batch(4)
    scorer = Scorer(model, toy.MASK, "fp32", torch.device("cpu"))
    assert torch.allclose(scorer.look(batch.images), model.embed_images(normalise(batch.images)), atol=1e-6)
    captions = [row[:length].tolist() for row, length in zip(batch.tokens, batch.lengths.tolist(), strict=True)]
    assert torch.allclose(scorer.read(captions), model.embed_texts(batch.tokens, batch.lengths), atol=1e-5)
