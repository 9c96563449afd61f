"""What tokens owe to the image: rows of the position figure, matched contexts and gradients, against loops over single tokens."""

import math
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import toy
from test_caption_scores import CAPTIONS, PAIRS, images, masked, model, plain, scorer, shared
from torch import Tensor

from mdc.evaluation.positions import _about, _Captions, token_values
from mdc.evaluation.predictors.caption_scores import Draws
from mdc.methods.masked.positions import prefix_scores
from mdc.models.normalise import normalise


def measured(method: str, **more: Any) -> _Captions:
    """Three captions and their images under a toy model, mismatched with both other images."""
    trained = SimpleNamespace(method=toy.METHODS[method].model_copy(update=more))
    job = SimpleNamespace(scoring=SimpleNamespace(seed=0, samples=16, mismatched=2))
    run = SimpleNamespace(job=trained, scorer=SimpleNamespace(captioner=scorer(method), context_length=77))
    run.scorer.look = run.scorer.captioner.look
    return _Captions(job, run, CAPTIONS[:3], images())  # type: ignore[arg-type]


def _log_mean(values: list[float]) -> float:
    return math.log(sum(math.exp(value) for value in values) / len(values))


def _steps(tokens: list[int], image: int) -> list[float]:
    log_probs = plain("arc", image, torch.tensor(tokens))
    return [float(log_probs[place, token]) for place, token in enumerate(tokens[1:])]


def test_mismatched_in_own_contexts_is_the_mean_of_log_p_for_every_method() -> None:
    """A log of the mean probability of ARC and a mean of MDC's terms would be two quantities, unequal by Jensen."""
    arc = measured("arc")
    for row in arc.part(range(3)):
        tokens, place = CAPTIONS[row["caption"]], row["place"] - 1
        others = [_steps(tokens, image)[place] for image in arc.others(row["caption"])]
        assert len(others) == 2 and row["caption"] not in arc.others(row["caption"])
        assert row["own"] == pytest.approx(_steps(tokens, row["caption"])[place], abs=1e-4)
        assert row["own_mismatched"] == pytest.approx(sum(others) / 2, abs=1e-4)
        assert row["prefix_mismatched"] == pytest.approx(_log_mean(others), abs=1e-4)
    mdc = measured("mdc")
    assert [mdc.others(n) for n in range(3)] == [arc.others(n) for n in range(3)], "the same images for every run"
    captioner = mdc.run.scorer.captioner
    memory = captioner.look(images())
    for row in mdc.part(range(3)):
        n = row["caption"]
        terms = []
        for image in (n, *mdc.others(n)):
            pair = SimpleNamespace(image=image, tokens=CAPTIONS[n], item=0)
            draws = [Draws(f"positions/{n}", 0, 16, 77)]
            terms.append(float(captioner.monte_carlo(memory, [pair], draws, 16)[0].tokens[row["place"] - 1]))
        assert row["own"] == pytest.approx(terms[0], abs=1e-4)
        assert row["own_mismatched"] == pytest.approx(sum(terms[1:]) / 2, abs=1e-4)


def test_a_model_of_one_mask_ratio_is_measured_with_its_number_of_masks() -> None:
    """With all tokens masked there is one context, so the token's own term has no error."""
    parallel = measured("mdc", t_range=(1.0, 1.0))
    for row in parallel.part(range(3)):
        tokens, place = CAPTIONS[row["caption"]], row["place"]
        log_probs = plain("mdc", row["caption"], masked(tokens, set(range(1, len(tokens)))))
        assert row["own"] == pytest.approx(float(log_probs[place, tokens[place]]), abs=1e-4)


def test_no_image_adds_nothing_in_either_context() -> None:
    """Where all images say the same, both gains are 0; where they do not, the two mismatched scores are unlike."""
    same = torch.tensor([-1.0, -4.0])
    for row in token_values([same] * 4, [same] * 4):
        assert row["own"] - row["own_mismatched"] == pytest.approx(0) and row["prefix"] - row[
            "prefix_mismatched"
        ] == pytest.approx(0)
    unlike = [same, torch.tensor([-1.0, -1.0]), torch.tensor([-9.0, -1.0])]
    first, second = token_values(unlike, unlike)
    assert (first["own_mismatched"], second["own_mismatched"]) == (-5.0, -1.0)
    assert first["prefix_mismatched"] == pytest.approx(_log_mean([-1, -9])) and second[
        "prefix_mismatched"
    ] == pytest.approx(-1)


def test_right_to_left_has_its_suffix_for_a_matched_context() -> None:
    """log p of a piece given the pieces behind it, as the reversed caption gives it; told in the caption's own order."""
    reverse = measured("arc", direction="right_to_left")
    for row in reverse.part(range(3)):
        pieces, place = CAPTIONS[row["caption"]][1:-1], row["place"] - 1
        read = [toy.SOT, *pieces[::-1], toy.EOT]
        at = len(pieces) if place == len(pieces) else len(pieces) - 1 - place
        assert row["prefix"] == pytest.approx(_steps(read, row["caption"])[at], abs=1e-4)
        others = [_steps(read, image)[at] for image in reverse.others(row["caption"])]
        assert row["prefix_mismatched"] == pytest.approx(_log_mean(others), abs=1e-4)


def test_every_caption_has_times_and_masks_of_its_own_when_gradients_are_measured() -> None:
    """Draws that captions share would stay in a mean over captions, however many there are; those of one caption repeat."""
    one = measured("mdc")
    captioner = one.run.scorer.captioner
    one.job.gradient_draws = 2
    one.pictures, one.tokens = images()[:1].expand(3, -1, -1, -1), [CAPTIONS[0]] * 3
    trained, scored = vars(one.run.job), vars(one.run.scorer)
    trained |= {"backbone": toy.BACKBONE}
    trained |= {"protocol": SimpleNamespace(pretrain=toy.PROTOCOL, data=SimpleNamespace(context_length=16))}
    scored |= {"vocabulary": SimpleNamespace(size=toy.V, mask_id=toy.MASK), "model": captioner.model}
    weights = captioner.model.state_dict()
    first, second, again = (one.gradients(weights, number) for number in (0, 1, 0))
    assert first == again and first != second


def test_a_piece_stands_before_or_after_where_it_does() -> None:
    pairs: Any = SimpleNamespace(captions=["a red dog and a red cat"], keys=["k"])
    told = [_about(pairs, 0, place, scenes=False) for place in range(1, 9)]
    assert [row["before"] for row in told] == [False] * 4 + [True, True, False, False]
    assert [row["after"] for row in told] == [True, True] + [False] * 6
    assert [row["eot"] for row in told] == [False] * 7 + [True]


# --- matched contexts and gradients -----------------------------------------------------------------------------------


def gradient_norms(method: str, tokens: list[int], draws: int = 1, **more: Any) -> Tensor:
    """Of a caption of the first image, as an encoder takes it; ``more``: other values of the method."""
    entry, image = toy.METHODS[method].model_copy(update=more), normalise(images()[:1])[0]
    generator = torch.Generator().manual_seed(3)
    found: Tensor = entry.load("positions").gradient_norms(
        model(method), entry, toy.PROTOCOL, image, tokens, toy.MASK, draws, generator
    )
    return found


def test_matched_contexts_show_the_tokens_before_and_mask_all_others() -> None:
    one, rows = scorer("mdc"), list[int]()
    one.model.head.register_forward_hook(lambda _, inputs, __: rows.append(len(inputs[0])))
    scores = prefix_scores(one, one.look(images()), PAIRS)
    assert sum(rows) == sum(len(pair.tokens) - 1 for pair in PAIRS), "logits are computed of each token once"
    for pair, found in zip(PAIRS, scores, strict=True):
        places = range(1, len(pair.tokens))
        expected = [
            plain("mdc", pair.image, masked(pair.tokens, set(range(place, len(pair.tokens)))))[
                place, pair.tokens[place]
            ]
            for place in places
        ]
        assert found.tolist() == pytest.approx([float(value) for value in expected], abs=1e-4)


def _norm(method: str, inputs: Tensor, place: int, target: int) -> float:
    """‖∂(−log p(target at place))/∂V‖ by autograd through the plain model, one token alone."""
    captioner = shared(method)
    visual = captioner.encoder(normalise(images()[:1]))[1].detach().requires_grad_()
    hidden = captioner.text(inputs[None], torch.tensor([len(inputs)]), visual)
    loss = -captioner.head(hidden)[0, place].log_softmax(dim=-1)[target]
    (gradient,) = torch.autograd.grad(loss, visual)
    return float(gradient.norm())


@pytest.mark.parametrize("tokens", CAPTIONS)
def test_a_tokens_gradient_under_arc_is_that_of_its_own_loss(tokens: list[int]) -> None:
    found = gradient_norms("arc", tokens)
    expected = [_norm("arc", torch.tensor(tokens), place - 1, tokens[place]) for place in range(1, len(tokens))]
    assert found.tolist() == pytest.approx(expected, rel=1e-3)


def test_right_to_left_tells_gradients_in_the_captions_own_order() -> None:
    tokens = CAPTIONS[1]
    read = [tokens[0], *tokens[-2:0:-1], tokens[-1]]
    found = gradient_norms("arc", tokens, direction="right_to_left")
    expected = [_norm("arc", torch.tensor(read), place - 1, read[place]) for place in range(1, len(read))]
    assert found.tolist() == pytest.approx([*expected[-2::-1], expected[-1]], rel=1e-3)


def test_a_masked_tokens_gradient_is_the_mean_over_masks_that_hide_it() -> None:
    """From the fully masked caption there is one mask; at other ratios, the mean over all masks by their probability."""
    tokens = CAPTIONS[0]
    length = len(tokens) - 1
    whole = gradient_norms("mdc", tokens, t_range=(1.0, 1.0))
    all_masked = masked(tokens, set(range(1, length + 1)))
    assert whole.tolist() == pytest.approx(
        [_norm("mdc", all_masked, place, tokens[place]) for place in range(1, length + 1)], rel=1e-3
    )
    found = gradient_norms("mdc", tokens, draws=500, t_range=(0.5, 0.5))
    for place in range(1, length + 1):
        rest = [other for other in range(1, length + 1) if other != place]
        expected = 0.0
        for number in range(2 ** len(rest)):
            hidden = {place, *(other for bit, other in enumerate(rest) if number >> bit & 1)}
            expected += _norm("mdc", masked(tokens, hidden), place, tokens[place]) / 2 ** len(rest)
        assert float(found[place - 1]) == pytest.approx(expected, rel=0.05)
