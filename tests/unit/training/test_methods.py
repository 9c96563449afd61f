"""The paper's methods of params.yaml: one masked objective with different values, made to overfit."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import toy

from mdc.data.loader.batch import CaptionBatch
from mdc.methods.masked.loss import supervise
from mdc.models.normalise import normalise
from mdc.plan.config.read import load
from mdc.training.objectives.captioning import Supervision
from mdc.training.trainer import build_optimizer

ROOT = Path(__file__).resolve().parents[3]
METHODS = load(ROOT / "params.yaml").methods
MASKED = [name for name, method in METHODS.items() if method.objective == "masked"]


#: one of each objective, weight and direction; diffusion that replaces, and a set of pieces, whose least loss is its entropy, are
#: made to overfit in files of their own
OWN = {
    (method.objective, getattr(method, "weight", None), getattr(method, "direction", None)): name
    for name, method in reversed(METHODS.items())
    if method.objective not in ("mask_and_replace", "superclass")
}


@pytest.mark.parametrize("name", OWN.values())
def test_overfits_eight_pairs(name: str) -> None:
    """Eight pairs by heart: with enough masked, even all tokens at once from the image alone."""
    torch.set_num_threads(1)
    method, batch = METHODS[name], toy.batch(8, longest=8, width=8)
    model = toy.model(method)
    objective = toy.objective(method, model)
    recipe = toy.recipe(lr=5e-3, weight_decay=0.0)
    optimizer = build_optimizer(model, recipe, toy.PROTOCOL)
    noise = torch.Generator().manual_seed(0)
    losses: list[float] = []
    # with one token in seven masked, a caption is seen whole only after many draws
    while len(losses) < 800 and not (len(losses) > 20 and np.mean(losses[-10:]) < 0.1):
        batch.uniforms.copy_(torch.rand(batch.uniforms.shape, generator=noise))
        batch.jitter.copy_(torch.rand(8, generator=noise))
        optimizer.zero_grad()
        losses.append(float(objective.backward(objective.prepare(batch))["loss"]))
        optimizer.step()
        objective.after_step()
    assert np.mean(losses[-10:]) < 0.1 < 1 < np.mean(losses[:3]), (len(losses), losses[:3], losses[-10:])


@pytest.mark.parametrize("name", MASKED)
def test_the_true_token_under_a_mask_changes_no_logit_by_a_bit(name: str) -> None:
    method = METHODS[name]
    model = toy.model(method).eval()
    batch = toy.batch(8)
    target = supervise(method, toy.PROTOCOL, toy.MASK, batch, 8)
    where = target.weights != 0
    other = replace(batch, tokens=torch.where(where, (batch.tokens + 1) % toy.SOT, batch.tokens))
    assert where.any() and not torch.equal(other.tokens, batch.tokens)
    changed = supervise(method, toy.PROTOCOL, toy.MASK, other, 8)
    images = normalise(batch.images)
    with torch.no_grad():
        before = model.logits(images, target.inputs, batch.lengths)
        after = model.logits(images, changed.inputs, batch.lengths)
    assert torch.equal(before, after)


def _bert(batch: CaptionBatch, ratio: float) -> Supervision:
    """Image-conditioned BERT written plainly: each token masked with probability ``ratio``, the mean over the masked."""
    inputs, weights = batch.tokens.clone(), torch.zeros(batch.tokens.shape)
    for b, length in enumerate(batch.lengths.tolist()):
        for i in range(1, length):
            if batch.uniforms[b, i] < ratio:
                inputs[b, i], weights[b, i] = toy.MASK, 1.0
    return Supervision(inputs, batch.tokens, weights, weights.sum().to(torch.int64))


@pytest.mark.parametrize("ratio", [0.15, 0.3, 0.45, 0.6, 0.75, 0.9, 1.0])
def test_one_ratio_without_a_weight_is_bert_and_all_masked_is_parallel_decoding(ratio: float) -> None:
    batch = toy.batch(64)
    plain = METHODS["mdc"].model_copy(
        update={"t_range": (ratio, ratio), "weight": "none", "normaliser": "masked_tokens"}
    )
    entry = METHODS["parallel"] if ratio == 1.0 else METHODS[f"bert_{round(100 * ratio)}"]
    expected = _bert(batch, ratio)
    for method in (plain, entry):
        found = supervise(method, toy.PROTOCOL, toy.MASK, batch, 64)
        assert all(torch.equal(ours, theirs) for ours, theirs in zip(found[:4], expected[:4], strict=True))
        assert not found.extra_inputs
    assert 0 < int(expected.normaliser) <= int((batch.lengths - 1).sum())
    if ratio == 1.0:  # nothing of the caption is left to see but SOT
        assert expected.normaliser == (batch.lengths - 1).sum()
