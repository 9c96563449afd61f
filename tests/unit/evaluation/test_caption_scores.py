"""Scores of captions: against the plain model on the same masks, and against the paper's text taken literally."""

from functools import cache
from typing import Any

import pytest
import torch
import toy
from torch import Tensor

from mdc.diffusion.likelihood import mean_of_groups, token_terms
from mdc.evaluation.predictors.caption_scores import GROUPS, Draws, Pair
from mdc.models.normalise import normalise

CAPTIONS = [
    [toy.SOT, 3, 9, 4, toy.EOT],
    [toy.SOT, 5, 5, 7, 11, 2, toy.EOT],
    [toy.SOT, 8, 1, 6, toy.EOT],
    [toy.SOT, 12, toy.EOT],
]
PAIRS = [Pair(image, tokens, place) for place, tokens in enumerate(CAPTIONS) for image in (0, 2)]
model = toy.perturbed


def images() -> Tensor:
    return torch.randint(0, 256, (3, 3, 16, 16), generator=torch.Generator().manual_seed(1), dtype=torch.uint8)


def scorer(method: str, batch_tokens: int = 8192) -> Any:
    return toy.scorer(method, model(method), toy.MASK, "fp32", torch.device("cpu"), batch_tokens)


#: for what only reads a model
shared = cache(model)


@torch.no_grad()
def plain(method: str, image: int, inputs: Tensor) -> Tensor:
    """log p of every token at every place of one version (T,), as the model itself computes it: (T, V)."""
    logits = shared(method).logits(normalise(images()[image : image + 1]), inputs[None], torch.tensor([len(inputs)]))
    return logits[0].log_softmax(dim=-1)


def masked(tokens: list[int], places: set[int]) -> Tensor:
    return torch.tensor([toy.MASK if place in places else token for place, token in enumerate(tokens)])


def test_arc_is_equation_7() -> None:
    one = scorer("arc")
    for pair, found in zip(PAIRS, one.autoregressive(one.look(images()), PAIRS), strict=True):
        log_probs = plain("arc", pair.image, torch.tensor(pair.tokens))
        expected = [float(log_probs[place, token]) for place, token in enumerate(pair.tokens[1:])]
        assert found.value == pytest.approx(sum(expected), abs=1e-4) and found.error == 0
        assert found.tokens.tolist() == pytest.approx(expected, abs=1e-4)


def test_right_to_left_scores_the_reversed_pieces_and_tells_them_in_their_own_order() -> None:
    one = scorer("arc")
    for pair, found in zip(PAIRS, one.autoregressive(one.look(images()), PAIRS, reverse=True), strict=True):
        pieces = pair.tokens[1:-1]
        reverse = [toy.SOT, *pieces[::-1], toy.EOT]
        log_probs = plain("arc", pair.image, torch.tensor(reverse))
        steps = [float(log_probs[place, token]) for place, token in enumerate(reverse[1:])]
        assert found.tokens.tolist() == pytest.approx([*steps[:-1][::-1], steps[-1]], abs=1e-4)


def test_the_heuristic_is_the_papers_text() -> None:
    """ "Starting with a fully masked sequence, we perform N denoising steps. In each step, we identify the masked position with
    the highest predicted confidence and record the log-likelihood of the ground-truth token at this position. This token then
    replaces [MASK]." """
    one = scorer("mdc")
    for pair, found in zip(PAIRS, one.heuristic(one.look(images()), PAIRS), strict=True):
        hidden, total = set(range(1, len(pair.tokens))), 0.0
        while hidden:
            log_probs = plain("mdc", pair.image, masked(list(pair.tokens), hidden))
            place = max(sorted(hidden), key=lambda p: float(log_probs[p].max()))
            total += float(log_probs[place, pair.tokens[place]])
            hidden.remove(place)
        assert found.value == pytest.approx(total, abs=1e-4)


def test_parallel_and_pseudo_likelihood_are_their_sums() -> None:
    one = scorer("mdc")
    memory = one.look(images())
    for pair, together, alone in zip(
        PAIRS, one.parallel(memory, PAIRS), one.pseudo_likelihood(memory, PAIRS), strict=True
    ):
        places, tokens = range(1, len(pair.tokens)), list(pair.tokens)
        all_masked = plain("mdc", pair.image, masked(tokens, set(places)))
        assert together.value == pytest.approx(sum(float(all_masked[p, tokens[p]]) for p in places), abs=1e-4)
        single = sum(float(plain("mdc", pair.image, masked(tokens, {p}))[p, tokens[p]]) for p in places)
        assert alone.value == pytest.approx(single, abs=1e-4)


def _where(samples: int, length: int, item: int) -> tuple[Draws, Tensor]:
    draws = Draws(f"item {item}", 0, samples, 76)
    return draws, draws.masks(length, lambda points: (points * length).long() + 1, samples // GROUPS)


def test_scores_under_the_same_masks_equal_the_plain_loop() -> None:
    """Each mask by itself through the model, as in equation 8: equal to 1e-4, and the mean of the terms is the score."""
    one = scorer("mdc")
    memory, samples = one.look(images()), 32
    for pair in PAIRS[:3]:
        length = len(pair.tokens) - 1
        draws, where = _where(samples, length, 0)
        ((_, log_probs, same),) = one.samples(memory, [pair], [draws] * 4, samples // GROUPS)
        assert torch.equal(same[0], where)
        terms = []
        for mask, found in zip(where.flatten(0, 1), log_probs[0].flatten(0, 1), strict=True):
            places = {p + 1 for p in range(length) if mask[p]}
            expected = plain("mdc", pair.image, masked(list(pair.tokens), places))
            for place in range(length):
                told = float(expected[place + 1, pair.tokens[place + 1]]) if mask[place] else 0.0
                assert float(found[place]) == pytest.approx(told, abs=1e-4)
            terms.append(length / len(places) * sum(float(expected[p, pair.tokens[p]]) for p in places))
        plainly, _ = mean_of_groups(token_terms(log_probs.double(), same).sum(dim=-1))
        assert plainly.tolist() == pytest.approx([sum(terms) / samples], abs=1e-4)


def test_scores_do_not_depend_on_what_else_is_scored_or_on_the_batch() -> None:
    draws = [Draws(f"item {n}", 0, 32, 76) for n in range(len(CAPTIONS))]
    for name in ("monte_carlo", "heuristic", "parallel", "pseudo_likelihood"):
        values = []
        for batch_tokens in (16, 60, 8192):
            one = scorer("mdc", batch_tokens)
            more = (draws, 32) if name == "monte_carlo" else ()
            values.append([s.value for s in getattr(one, name)(one.look(images()), PAIRS, *more)])
            alone = [getattr(one, name)(one.look(images()), [pair], *more)[0].value for pair in PAIRS]
            assert alone == pytest.approx(values[-1], abs=1e-4), name
        assert values[0] == pytest.approx(values[2], abs=1e-4) and values[1] == pytest.approx(values[2], abs=1e-4)
