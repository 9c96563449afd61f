"""Captions by mask-and-replace diffusion: guidance at its ends, and what a caption may depend on."""

from dataclasses import replace
from typing import Any

import pytest
import torch
import toy
from scipy.stats import chi2
from toy_diffusion import BACKBONE, CFG, LENGTH, STEPS, VECTORS, batch, method

from mdc.evaluation.predictors.writing import DecodedCaption
from mdc.extensions.mc_diffusion.mask_and_replace import generate
from mdc.extensions.mc_diffusion.mask_and_replace.generate import Conditions, Writer, _Noise, _Predict
from mdc.extensions.mc_diffusion.mask_and_replace.loss import build_objective
from mdc.extensions.mc_diffusion.mask_and_replace.method import Diffusing
from mdc.models.text import Vocabulary
from mdc.plan.config.kinds.backbones import Decoder
from mdc.plan.config.method import Method
from mdc.training.objectives.objective import Setup

WORDS = Vocabulary.corpus(range(320, 330))  # ten pieces
KEYS = [f"image {n}" for n in range(5)]
IMAGES = torch.rand(5, VECTORS, 6, generator=torch.Generator().manual_seed(2)).half()


def mcs(mask_rate: float) -> dict[str, Any]:
    return {"guidance": {"kind": "mcs", "degraded": 0.5, "mask_rate": mask_rate}}


def writer(entry: Method, batch_tokens: int = 8192) -> Writer:
    model = toy.build_model(entry, BACKBONE, None, WORDS.size, 20, 0)  # type: ignore[arg-type]
    model.length.fill_(LENGTH)
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():  # a model that has an opinion of images, and of the time
        for name, parameter in model.named_parameters():
            if name.endswith(("change.weight", "cross_attention.out.weight", "head.weight", "masked")):
                parameter.copy_(torch.randn(parameter.shape, generator=generator))
    return Writer(model, WORDS, "fp32", torch.device("cpu"), batch_tokens)


def how(**values: Any) -> Diffusing:
    return Diffusing.model_validate({"kind": "diffuse", "steps": 5, **values})


def written(
    one: Writer, policy: Diffusing, images: torch.Tensor = IMAGES, keys: list[str] = KEYS
) -> list[DecodedCaption]:
    return one.diffused(one.look(images), policy, keys)


def test_best_first_is_told_a_time_that_fits_the_masks_that_are_left() -> None:
    one = writer(method())
    told: list[tuple[int, int]] = []
    decode = one.model.text.forward
    one.model.text.forward = lambda tokens, t, memory: (  # type: ignore[method-assign]
        told.append((int(t), int((tokens[0] == one.schedule.mask_id).sum()))) or decode(tokens, t, memory)
    )
    for steps in (2, 5, None):
        told.clear()
        written(one, how(policy="best_first", steps=steps))
        each = -(-LENGTH // (steps or STEPS))
        assert len(told) == -(-LENGTH // each) and told[0] == (STEPS, LENGTH)
        for t, masks in told:
            assert abs(t / STEPS - masks / LENGTH) < 1 / len(told)


def test_without_a_number_of_steps_there_is_one_for_each_of_the_diffusions() -> None:
    one = writer(method())
    assert written(one, how(steps=None)) == written(one, how(steps=STEPS))
    assert one.moments(how(steps=None)) == list(range(STEPS, -1, -1))


@pytest.mark.parametrize("policy", ["posterior", "best_first"])
def test_a_scale_of_one_is_plain_to_the_bit(policy: str) -> None:
    one = writer(method(**mcs(0.5)))
    plain = Writer(one.model, WORDS, "fp32", torch.device("cpu"))
    assert written(one, how(policy=policy, guidance=1.0)) == written(plain, how(policy=policy))
    assert written(one, how(policy=policy, guidance=0.0, orientation="as_printed")) == written(
        plain, how(policy=policy)
    )


@pytest.mark.parametrize("entry", [method(**CFG), method(**mcs(1.0)), method(**mcs(0.5))], ids=["cfg", "mcs", "half"])
@pytest.mark.parametrize(("scale", "orientation"), [(3.0, "cfg"), (0.5, "cfg"), (3.0, "as_printed")])
def test_guidance_moves_from_the_weak_condition_to_the_whole_one(entry: Method, scale: float, orientation: str) -> None:
    """At every stride log p(x_0 | x_t) is (1 − s) log p_weak + s log p_full, each made by the model alone, a class at a time."""
    one = writer(entry)
    policy = how(guidance=scale, orientation=orientation)
    seen, moments = one.look(IMAGES), one.moments(policy)
    noise = _Noise(policy.seed, KEYS, LENGTH, VECTORS, torch.device("cpu"))
    predict = _Predict(one, seen, policy, moments, noise)
    assert entry.guidance is not None
    rate = entry.guidance.mask_rate
    s = scale if orientation == "cfg" else 1 - scale
    generator = torch.Generator().manual_seed(3)
    for number, t in enumerate(moments[:-1]):
        tokens = torch.randint(0, one.schedule.classes + 1, (5, LENGTH), generator=generator)
        gone = torch.ones(5, VECTORS, dtype=torch.bool) if rate is None else noise.of_condition(number) < rate
        null = torch.zeros(6) if rate is None else one.model.masked.detach()
        vectors = one.model.encoder.prepared(IMAGES)
        said = []
        with torch.no_grad():
            for condition in (torch.where(gone[..., None], null.to(vectors.dtype), vectors), vectors):
                hidden = one.model.text(tokens, torch.full((5,), t), one.model.remember(condition))
                said.append(one.model.head(hidden).log_softmax(dim=-1))
        weak, full = said
        expected = ((1 - s) * weak + s * full).log_softmax(dim=-1)
        assert not torch.allclose(weak, full, atol=0.1)
        assert torch.allclose(predict(tokens, t), expected, atol=1e-3)


def test_a_caption_starts_from_the_law_at_the_end_of_the_diffusion() -> None:
    """Nine places of ten are masks, the others any class (chi-square over 200 captions' places)."""
    one, begun = writer(method()), list[torch.Tensor]()
    decode = one.model.text.forward

    def noted(tokens: torch.Tensor, t: torch.Tensor, memory: Any) -> Any:
        if int(t[0]) == STEPS:
            begun.append(tokens.clone())
        return decode(tokens, t, memory)

    one.model.text.forward = noted
    written(one, how(steps=2), IMAGES.repeat(40, 1, 1), [f"image {n}" for n in range(200)])
    counts = torch.bincount(torch.cat(begun).flatten(), minlength=one.schedule.classes + 1).double()
    expected = counts.sum() * torch.tensor([0.1 / one.schedule.classes] * one.schedule.classes + [0.9])
    assert int(counts.sum()) == 200 * LENGTH
    assert chi2.sf(float(((counts - expected) ** 2 / expected).sum()), df=len(counts) - 1) > 1e-3


def test_every_draw_has_numbers_of_its_own() -> None:
    """… of the start, of each stride and of each mask of the condition; and the same of the same seed, name and stride."""

    def all_numbers(seed: int, keys: list[str]) -> list[torch.Tensor]:
        noise = _Noise(seed, keys, LENGTH, VECTORS, torch.device("cpu"))
        two = [*noise.of_start(), *noise.of_stride(0), *noise.of_stride(1)]
        return [*two, noise.of_condition(0), noise.of_condition(1)]

    drawn, again, others = (
        {tuple(row[:VECTORS].tolist()) for numbers in all_numbers(seed, KEYS) for row in numbers} for seed in (0, 0, 1)
    )
    assert len(drawn) == 8 * len(KEYS), "no two of them are alike"
    assert drawn == again and not drawn & others


def test_the_null_is_read_once_for_all_images(monkeypatch: pytest.MonkeyPatch) -> None:
    one = writer(method(**CFG), batch_tokens=2 * LENGTH)
    remember, read = one.model.remember, []
    monkeypatch.setattr(one.model, "remember", lambda vectors: read.append(len(vectors)) or remember(vectors))
    written(one, how(guidance=3.0))
    assert read == [5, 1], "the images once, and the null once, though images are captioned one by one"


@pytest.mark.parametrize("entry", [method(), method(**CFG), method(**mcs(0.5))])
@pytest.mark.parametrize("mask", ["per_step", "per_image"])
def test_a_caption_depends_on_its_image_alone(entry: Method, mask: str) -> None:
    scale = 1.0 if entry.guidance is None else 2.0
    policy = how(guidance=scale, condition_mask=mask)
    together = written(writer(entry), policy)
    small = written(writer(entry, batch_tokens=LENGTH), policy)
    one = writer(entry)
    alone = [written(one, policy, IMAGES[n : n + 1], KEYS[n : n + 1])[0] for n in range(5)]
    order = [3, 0, 4, 1, 2]
    mixed = written(one, policy, IMAGES[order], [KEYS[n] for n in order])
    for n in range(5):
        for found in (small[n], alone[n], mixed[order.index(n)]):
            assert found.pieces == together[n].pieces and found.step == together[n].step


@pytest.mark.parametrize("guidance", [1.0, 3.0])
def test_so_many_log_probabilities_are_held_at_a_time(guidance: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a large vocabulary fewer images are written together, down to one, and nothing else changes."""
    one = writer(method(**CFG))
    expected, sizes = written(one, how(guidance=guidance)), []
    real = Writer._batch

    def batch_of(self: Writer, seen: Conditions, *rest: Any) -> Any:
        sizes.append(len(seen))
        return real(self, seen, *rest)

    monkeypatch.setattr(Writer, "_batch", batch_of)
    for images, most in ((2, 2 * LENGTH * one.model.classes), (1, 1)):
        monkeypatch.setattr(generate, "AT_ONCE", most)
        sizes.clear()
        assert written(one, how(guidance=guidance)) == expected
        assert max(sizes) == images and sum(sizes) == len(expected)


def test_masks_of_the_condition_are_drawn_for_each_step_or_once() -> None:
    one = writer(method(**mcs(0.5)))
    assert written(one, how(guidance=3.0)) != written(one, how(guidance=3.0, condition_mask="per_image"))


def test_a_model_that_has_overfit_five_images_writes_their_captions() -> None:
    """By both policies, whatever is drawn."""
    entry, wide = method(auxiliary=0.05), BACKBONE.model_copy(update={"decoder": Decoder(width=64, layers=2, heads=4)})
    model = toy.build_model(entry, wide, None, WORDS.size, 20, 0)  # type: ignore[arg-type]
    objective = build_objective(model, Setup(entry, None, WORDS.size, 5, "fp32"), length=LENGTH)  # type: ignore[arg-type]
    given = replace(batch(5), images=IMAGES)
    pieces = given.tokens % WORDS.sot  # of this vocabulary
    held = torch.arange(pieces.shape[1]) < given.lengths[:, None] - 1
    given = replace(given, tokens=torch.where(held, pieces, WORDS.eot))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, betas=(0.9, 0.96))
    noise = torch.Generator().manual_seed(0)
    for _ in range(400):
        assert given.token_draws is not None
        for draws in (given.uniforms, given.jitter, given.token_draws):
            draws.copy_(torch.rand(draws.shape, generator=noise))
        given.place.copy_(torch.randperm(5, generator=noise))  # a caption's place decides its stratum of t
        optimizer.zero_grad()
        objective.backward(objective.prepare(given))
        optimizer.step()
    one = Writer(model, WORDS, "fp32", torch.device("cpu"))
    places = given.tokens[:, 1 : 1 + LENGTH].tolist()
    expected = [tuple(row[: row.index(WORDS.eot)] if WORDS.eot in row else row) for row in places]
    for policy in (how(), how(steps=STEPS, seed=3), how(policy="best_first")):
        found = [found.pieces for found in written(one, policy)]
        assert found == expected, policy
