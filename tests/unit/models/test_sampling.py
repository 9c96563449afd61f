"""Writing by unmasking: against the paper's equation 6 taken literally, and the policies against their definitions."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from mdc.diffusion.sampling import confident_enough, drawn, greedy, most_confident, unmask

V, MASK = 6, 6


def log_probs(tokens: Tensor, row: int) -> Tensor:
    """(L, V): a made-up model that sees every token, its place and the row."""
    generator = torch.Generator().manual_seed(hash((row, *tokens.tolist())) % 2**31)
    return (2 * torch.randn(len(tokens), V, generator=generator)).log_softmax(dim=-1)


def propose(tokens: Tensor, where: Tensor, rows: Tensor, step: int) -> tuple[Tensor, Tensor]:
    found = torch.stack([log_probs(one, row) for one, row in zip(tokens, rows.tolist(), strict=True)])
    best, confidence = greedy(found.flatten(0, 1))
    return best.view(tokens.shape), confidence.view(tokens.shape)


def equation_6(row: int, length: int) -> tuple[list[int], list[int]]:
    """N' steps; at each, of the masked places that with the highest max_j η_j^i gets argmax_j η_j^i. Tokens, and the order."""
    x = [MASK] * length
    order = []
    for _ in range(length):
        eta = log_probs(torch.tensor(x), row)
        confidence = {i: float(eta[i].max()) for i in range(length) if x[i] == MASK}
        place = max(confidence, key=confidence.__getitem__)
        x[place] = int(eta[place].argmax())
        order.append(place)
    return x, order


@pytest.mark.parametrize("length", [1, 4, 9])
def test_one_token_a_step_is_the_papers_equation_6(length: int) -> None:
    tokens = torch.full((5, length), MASK)
    found = unmask(propose, tokens, tokens == MASK, most_confident)
    for row in range(5):
        written, order = equation_6(row, length)
        assert found.tokens[row].tolist() == written
        assert [int(found.step[row, place]) for place in order] == list(range(1, length + 1))
    assert bool((found.confidence < 0).all())


def test_given_words_stay_and_rows_end_by_themselves() -> None:
    tokens = torch.tensor([[MASK, 2, MASK, 5], [1, 1, 1, MASK], [0, 1, 2, 3]])
    asked = []

    def noted(tokens: Tensor, where: Tensor, rows: Tensor, step: int) -> tuple[Tensor, Tensor]:
        asked.append((step, rows.tolist()))
        return propose(tokens, where, rows, step)

    found = unmask(noted, tokens, tokens == MASK, most_confident)
    assert asked == [(1, [0, 1]), (2, [0])]
    assert found.tokens[tokens != MASK].tolist() == tokens[tokens != MASK].tolist()
    assert found.step[0].tolist() in ([1, 0, 2, 0], [2, 0, 1, 0]) and found.step[2].tolist() == [0] * 4
    assert float(found.confidence[2].abs().sum()) == 0


@pytest.mark.parametrize("count", [1, 2, 3, 10])
def test_several_tokens_a_step_are_the_most_confident_ones(count: int) -> None:
    tokens = torch.full((4, 7), MASK)
    found = unmask(propose, tokens, tokens == MASK, lambda c, w: most_confident(c, w, count))
    assert int(found.step.max()) == math.ceil(7 / count)
    first = torch.stack([log_probs(tokens[0], row).amax(dim=-1) for row in range(4)])
    for row in range(4):
        shown = found.step[row] == 1
        assert int(shown.sum()) == min(count, 7)
        assert bool((first[row][shown].min() >= first[row][~shown].max()) if count < 7 else True)


def test_a_threshold_shows_what_is_sure_and_always_something() -> None:
    confidence = torch.tensor([[0.95, 0.5, 0.99, 0.9], [0.3, 0.2, 0.1, 0.3]]).log()
    where = torch.tensor([[True, True, False, True], [True, True, True, True]])
    found = confident_enough(confidence, where, 0.89)
    assert found.tolist() == [[True, False, False, True], [True, False, False, False]]


def test_a_drawn_token_has_its_probability_at_every_temperature() -> None:
    logits = torch.tensor([[2.0, 0.0, -1.0, 1.0]])
    for temperature in (0.5, 1.0, 2.0):
        expected = (logits[0] / temperature).softmax(dim=-1)
        uniforms = (torch.arange(20_000) + 0.5) / 20_000
        tokens, found = drawn(logits.expand(20_000, -1), temperature, uniforms)
        assert torch.bincount(tokens, minlength=4) / 20_000 == pytest.approx(expected.numpy(), abs=1e-3)
        assert torch.allclose(found, logits[0].log_softmax(dim=-1)[tokens])
    cold, _ = drawn(logits.expand(5, -1), 1e-3, torch.tensor([0.0, 0.2, 0.5, 0.9, 0.9999]))
    assert cold.tolist() == [0] * 5
    never, _ = drawn(torch.tensor([[-math.inf, 0.0]]), 1.0, torch.tensor([0.0]))
    assert never.tolist() == [1], "what is barred is never drawn"
