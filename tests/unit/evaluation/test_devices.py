"""Features, probes, held-out losses, scores and captions on a GPU are those on a CPU."""

from collections.abc import Iterator

import pytest
import torch
import toy
from torch.utils._pytree import tree_map_only

from mdc.evaluation import attentive_probe
from mdc.evaluation.attentive_probe import Fitting
from mdc.evaluation.linear_probe import ProbeRecipe, predict, train_linear_probe
from mdc.evaluation.predictors.caption_scores import Draws, Pair
from mdc.evaluation.predictors.encode import ImageEncoder
from mdc.extensions.neighbours.knn import votes
from mdc.models.text import Vocabulary
from mdc.plan.config.decoding import Beam, Unmasking

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU that PyTorch can see"),
]
CPU = torch.device("cpu")
DEVICES = CPU, torch.device("cuda")
WORDS = Vocabulary.corpus(range(toy.V - 2))
BATCH = toy.batch(12, draws=True)
PAIRS = [
    Pair(n, row[:length], n)
    for n, (row, length) in enumerate(zip(BATCH.tokens.tolist(), BATCH.lengths.tolist(), strict=True))
]


@pytest.fixture(autouse=True)
def _full_fp32(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)
    yield


@pytest.mark.parametrize("pooling", ["cls", "patch_mean"])
def test_features_and_what_a_probe_learns_of_them(pooling: str) -> None:
    found = [ImageEncoder(toy.model("mdc").encoder, pooling, "fp32", device).encode(BATCH.images) for device in DEVICES]
    assert torch.allclose(*found, rtol=1e-4, atol=1e-5)
    classes, recipe = torch.arange(12) % 3, ProbeRecipe(epochs=5, batch_size=4)
    logits = [predict(train_linear_probe(found[0], classes, 3, recipe, device=device), found[0]) for device in DEVICES]
    assert torch.allclose(*logits, rtol=1e-2, atol=1e-2)


def test_other_heads() -> None:
    tokens = ImageEncoder(toy.model("mdc").encoder, "tokens", "fp32", CPU).encode(BATCH.images)
    classes, how = torch.arange(12) % 3, Fitting(3, 2, 3, 4, 0.0, 0)
    logits = [
        attentive_probe.predict(
            attentive_probe.trained(tokens.to(one), classes.to(one), torch.arange(12), [1e-3], how), tokens.to(one), how
        )
        for one in DEVICES
    ]
    assert torch.allclose(*logits, rtol=1e-2, atol=1e-2)
    pooled = tokens.float().mean(1)
    shares = [votes(pooled.to(one), classes, pooled.to(one), 3, 4, 0.07) for one in DEVICES]
    assert torch.allclose(*shares, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("method", sorted(toy.ALL_METHODS))
def test_held_out_losses(method: str) -> None:
    values = []
    for device in DEVICES:
        objective = toy.objective(method, toy.model(method).to(device))
        prepared = objective.prepare(BATCH, held_out=True)
        loss, count = objective.evaluate(
            tree_map_only(torch.Tensor, lambda one, device=device: one.to(device), prepared)
        )
        values.append(float(loss) / float(count))
    assert values[0] == pytest.approx(values[1], rel=1e-4)


@pytest.mark.parametrize("way", ["autoregressive", "monte_carlo", "heuristic", "parallel", "pseudo_likelihood"])
def test_scores(way: str) -> None:
    draws = [Draws(str(n), 0, 32, 77) for n in range(len(PAIRS))]
    found = []
    for device in DEVICES:
        method = "arc" if way == "autoregressive" else "mdc"
        scorer = toy.scorer(method, toy.model(method), WORDS.mask_id, "fp32", device)
        given = (PAIRS, draws, 32) if way == "monte_carlo" else (PAIRS,)
        found.append([one.value for one in getattr(scorer, way)(scorer.look(BATCH.images), *given)])
    assert found[0] == pytest.approx(found[1], rel=1e-4)


@pytest.mark.parametrize(
    "how",
    [Unmasking(kind="unmask", lengths=[3, 9]), Beam(kind="beam", num_beams=3, min_tokens=2, max_tokens=9)],
    ids=["unmask", "beam"],
)
def test_captions(how: Unmasking | Beam) -> None:
    found = []
    for device in DEVICES:
        method = "mdc" if isinstance(how, Unmasking) else "arc"
        writer = toy.writer(method, toy.model(method), WORDS, "fp32", device)
        seen = writer.look(BATCH.images)
        keys = [str(n) for n in range(len(BATCH))]
        found.append(writer.unmasked(seen, how, keys) if isinstance(how, Unmasking) else writer.searched(seen, how))
    same = [one.pieces == other.pieces for one, other in zip(*found, strict=True)]
    assert sum(same) >= 0.9 * len(same), "a tie that rounding decides is rare"
    assert [one.log_prob for one in found[0]] == pytest.approx([one.log_prob for one in found[1]], rel=1e-3)
