"""The paper's methods as they stand in params.yaml: one masked objective with different values, and what theory says."""

import itertools
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import toy

from mdc.data.loader.batch import CaptionBatch
from mdc.models.normalise import normalise
from mdc.plan.config.read import load
from mdc.training.objectives.captioning import Supervision
from mdc.training.objectives.masked import masked, schedule_of, supervise
from mdc.training.optimizer import build_optimizer

ROOT = Path(__file__).resolve().parents[3]
METHODS = load(ROOT / "params.yaml").methods
MASKED = [name for name, method in METHODS.items() if method.objective == "masked"]


#: one of each objective, weight and direction; diffusion that replaces, and a set of pieces, whose least loss is its entropy, are
#: made to overfit in files of their own
OWN = {
    (method.objective, method.weight, method.direction): name
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


# --- the bound on a language whose likelihood is known --------------------------------------------------------------------

TOKENS, LENGTH = 3, 3
_rng = np.random.default_rng(3)
LANGUAGE = _rng.dirichlet(np.full(TOKENS**LENGTH, 0.5)).reshape((TOKENS,) * LENGTH)  # p(x1, x2, x3)
SENTENCES = list(itertools.product(range(TOKENS), repeat=LENGTH))


def _entropy(language: np.ndarray, sentence: tuple[int, ...], hidden: frozenset[int], place: int) -> float:
    """−log p(x_place | the tokens that are not hidden): what a perfect denoiser has as cross-entropy."""
    seen = tuple(slice(None) if i in hidden else token for i, token in enumerate(sentence))
    left = language[seen]  # axes: the hidden places in order
    axes = tuple(axis for axis, i in enumerate(sorted(hidden)) if i != place)
    marginal = left.sum(axis=axes)
    return -math.log(marginal[sentence[place]] / marginal.sum())


def test_what_a_batch_is_supervised_with_is_that_bound() -> None:
    """The training code itself (draw of t, masks, weights) on a sentence many times, against −log p(x)."""
    draws = 1 << 18
    schedule = schedule_of(METHODS["mdc_0_100"], toy.PROTOCOL.model_copy(update={"least_t": 1e-6}))
    generator = torch.Generator().manual_seed(0)
    masks = [frozenset(i for i in range(LENGTH) if code >> i & 1) for code in range(2**LENGTH)]
    for sentence in SENTENCES[::5]:
        entropies = [sum(_entropy(LANGUAGE, sentence, hidden, i) for i in hidden) for hidden in masks]
        # SOT, then the sentence, whose last token stands where EOT would
        tokens = torch.tensor([[TOKENS, *sentence]]).expand(draws, -1)
        lengths, uniforms = torch.full((draws,), LENGTH + 1), torch.rand(draws, LENGTH + 1, generator=generator)
        t = schedule.draw(torch.rand(draws, generator=generator), torch.arange(draws), draws)
        found = masked(tokens, lengths, uniforms, t, schedule, TOKENS + 1, "valid_tokens")
        weights = found.weights[:, 1:].double()
        codes = ((weights > 0) * torch.tensor([1, 2, 4])).sum(dim=1)
        values = (weights.amax(dim=1) * torch.tensor(entropies, dtype=torch.float64)[codes]).numpy()
        error = values.std() / math.sqrt(draws)
        assert abs(values.mean() + math.log(LANGUAGE[sentence])) < 5 * error, sentence
        assert error < 0.03 * -math.log(LANGUAGE[sentence]), "too coarse to tell"
