"""Methods of the paper's neighbours: loss and gradient against each definition written out plainly on padded captions, and what
each promises."""

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import plain_captioner
import pytest
import torch
import torch.nn.functional as F
import toy
from torch import Tensor

from mdc.data.loader.batch import CaptionBatch
from mdc.extensions.neighbours.cappa import loss as cappa
from mdc.extensions.neighbours.complementary.loss import supervise as twice
from mdc.extensions.neighbours.dropped import loss as dropped
from mdc.extensions.neighbours.superclass.loss import read_idf, targets
from mdc.models.decoder import Time
from mdc.models.normalise import normalise
from mdc.models.text import Vocabulary
from mdc.models.weights import load_weights, save_weights
from mdc.plan.records import UserError, write_json
from mdc.training.objectives import left_to_right
from mdc.training.trainer import build_optimizer

CONTEXT = 77
IDF = torch.linspace(0.0, 2.0, toy.V - 2)
SHARE = 0.6  # of four patches two
METHODS = {**toy.NEIGHBOURS, "dropped": toy.NEIGHBOURS["dropped"].but(patches_kept=SHARE)}
METHODS["half"] = toy.METHODS["arc"].model_copy(update={"layers": "half"})


def _model(name: str) -> Any:
    """In float64, and no longer as in the beginning where that is neutral: when time changes nothing, when SuperClass's head has
    gains of 1 and biases of 0."""
    model = toy.model(METHODS[name]).double()
    noise = torch.Generator().manual_seed(1)
    for label, parameter in model.named_parameters():
        own = name == "superclass" and not label.startswith("encoder.") and parameter.ndim == 1
        if own or label.endswith("change.weight"):
            parameter.data += (0.3 if own else 0.05) * torch.randn(
                parameter.shape, generator=noise, dtype=torch.float64
            )
    return model


def _objective(name: str, model: Any) -> Any:
    return toy.objective(METHODS[name], model, **({"idf": IDF} if name == "superclass" else {}))


# --- each definition, caption by caption -------------------------------------------------------------------------------


def _padded(batch: CaptionBatch) -> tuple[Tensor, list[int]]:
    """Captions (B, 77) that go on with EOT, and L, the tokens behind SOT."""
    tokens = torch.full((len(batch), CONTEXT), toy.EOT)
    for b, length in enumerate(batch.lengths.tolist()):
        tokens[b, :length] = batch.tokens[b, :length]
    return tokens, (batch.lengths - 1).tolist()


def _images(batch: CaptionBatch, model: Any) -> Tensor:
    return model.encoder.prepared(batch.images)


def _causal(size: int) -> Tensor:
    return torch.ones(CONTEXT, CONTEXT, dtype=torch.bool).tril().expand(size, -1, -1)


def _real(lengths: list[int]) -> Tensor:
    seen = torch.zeros(len(lengths), CONTEXT, CONTEXT, dtype=torch.bool)
    for b, length in enumerate(lengths):
        seen[b, :, : length + 1] = True
    return seen


def _following(
    model: Any, batch: CaptionBatch, inputs: Tensor, seen: Tensor, tokens: Tensor, text: Any = None
) -> Tensor:
    """The mean cross-entropy of the token that follows each place."""
    lengths = (batch.lengths - 1).tolist()
    found = plain_captioner.logits(model, _images(batch, model), inputs, seen, text)
    terms = [F.cross_entropy(found[b, i], tokens[b, i + 1]) for b, n in enumerate(lengths) for i in range(n)]
    return torch.stack(terms).sum() / sum(lengths)


def _arc(model: Any, batch: CaptionBatch) -> Tensor:
    tokens, _ = _padded(batch)
    return _following(model, batch, tokens, _causal(len(batch)), tokens)


def _cappa(model: Any, batch: CaptionBatch) -> Tensor:
    tokens, lengths = _padded(batch)
    inputs, seen = tokens.clone(), _causal(len(batch)).clone()
    for b, n in enumerate(lengths):
        if batch.jitter[b] < 0.75:
            inputs[b, :n] = toy.MASK
            seen[b] = False
            seen[b, :, :n] = True
    return _following(model, batch, inputs, seen, tokens)


def _bicaptioning(model: Any, batch: CaptionBatch) -> Tensor:
    tokens, lengths = _padded(batch)
    reverse = tokens.clone()
    for b, n in enumerate(lengths):
        reverse[b, 1:n] = tokens[b, 1:n].flip(0)
    both = ((tokens, model.text), (reverse, model.text_backward))
    return sum(_following(model, batch, read, _causal(len(batch)), read, text) for read, text in both) / 2


def _superclass(model: Any, batch: CaptionBatch) -> Tensor:
    _, patches = model.encoder(_images(batch, model))
    pooled = patches.mean(dim=1)
    _, wide, _, back = model.text
    inner = F.layer_norm(pooled, pooled.shape[1:], model.text[0].weight, model.text[0].bias)
    inner = F.gelu(inner @ wide.weight.T + wide.bias) @ back.weight.T + back.bias
    final = F.layer_norm(pooled + inner, pooled.shape[1:], model.norm.weight, model.norm.bias)
    found = (final @ model.head.weight.T + model.head.bias).log_softmax(dim=-1)
    total = torch.zeros((), dtype=torch.float64)
    for b, length in enumerate(batch.lengths.tolist()):
        target = torch.zeros(toy.V - 2, dtype=torch.float64)
        for piece in batch.tokens[b, 1 : length - 1].tolist():
            target[piece] = IDF[piece]
        total = total - (target / target.sum() * found[b]).sum()
    return total / len(batch)


def _masks(
    model: Any,
    batch: CaptionBatch,
    weights: list[list[float]],
    hidden: list[list[bool]],
    **more: Any,
) -> Tensor:
    """Σ weight · cross-entropy over the places 1…L of each caption, of which some are [MASK]."""
    tokens, lengths = _padded(batch)
    inputs = tokens.clone()
    for b, n in enumerate(lengths):
        for i in range(1, n + 1):
            if hidden[b][i - 1]:
                inputs[b, i] = toy.MASK
    found = plain_captioner.logits(model, _images(batch, model), inputs, _real(lengths), **more)
    terms = [
        weights[b][i - 1] * F.cross_entropy(found[b, i], tokens[b, i])
        for b, n in enumerate(lengths)
        for i in range(1, n + 1)
        if weights[b][i - 1]
    ]
    return torch.stack(terms).sum()


def _times(batch: CaptionBatch, low: float) -> list[float]:
    """One stratum a sample."""
    return [low + (1 - low) * (b + float(batch.jitter[b])) / len(batch) for b in range(len(batch))]


def _drawn(batch: CaptionBatch, times: list[float]) -> list[list[bool]]:
    rows = zip(batch.uniforms.tolist(), batch.lengths.tolist(), times, strict=True)
    return [[u < t for u in uniforms[1:length]] for uniforms, length, t in rows]


def _complementary(model: Any, batch: CaptionBatch) -> Tensor:
    times = _times(batch, 0.0)
    hidden = _drawn(batch, times)
    others = [[not one for one in row] for row in hidden]
    first = [[one / t for one in row] for row, t in zip(hidden, times, strict=True)]
    second = [[one / (1 - t) for one in row] for row, t in zip(others, times, strict=True)]
    both = _masks(model, batch, first, hidden) + _masks(model, batch, second, others)
    return both / 2 / sum(map(len, hidden))


def _mdc(model: Any, batch: CaptionBatch, **more: Any) -> Tensor:
    times = _times(batch, 0.5)
    hidden = _drawn(batch, times)
    weights = [[one / t for one in row] for row, t in zip(hidden, times, strict=True)]
    return _masks(model, batch, weights, hidden, **more) / sum(map(len, hidden))


def _dropped(model: Any, batch: CaptionBatch) -> Tensor:
    assert batch.image_draws is not None
    seen = torch.zeros(len(batch), 4, dtype=torch.bool)
    for b, draws in enumerate(batch.image_draws[:, 1:].tolist()):
        for patch in sorted(range(4), key=lambda one: draws[one])[: round(SHARE * 4)]:
            seen[b, patch] = True
    return _mdc(model, batch, sees_image=seen)


def _timed(model: Any, batch: CaptionBatch) -> Tensor:
    """A sinusoid of 1,000 t a number of the width, two layers, and an activation after each."""
    layers, width = model.text.time_embedding.layers, toy.BACKBONE.decoder.width
    rows = []
    for t in _times(batch, 0.5):
        angles = [1000 * t * 10000 ** (-k / (width // 2)) for k in range(width // 2)]
        rows.append([*map(math.cos, angles), *map(math.sin, angles)])
    found = torch.tensor(rows, dtype=torch.float64)
    for layer in (layers[0], layers[2]):
        found = found @ layer.weight.t() + layer.bias
        found = found * found.sigmoid()
    return _mdc(model, batch, time=found)


ORACLES: dict[str, Callable[[Any, CaptionBatch], Tensor]] = {
    "half": _arc,
    "cappa": _cappa,
    "bicaptioning": _bicaptioning,
    "superclass": _superclass,
    "complementary": _complementary,
    "dropped": _dropped,
    "timed": _timed,
}


@pytest.mark.parametrize("name", METHODS)
def test_loss_and_gradient_equal_the_definition(name: str) -> None:
    batch, model = toy.batch(8, draws=True), _model(name)
    with toy.in_double():
        wanted = ORACLES[name](model, batch)
        wanted.backward()
        theirs = toy.gradients(model)
        for parts in (1, 3):
            model.zero_grad()
            loss = toy.backward(_objective(name, model), batch, parts)["loss"]
            assert float(loss) == pytest.approx(float(wanted.detach()), abs=1e-6)
            ours = toy.gradients(model)
            assert ours.keys() == theirs.keys()
            for label, gradient in theirs.items():
                assert torch.allclose(ours[label], gradient, atol=1e-6), (label, parts)
    assert max(g.abs().max() for g in theirs.values()) > 1e-2, "the comparison would pass on zeros"


# --- what each promises -------------------------------------------------------------------------------------------------


def test_which_samples_cappa_decodes_in_parallel_follows_from_their_own_draw() -> None:
    """Whatever stands beside them, in whatever parts and processes."""
    many = toy.batch(2000)
    whole = cappa.supervise(many, 2000, toy.MASK)
    alone = replace(many, tokens=many.tokens[7:8], lengths=many.lengths[7:8], jitter=many.jitter[7:8], keys=["x"])
    assert torch.equal(cappa.supervise(alone, 1, toy.MASK).inputs[0], whole.inputs[7])
    parallel = whole.extra_inputs["parallel"]
    assert abs(float(parallel.float().mean()) - 0.75) < 0.03
    assert bool((whole.inputs[parallel] == toy.MASK).all()) and torch.equal(
        whole.inputs[~parallel], many.tokens[~parallel]
    )
    arc = left_to_right.supervise(many)
    assert torch.equal(arc.targets, whole.targets) and torch.equal(arc.weights, whole.weights)


@pytest.mark.parametrize("jitter", [0.0, 1 - 2**-24])
def test_complementary_masks_cover_each_token_exactly_once(jitter: float) -> None:
    batch = toy.batch(8)
    batch.jitter.fill_(jitter)
    found = twice(METHODS["complementary"], toy.PROTOCOL, toy.MASK, batch, 8)
    first, second = (found.inputs == toy.MASK).chunk(2)
    positions = torch.arange(batch.tokens.shape[1])
    supervised = (positions > 0) & (positions < batch.lengths[:, None])
    assert not (first & second).any() and torch.equal(first | second, supervised)
    assert torch.equal(found.weights > 0, torch.cat([first, second]))
    assert float(found.weights.max()) <= 1 / toy.PROTOCOL.least_t * (1 + 1e-4)
    assert int(found.normaliser) == 2 * int((batch.lengths - 1).sum())


@pytest.mark.parametrize(("share", "kept"), [(0.35, 1), (0.6, 2), (0.01, 1), (0.9, 4)])
def test_so_many_patches_are_kept_in_training_and_all_of_them_on_held_out_pairs(share: float, kept: int) -> None:
    method = toy.NEIGHBOURS["dropped"].but(patches_kept=share)
    batch = toy.batch(64, draws=True)
    told = dropped.supervise(method, toy.PROTOCOL, toy.MASK, batch, 64).extra_inputs["kept"]
    assert told.shape == (64, kept) and int(told.min()) == 0 and int(told.max()) == 3
    assert all(len(set(row)) == kept for row in told.tolist())
    held_out = replace(batch, image_draws=None)
    assert not dropped.supervise(method, toy.PROTOCOL, toy.MASK, held_out, 64).extra_inputs


def test_an_untrained_decoder_that_is_told_the_time_is_one_that_is_not() -> None:
    batch = toy.batch(8)
    losses = [toy.backward(toy.objective(name, toy.model(name)), batch)["loss"] for name in ("mdc", "timed")]
    assert float(losses[0]) == pytest.approx(float(losses[1]), abs=1e-6)


def test_at_evaluation_the_time_is_the_share_of_masks() -> None:
    """Captions of nine tokens, SOT and EOT included, of which eight can be masked, padded or not, and read once for all masks."""
    model = _model("timed").float().eval()
    batch = toy.batch(2)
    tokens, images = batch.tokens[:, :9].clone(), normalise(batch.images)
    tokens[:, [2, 5]] = toy.MASK
    lengths = torch.tensor([9, 9])
    with torch.no_grad():
        visual = model.visual(images)
        wanted = model.text.layers(
            model.text.embedded(tokens), visual, None, False, time=_time(model, torch.full((2,), 0.25))
        )
        padded = F.pad(tokens, (0, 4), value=toy.EOT)
        for found in (
            model.text(tokens, None, visual),
            model.text(padded, lengths, visual)[:, :9],
            model.hidden_states(tokens[:, None], model.remember(visual))[:, 0],
        ):
            assert torch.allclose(found, wanted, atol=1e-5)
        other = model.text.layers(
            model.text.embedded(tokens), visual, None, False, time=_time(model, torch.full((2,), 0.5))
        )
    assert not torch.allclose(other, wanted, atol=1e-3)


def _time(model: Any, t: Tensor) -> Any:
    return Time(model.text.time_embedding(t))


def test_both_directions_share_their_embeddings_in_one_file(tmp_path: Path) -> None:
    model = toy.model("bicaptioning")
    save_weights(tmp_path / "w.safetensors", model, {"format": "mdc-weights-1"})
    other = toy.model("bicaptioning", seed=1)
    other.load_state_dict(load_weights(tmp_path / "w.safetensors"))
    assert toy.same_tensors(model.state_dict(), other.state_dict())
    assert len(model.text.blocks) == len(model.text_backward.blocks) == 1
    assert len(toy.model(METHODS["half"]).text.blocks) == 1


# --- SuperClass's targets -----------------------------------------------------------------------------------------------


def test_a_target_is_a_set_of_pieces_weighted_by_idf() -> None:
    tokens = torch.tensor([[toy.SOT, 3, 5, 3, toy.EOT, toy.EOT], [toy.SOT, 0, 0, toy.EOT, toy.EOT, toy.EOT]])
    rows, pieces, weights = targets(tokens, IDF)
    # piece 0 stands in every caption, so the second caption has no weight, and adds no loss
    assert rows.tolist() == [0, 0] and pieces.tolist() == [3, 5]
    assert weights.tolist() == pytest.approx([3 / 8, 5 / 8])


def test_captions_without_a_weight_add_no_loss_and_stay_in_the_mean() -> None:
    batch, model = toy.batch(8), toy.model("superclass")
    losses = []
    for idf in (torch.zeros(toy.V - 2), torch.ones(toy.V - 2)):
        losses.append(toy.backward(toy.objective("superclass", model, idf=idf), batch)["loss"])
    assert float(losses[0]) == 0.0 < float(losses[1])
    assert all(bool(gradient.isfinite().all()) for gradient in toy.gradients(model).values())


def test_superclass_learns_the_pieces_of_its_captions() -> None:
    """To the entropy of its targets, below which no loss is."""
    torch.set_num_threads(1)
    batch = toy.batch(8, longest=8, width=8)
    by = toy.recipe(lr=5e-3, weight_decay=0.0)
    model = toy.model("superclass")
    objective = toy.objective("superclass", model)
    _, _, weights = targets(batch.tokens, torch.ones(toy.V - 2))
    entropy = float(-(weights * weights.log()).sum() / 8)
    optimizer = build_optimizer(model, by, toy.PROTOCOL)
    for _ in range(150):
        optimizer.zero_grad()
        loss = float(objective.backward(objective.prepare(batch))["loss"])
        optimizer.step()
    assert entropy <= loss < entropy + 0.05


def test_idf_is_of_the_pieces_of_the_vocabulary(tmp_path: Path) -> None:
    vocabulary = Vocabulary.corpus([320, 1929, 2368])
    write_json(tmp_path / "f.json", {"captions": 9, "pieces": {"320": 9, "1929": 4, "7": 1}})
    found = read_idf(tmp_path / "f.json", vocabulary)
    # one that all captions have, one that four have, and one that none has
    assert found.tolist() == pytest.approx([0.0, math.log(2), math.log(10)])
    write_json(tmp_path / "f.json", {"captions": 9, "pieces": ["320"]})
    with pytest.raises(UserError, match="not document frequencies"):
        read_idf(tmp_path / "f.json", vocabulary)
