"""The objective of mask-and-replace diffusion: its loss against MDC's, its draws, and what it leaves alone."""

import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import toy
from changed import put
from mask_and_replace_oracle import bound as oracle
from safetensors.torch import load_file
from scale_files import scale_values
from tiny_clip import write_clip
from torch._subclasses.fake_tensor import FakeTensorMode
from toy_diffusion import BACKBONE, CFG, LENGTH, MCS, STEPS, VOCABULARY, backbone, batch, method, objective

from mdc.diffusion.schedule import MaskSchedule
from mdc.extensions.mc_diffusion.jobs import WordsJob
from mdc.extensions.mc_diffusion.mask_and_replace.bound_gradient import BoundOfRows
from mdc.extensions.mc_diffusion.mask_and_replace.diffusion import (
    ReplaceSchedule,
    bound_weights,
    corrupt,
)
from mdc.extensions.mc_diffusion.mask_and_replace.loss import build_objective
from mdc.extensions.mc_diffusion.words import job as import_words
from mdc.extensions.mc_diffusion.words.read import read_words
from mdc.models.cross_entropy import weighted_cross_entropy_sum
from mdc.models.initial import count_parameters
from mdc.models.logits import sum_over_logits
from mdc.models.text import Vocabulary
from mdc.plan.config.method import Method
from mdc.plan.config.pretrain import Recipe
from mdc.plan.config.read import validate
from mdc.plan.jobs.call import Call
from mdc.plan.jobs.folder import ScaleFolder
from mdc.plan.jobs.ids import Run
from mdc.plan.jobs.plan import Plan
from mdc.plan.records import UserError, read_json
from mdc.training.memory import NothingDrawn
from mdc.training.objectives.objective import Setup
from mdc.training.trainer import build_optimizer


def test_without_replacement_it_is_mdc_on_a_grid_of_times() -> None:
    """Loss and gradient equal those of equation 5 of the other paper, −α'/(1 − α) = 1/t, at t/T and with the same masks."""
    one, given = objective(method(0.0), STEPS), batch(STEPS)
    noised = one.noised(given, STEPS)
    assert noised.t.tolist() == list(range(1, STEPS + 1)), "of the last stride too"
    masked = noised.x_t == one.schedule.mask_id
    assert torch.equal(masked, given.uniforms[:, 1 : 1 + LENGTH] < noised.t[:, None] / STEPS)
    assert bool(masked.any()) and bool((masked | (noised.x_t == noised.x0)).all())
    hidden = torch.randn(STEPS, LENGTH, 16, generator=torch.Generator().manual_seed(3), requires_grad=True)
    loss, bound = one.terms(hidden, one.part(given.images, noised))
    weight = MaskSchedule(low=0.0, high=1.0, inverse_t=True, least_t=1e-3, stratified=True).weight(noised.t / STEPS)
    weights = weight[:, None] * masked
    theirs = hidden.detach().clone().requires_grad_()
    expected = weighted_cross_entropy_sum(
        theirs.flatten(0, 1), one.model.head.weight, noised.x0.flatten(), weights.flatten()
    )
    assert float(bound) == float(loss.detach()) == pytest.approx(float(expected.detach()), rel=1e-5)
    loss.backward()
    expected.backward()
    assert hidden.grad is not None and theirs.grad is not None
    assert torch.allclose(hidden.grad, theirs.grad, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("guidance", [CFG, MCS], ids=["cfg", "mcs"])
def test_what_is_learnt_of_a_degraded_condition_is_what_it_says(guidance: dict[str, Any]) -> None:
    """Loss and gradients are those of the model shown the condition with zeros, or [MASK], where it is lost."""
    one, given = objective(method(**guidance)), batch()
    if one.model.masked is not None:
        with torch.no_grad():
            one.model.masked.copy_(torch.randn(6, generator=torch.Generator().manual_seed(4)))
    found = float(one.backward(one.prepare(given))["loss"])
    gradients = toy.gradients(one.model)
    one.model.zero_grad()
    (part,) = one.prepare(given)
    assert given.image_draws is not None
    where = (given.image_draws[:, :1] < 0.5) & ((given.image_draws[:, 1:] < 0.5) | (guidance is CFG))
    assert bool(where.any()) and not bool(where.all())
    vectors = one.model.encoder.prepared(given.images)
    null = torch.zeros(6) if one.model.masked is None else one.model.masked
    shown = torch.where(where[..., None], null.to(vectors.dtype), vectors)
    loss, _ = one.terms(one.model.text(part.noised.x_t, part.noised.t, one.model.remember(shown)), part)
    (loss / (6 * LENGTH)).backward()
    assert found == pytest.approx(float(loss.detach()) / (6 * LENGTH), rel=1e-6)
    assert {name for name, p in one.model.named_parameters() if p.grad is not None} == set(gradients)
    assert ("masked" in gradients) == (guidance is MCS)
    for name, parameter in one.model.named_parameters():
        if parameter.grad is not None:
            assert torch.allclose(gradients[name], parameter.grad, rtol=1e-4, atol=1e-7), name
    whole = objective(method())
    assert found != pytest.approx(float(whole.backward(whole.prepare(given))["loss"]), rel=1e-4)


@pytest.mark.parametrize("sure", [0.5, 8.0])
@pytest.mark.parametrize("replaced", [0.1, 0.0])
def test_loss_and_gradient_of_a_whole_vocabulary(replaced: float, sure: float) -> None:
    """Of CLIP's 49,407 pieces and EOT, where β̄ is smaller than the steps of a float32 at 1: in float64 by the two posteriors."""
    k, steps = 49_407, 100
    schedule, generator = ReplaceSchedule(k, steps, 1 - replaced, replaced), torch.Generator().manual_seed(3)
    x0 = torch.randint(0, k, (6, 4), generator=generator)
    t = torch.tensor([1, 2, 50, 51, 99, 100])
    x_t = x0.clone()
    x_t[:, 0] = schedule.mask_id
    if replaced:
        x_t[:, 1] = (x0[:, 1] + 7) % k
    values = torch.randn(6, 4, 16, generator=generator), sure * torch.randn(k, 16, generator=generator)
    hidden = values[0].clone().requires_grad_()
    exact = values[0].double().requires_grad_()

    weights = bound_weights(x0, x_t, t - 1, t, schedule).flat()
    of_rows = BoundOfRows(x0.flatten(), weights, 1.0, torch.zeros(x0.numel()), replaced > 0)
    loss, _ = sum_over_logits(hidden.flatten(0, 1), values[1], of_rows, 2)
    loss.backward()

    log_x0 = (exact @ values[1].double().t()).log_softmax(dim=-1)
    expected = oracle(log_x0.exp(), x0, x_t, t - 1, t, schedule).sum()
    expected.backward()
    assert float(loss.detach()) == pytest.approx(float(expected.detach()), rel=1e-4)
    assert hidden.grad is not None and exact.grad is not None
    assert float((hidden.grad - exact.grad).abs().max()) < 2e-4 * float(exact.grad.abs().max())


@pytest.mark.parametrize("replaced", [0.1, 0.5, 0.0])
@pytest.mark.parametrize("sure", [0.3, 20.0])
@pytest.mark.parametrize("chunk", [None, 7])
def test_loss_and_gradient_are_those_of_the_formula(replaced: float, sure: float, chunk: int | None) -> None:
    """Made in one walk over the logits, they equal autograd's through the divergence of the posteriors."""
    k, size, steps, scale, auxiliary = 12, 40, 9, 9.0, 0.3
    generator = torch.Generator().manual_seed(7)
    schedule = ReplaceSchedule(k, steps, 1 - replaced, replaced)
    x0 = torch.randint(0, k, (size, LENGTH), generator=generator)
    t = 1 + torch.arange(size) % steps
    what, which = torch.rand(2, size, LENGTH, generator=generator)
    x_t = corrupt(x0, t, schedule, what, which)
    assert bool((x_t == x0).any()) and bool((x_t == k).any())
    assert bool(((x_t != x0) & (x_t != k)).any()) is (replaced > 0)
    values = torch.randn(size, LENGTH, 16, generator=generator), sure * torch.randn(k, 16, generator=generator)
    (hidden, weight), theirs = ([value.clone().requires_grad_() for value in values] for _ in range(2))
    surprise = (auxiliary * (2 - t / steps))[:, None].expand(x0.shape)

    weights = bound_weights(x0, x_t, t - 1, t, schedule).flat()
    of_rows = BoundOfRows(x0.flatten(), weights, scale, surprise.flatten(), replaced > 0)
    loss, (bound,) = sum_over_logits(hidden.flatten(0, 1), weight, of_rows, 2, chunk)
    log_x0 = (theirs[0] @ theirs[1].t()).log_softmax(dim=-1)
    expected_bound = scale * oracle(log_x0.double().exp(), x0, x_t, t - 1, t, schedule).sum()
    expected = expected_bound - (surprise * log_x0.gather(-1, x0[..., None]).squeeze(-1)).sum()
    assert float(bound) == pytest.approx(float(expected_bound.detach()), rel=1e-5)
    assert float(loss.detach()) == pytest.approx(float(expected.detach()), rel=1e-5)
    (2 * loss).backward()
    (2 * expected).backward()
    for one, other in ((hidden, theirs[0]), (weight, theirs[1])):
        assert one.grad is not None and other.grad is not None and bool(one.grad.isfinite().all())
        assert torch.allclose(one.grad, other.grad, rtol=1e-3, atol=1e-4 * float(other.grad.abs().max()))
    with torch.no_grad():
        again, _ = sum_over_logits(hidden.flatten(0, 1), weight, of_rows, 2, chunk)
    assert torch.equal(again, loss)


@pytest.mark.parametrize("entry", [method(), method(**CFG), method(**MCS)])
def test_micro_batches_change_nothing(entry: Method) -> None:
    one, other = (objective(entry.but(auxiliary=0.01)) for _ in range(2))
    assert float(toy.backward(one, batch())["loss"]) == pytest.approx(float(toy.backward(other, batch(), 3)["loss"]))
    gradients, others = toy.gradients(one.model), toy.gradients(other.model)
    assert gradients.keys() == others.keys()
    for name, gradient in gradients.items():
        assert torch.allclose(gradient, others[name], atol=1e-6), name


def test_the_loss_is_the_bound_and_the_auxiliary_term() -> None:
    plain, both = (toy.backward(objective(method(auxiliary=each)), batch()) for each in (0.0, 0.01))
    assert float(plain["loss"]) == float(plain["bound"]) == float(both["bound"])
    one = objective(method())
    given = batch()
    noised = one.noised(given, 6)
    with torch.no_grad():
        condition = one.model.encoder.prepared(given.images)
        hidden = one.model.text(noised.x_t, noised.t, one.model.remember(condition))
        log_x0 = one.model.head(hidden).log_softmax(dim=-1)
    surprise = -log_x0.gather(-1, noised.x0[..., None]).squeeze(-1)
    expected = (0.01 * STEPS * (2 - noised.t / STEPS)[:, None] * surprise).mean()
    assert float(both["loss"]) - float(both["bound"]) == pytest.approx(float(expected), rel=1e-4)


def test_validation_is_the_bound_with_the_whole_condition() -> None:
    one = objective(method(**MCS, auxiliary=0.01))
    given = batch()
    total, count = one.evaluate(one.prepare(replace(given, image_draws=None), held_out=True))
    plain = objective(method(**MCS))
    plain.model.guidance = None
    assert float(count) == 6 * LENGTH
    assert float(total) / float(count) == pytest.approx(float(plain.backward(plain.prepare(given))["bound"]), rel=1e-6)


def test_padding_is_learnt_and_longer_captions_are_cut() -> None:
    one, given = objective(method()), batch()
    noised = one.noised(given, 6)
    eot = one.model.class_of(torch.tensor(VOCABULARY - 1))
    assert int(eot) == one.model.classes - 1 and noised.x0.shape == (6, LENGTH)
    for row, length in zip(noised.x0, given.lengths.tolist(), strict=True):
        assert bool((row[length - 2 :] == eot).all()) and bool((row[: max(length - 2, 0)] != eot).all())
    back = one.model.token_of(noised.x0)
    assert torch.equal(back, given.tokens[:, 1 : 1 + LENGTH])


def test_replacement_happens_and_never_gives_what_is_no_class() -> None:
    one, given = objective(method(0.5), batch_size=2000), batch(2000)
    noised = one.noised(given, 2000)
    changed = (noised.x_t != noised.x0) & (noised.x_t != one.schedule.mask_id)
    assert 0.1 < float(changed.float().mean()) < 0.3, "a quarter in the mean over t, less what hits itself"
    assert int(noised.x_t.max()) == one.schedule.mask_id == VOCABULARY - 1 and int(noised.x_t.min()) >= 0
    assert given.token_draws is not None
    again = corrupt(noised.x0, noised.t, one.schedule, given.uniforms[:, 1:9], given.token_draws[:, 1:9])
    assert torch.equal(noised.x_t, again)


def test_the_papers_decoder_has_122_million_parameters() -> None:
    """18 layers of width 512 over CLIP's vocabulary; the paper says 122 million are trained (its token embeddings are frozen)."""
    paper = backbone(256, 1024, 256, width=512, layers=18, heads=8)
    with FakeTensorMode(), NothingDrawn():
        model = toy.build_model(method(diffusion_steps=100), paper, None, 49_408, 77, 0)  # type: ignore[arg-type]
    trained = sum(p.numel() for name, p in model.named_parameters() if name != "text.token_embedding.weight")
    assert trained == pytest.approx(122e6, rel=0.01)


# --- on embeddings of BPE tokens that others trained -----------------------------------------------------------------


VALUES = scale_values("mini")


def _job(folder: Path, width: int) -> WordsJob:
    entry = {"label": "", "model": f"local-dir:{folder}", "weights": None, "width": width}
    values: dict[str, Any] = {"job": "words/clip", "verb": "import-words", "scale": "mini", "fingerprint": "0" * 64}
    return WordsJob.model_validate({**values, "inputs": [], "name": "clip", "entry": entry})


@pytest.fixture
def brought(tmp_path: Path) -> tuple[Path, torch.Tensor, WordsJob]:
    """The manifest of a small CLIP's embeddings, and the embeddings themselves."""
    folder = write_clip(tmp_path)
    weight = load_file(folder / "open_clip_model.safetensors")["token_embedding.weight"]
    job = _job(folder, weight.shape[1])
    import_words.main(Call(job, ScaleFolder(tmp_path), tmp_path / "words"))
    return tmp_path / "words/words.json", weight, job


def test_each_class_has_the_embedding_of_its_piece(brought: tuple[Path, torch.Tensor, WordsJob]) -> None:
    manifest, weight, job = brought
    some = Vocabulary.corpus([5, 320, 40_000])
    assert torch.equal(read_words(manifest, job.sha256, job.job, some), weight[[5, 320, 40_000, 49_407]])
    whole = read_words(manifest, job.sha256, job.job, Vocabulary.full())
    # all pieces, and EOT where SOT would stand
    assert torch.equal(whole, torch.cat([weight[:49_406], weight[49_407:]]))
    assert read_json(manifest)["width"] == weight.shape[1]


def test_other_or_damaged_embeddings_are_one_line(brought: tuple[Path, torch.Tensor, WordsJob], tmp_path: Path) -> None:
    manifest, weight, job = brought
    with pytest.raises(UserError, match="made with another configuration than words/clip needs"):
        read_words(manifest, "1" * 64, job.job, Vocabulary.full())
    file = manifest.parent / "words.safetensors"
    file.write_bytes(file.read_bytes()[:-4] + b"0000")
    with pytest.raises(UserError, match=r"not the file that .* names"):
        read_words(manifest, job.sha256, job.job, Vocabulary.full())
    narrow = _job(tmp_path / "tiny", weight.shape[1] + 1)
    with pytest.raises(UserError, match=r"words\.clip: .* has embeddings of shape .*; needed: \(49408, "):
        import_words.main(Call(narrow, ScaleFolder(tmp_path), tmp_path / "narrow"))


def test_they_are_not_trained() -> None:
    plain, model = (toy.build_model(method(words=of), BACKBONE, None, 12, 20, 0) for of in (None, "clip"))  # type: ignore[arg-type]
    words = torch.randn(11, 16, generator=torch.Generator().manual_seed(0))
    assert count_parameters(plain) - count_parameters(model) == 12 * 16, "[MASK]'s too"
    setup = Setup(method(words="clip"), None, 12, 6, "fp32")  # type: ignore[arg-type]
    objective = build_objective(model, setup, length=8, words=words)
    assert torch.equal(model.text.token_embedding.weight[:11], words)
    recipe = Recipe.model_validate(VALUES["pretrain"]["recipe"])
    optimizer = build_optimizer(model, recipe, validate(VALUES).protocol.pretrain)
    objective.backward(objective.prepare(batch()))
    optimizer.step()
    assert torch.equal(model.text.token_embedding.weight[:11], words)
    assert model.head.weight.grad is not None and model.text.token_embedding.weight.grad is None


def test_a_run_on_them_names_them() -> None:
    words = {"clip": {"label": "x", "model": "ViT-B-32", "weights": "openai", "width": 96}}
    values = put(copy.deepcopy(VALUES), ("words",), words)
    overrides = values["pretrain"]["overrides"]
    overrides.append({"when": {"backbone": ["on-codes"]}, "set": {"words": "clip"}})
    plan = Plan(validate(values))
    job = plan.pretrain(Run("described", "on-codes", "mcd", 0))
    assert "words/clip" in job.inputs and job.method.words == "clip"  # type: ignore[attr-defined]
    pinned = plan.jobs["words/clip"].sha256
    assert job.method.words_sha256 == pinned  # type: ignore[attr-defined]
    assert list(plan.jobs).index("words/clip") < list(plan.jobs).index(job.job)
    for path, to, said in (
        (("words", "clip", "width"), 64, "words.clip.width = 64, and pretrain.backbones.on-codes.decoder.width is 96"),
        (
            ("pretrain", "overrides", len(overrides) - 1, "set", "words"),
            "x",
            "set.words: no entry of words is named 'x'; allowed: clip",
        ),
        (
            ("captions", "systems", "mdc_codes", "backbone"),
            "on-codes",
            "overrides: words: a key that mdc does not have",
        ),
    ):
        with pytest.raises(UserError) as caught:
            _ = Plan(validate(put(copy.deepcopy(values), path, to))).jobs
        assert said in str(caught.value)
