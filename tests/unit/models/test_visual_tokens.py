"""What tokens owe to the image: the matched contexts and the gradients against loops over single tokens."""

from __future__ import annotations

import pytest
import torch
import toy
from test_caption_scores import CAPTIONS, PAIRS, images, masked, model, plain, scorer
from torch import Tensor

from mdc.diffusion.schedule import MaskSchedule
from mdc.evaluation.visual_tokens import gradient_norms, prefix_scores
from mdc.formats.pixels import normalise


def shown() -> Tensor:
    """The first image as an encoder takes it."""
    return normalise(images()[:1])[0]


def test_matched_contexts_show_the_tokens_before_and_mask_all_others() -> None:
    one = scorer("mdc")
    for pair, found in zip(PAIRS, prefix_scores(one, one.look(images()), PAIRS), strict=True):
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
    captioner = model(method)
    visual = captioner.encoder(normalise(images()[:1]))[1].detach().requires_grad_()
    hidden = captioner.text(inputs[None], torch.tensor([len(inputs)]), visual)
    loss = -captioner.head(hidden)[0, place].log_softmax(dim=-1)[target]
    (gradient,) = torch.autograd.grad(loss, visual)
    return float(gradient.norm())


@pytest.mark.parametrize("tokens", CAPTIONS)
def test_a_tokens_gradient_under_arc_is_that_of_its_own_loss(tokens: list[int]) -> None:
    found = gradient_norms(model("arc"), shown(), tokens, toy.MASK, None, False, 1, torch.Generator())
    expected = [_norm("arc", torch.tensor(tokens), place - 1, tokens[place]) for place in range(1, len(tokens))]
    assert found.tolist() == pytest.approx(expected, rel=1e-3)


def test_right_to_left_tells_gradients_in_the_captions_own_order() -> None:
    tokens = CAPTIONS[1]
    read = [tokens[0], *tokens[-2:0:-1], tokens[-1]]
    found = gradient_norms(model("arc"), shown(), tokens, toy.MASK, None, True, 1, torch.Generator())
    expected = [_norm("arc", torch.tensor(read), place - 1, read[place]) for place in range(1, len(read))]
    assert found.tolist() == pytest.approx([*expected[-2::-1], expected[-1]], rel=1e-3)


def test_a_masked_tokens_gradient_is_the_mean_over_masks_that_hide_it() -> None:
    """From the fully masked caption there is one mask; at other ratios, the mean over all masks by their probability."""
    tokens = CAPTIONS[0]
    length = len(tokens) - 1
    generator = torch.Generator().manual_seed(3)
    whole = gradient_norms(model("mdc"), shown(), tokens, toy.MASK, MaskSchedule(1.0, 1.0), False, 1, torch.Generator())
    all_masked = masked(tokens, set(range(1, length + 1)))
    assert whole.tolist() == pytest.approx(
        [_norm("mdc", all_masked, place, tokens[place]) for place in range(1, length + 1)], rel=1e-3
    )
    found = gradient_norms(model("mdc"), shown(), tokens, toy.MASK, MaskSchedule(0.5, 0.5), False, 2000, generator)
    for place in range(1, length + 1):
        rest = [other for other in range(1, length + 1) if other != place]
        expected = 0.0
        for number in range(2 ** len(rest)):
            hidden = {place, *(other for bit, other in enumerate(rest) if number >> bit & 1)}
            expected += _norm("mdc", masked(tokens, hidden), place, tokens[place]) / 2 ** len(rest)
        assert float(found[place - 1]) == pytest.approx(expected, rel=0.03)
