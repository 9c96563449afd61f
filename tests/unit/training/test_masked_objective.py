"""MDC's loss, trained and held out, against Algorithm 1 written out plainly: padded to 77, all logits, the same masks."""

import plain_captioner
import pytest
import torch
import torch.nn.functional as F
import toy

from mdc.data.loader.batch import CaptionBatch
from mdc.diffusion.schedule import MaskSchedule
from mdc.methods.masked.loss import supervise
from mdc.models.captioner import Captioner
from mdc.models.normalise import normalise
from mdc.plan.config.method import Method
from mdc.training.objectives import left_to_right

CONTEXT = 77


def _algorithm_1(model: Captioner, batch: CaptionBatch, low: float, high: float, weighted: bool) -> torch.Tensor:
    """The paper's pseudo-code on captions padded to 77, token by token."""
    size = len(batch.tokens)
    caps = torch.full((size, CONTEXT), toy.EOT)
    p = torch.full((size, CONTEXT), 2.0)  # never below t
    real = torch.zeros(size, CONTEXT, dtype=torch.bool)
    t = torch.empty(size)
    for b in range(size):
        n = int(batch.lengths[b])
        caps[b, :n] = batch.tokens[b, :n]
        p[b, 1:n] = batch.uniforms[b, 1:n]
        real[b, :n] = True
        t[b] = low + (high - low) * (b + batch.jitter[b]) / size  # one stratum a sample
    masked_caps = caps.clone()
    masked_caps[p < t[:, None]] = toy.MASK
    sees_text = real[:, None, :].expand(-1, CONTEXT, -1)
    logits = plain_captioner.logits(model, normalise(batch.images), masked_caps, sees_text)
    loss = torch.zeros(())
    for b in range(size):
        for i in range(CONTEXT):
            if p[b, i] < t[b]:
                entropy = F.cross_entropy(logits[b, i], caps[b, i])
                loss = loss + (entropy / t[b] if weighted else entropy)
    count = (batch.lengths - 1).sum() if weighted else (p < t[:, None]).sum()
    return loss / count


@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("micro_batches", [1, 3])
def test_loss_and_gradient_equal_algorithm_1(weighted: bool, micro_batches: int) -> None:
    method = toy.METHODS["mdc"]
    if not weighted:
        method = method.model_copy(update={"weight": "none", "normaliser": "masked_tokens"})
    batch = toy.batch(8)
    model = toy.model(method)
    objective = toy.objective(method, model)
    loss = objective.backward(objective.prepare(batch, micro_batches))["loss"]
    ours = toy.gradients(model)
    model.zero_grad()
    reference = _algorithm_1(model, batch, 0.5, 1.0, weighted)
    reference.backward()
    assert abs(float(loss) - float(reference.detach())) < 1e-5
    theirs = toy.gradients(model)
    # the plain form also reaches position embeddings that are padding there: with zero gradient
    assert ours.keys() == theirs.keys()
    for name, gradient in theirs.items():
        assert torch.allclose(ours[name], gradient, atol=1e-5), name
    assert max(g.abs().max() for g in theirs.values()) > 1e-2, "the comparison would pass on zeros"


def test_mask_is_an_input_that_cannot_be_predicted() -> None:
    model = toy.model("mdc")
    assert model.text.token_embedding.num_embeddings == toy.V + 1
    batch = toy.batch(2)
    logits = model.logits(normalise(batch.images), batch.tokens, batch.lengths)
    assert logits.shape[-1] == toy.V == toy.MASK


def test_arc_and_mdc_supervise_the_same_tokens() -> None:
    batch = toy.batch(8)
    batch.uniforms.zero_()  # everything that can be masked is
    arc = left_to_right.supervise(batch)
    mdc = supervise(toy.METHODS["mdc"], toy.PROTOCOL, toy.MASK, batch, 8)
    for b, length in enumerate(batch.lengths.tolist()):
        wanted = batch.tokens[b, 1:length]
        assert torch.equal(arc.targets[b][arc.weights[b] != 0], wanted)
        assert torch.equal(mdc.targets[b][mdc.weights[b] != 0], wanted)
    assert arc.normaliser == mdc.normaliser == (batch.lengths - 1).sum()


def test_no_mask_drawn_is_zero_loss() -> None:
    method = toy.METHODS["mdc"].model_copy(update={"weight": "none", "normaliser": "masked_tokens"})
    model = toy.model(method)
    batch = toy.batch(4)
    batch.uniforms.fill_(0.9999999)
    batch.jitter.zero_()
    low = method.model_copy(update={"t_range": (0.0, 0.5)})
    measured = toy.backward(toy.build_objective(model, low, toy.PROTOCOL, toy.MASK, 4, "fp32"), batch)
    assert float(measured["loss"]) == 0.0
    assert all(p.grad is None or torch.equal(p.grad, torch.zeros_like(p)) for p in model.parameters())


def test_bf16_changes_the_scale_of_no_gradient() -> None:
    """60 tokens: 1/60 in bf16 is 0.34 % too large, and so would be the encoder's gradients. Random rounding averages out
    over batches; a factor does not."""
    torch.set_num_threads(1)
    reciprocal = float(torch.tensor(1 / 60).bfloat16())
    assert reciprocal * 60 - 1 > 0.0034
    batches = [batch for batch in (toy.batch(8, seed=seed) for seed in range(600)) if (batch.lengths - 1).sum() == 60]
    found = []
    for name in ("arc", "mdc"):
        method = toy.METHODS[name]
        model = toy.model(method)
        for batch in batches[:16]:
            gradients = []
            for precision in ("fp32", "bf16"):
                model.zero_grad()
                toy.backward(toy.objective(method, model, precision), batch)
                parts = [p.grad.flatten() for p in model.encoder.parameters() if p.grad is not None]
                gradients.append(torch.cat(parts).double())
            full, low = gradients
            found.append(float(low @ full / (full @ full)) - 1)
    assert len(found) == 32 and abs(sum(found) / 32) < 0.001, sum(found) / 32


def test_weight_is_the_papers_ratio() -> None:
    schedule = MaskSchedule(0.0, 1.0)
    t = torch.linspace(0.01, 1.0, 50, dtype=torch.float64)
    h = 1e-6
    derivative = (schedule.alpha(t + h) - schedule.alpha(t - h)) / (2 * h)
    assert torch.allclose(schedule.alpha_derivative(t), derivative, rtol=1e-6)
    assert torch.allclose(schedule.masked(t), 1 - schedule.alpha(t))
    # equation 5 has a minus sign by way of log p; 1/t by the linear schedule
    assert torch.allclose(schedule.weight(t), 1 / t)
    assert torch.equal(MaskSchedule(0.0, 1.0, inverse_t=False).weight(t), torch.ones_like(t))


@pytest.mark.parametrize(("low", "high"), [(0.5, 1.0), (0.0, 1.0), (0.3, 0.3)])
def test_stratified_draw_has_one_time_in_each_stratum(low: float, high: float) -> None:
    batch = 64
    jitter = torch.rand(batch, generator=torch.Generator().manual_seed(0))
    place = torch.randperm(batch, generator=torch.Generator().manual_seed(1))
    t = MaskSchedule(low, high).draw(jitter, place, batch)
    assert t.min() >= max(low, 1e-3) - 1e-7 and t.max() <= high + 1e-7
    if high > low and low > 0:
        strata = ((t.double() - low) / (high - low) * batch).floor().clamp(max=batch - 1)
        assert torch.equal(strata.to(torch.int64), place)


def test_least_t_bounds_the_weight() -> None:
    schedule = MaskSchedule(0.0, 1.0, least_t=1e-3)
    t = schedule.draw(torch.zeros(4), torch.zeros(4, dtype=torch.int64), 1024)
    assert torch.allclose(schedule.weight(t), torch.full((4,), 1000.0))


# --- held-out captions ------------------------------------------------------------------------------------------------


MDC, MCD = toy.METHODS["mdc"], toy.ALL_METHODS["mcd"]

BERT = MDC.model_copy(update={"t_range": (0.2, 0.2), "weight": "none", "normaliser": "masked_tokens"})


def _losses(batch_size: int, held_out: bool, entry: Method = MDC) -> tuple[float, float, float]:
    """Of three captions the sum and the number that ``evaluate`` gives, and the loss that is trained on."""
    model, places = toy.model(entry), {"length": 15} if entry is MCD else {}
    objective = toy.build_objective(model, entry, toy.PROTOCOL, toy.MASK, batch_size, "fp32", 1.0, **places)
    batch = toy.batch(size=3, draws=True)
    batch.caption_hash[2] = batch.caption_hash[0]  # which CLIP leaves out of its negatives
    prepared = objective.prepare(batch, held_out=held_out)
    total, count = objective.evaluate(prepared)
    return float(total), float(count), float(objective.backward(prepared)["loss"])


@pytest.mark.parametrize(
    "entry", [MDC, BERT, MCD, *(toy.METHODS[name] for name in ("arc", "clip"))], ids=lambda entry: entry.label
)
def test_it_is_the_training_loss_of_the_same_captions(entry: Method) -> None:
    total, count, trained = _losses(3, True, entry)
    assert total / count == pytest.approx(trained, rel=1e-5)


@pytest.mark.parametrize("entry", [MDC, MCD])
def test_times_of_a_short_held_out_batch_cover_their_whole_range(entry: Method) -> None:
    """They would else be those of the first strata alone, under which little is masked; in training they are."""
    assert _losses(8, True, entry)[0] == _losses(3, True, entry)[0] == _losses(3, False, entry)[0]
    assert _losses(8, False, entry)[0] != _losses(3, False, entry)[0]
