"""Unmasking with a guide, against its definition taken literally, and without weight against the paper's decoding."""

from __future__ import annotations

import math

import pytest
import torch
from test_sampling import MASK, V, log_probs, propose
from torch import Tensor

from mdc.diffusion.guided import Candidates, likeliest, unmask_guided
from mdc.diffusion.sampling import most_confident, unmask


def candidates(count: int):  # type: ignore[no-untyped-def]
    def found(tokens: Tensor, where: Tensor, rows: Tensor) -> Candidates:
        each = torch.stack([log_probs(one, row) for one, row in zip(tokens, rows.tolist(), strict=True)])
        return likeliest(each[where], where, count)

    return found


def liked(pieces: list[int], row: int) -> float:
    """What a made-up guide says of the pieces that are there."""
    return math.sin(1 + row + sum((place + 1) * (piece + 2) for place, piece in enumerate(pieces)))


def liken(tokens: Tensor, masked: Tensor, rows: Tensor) -> Tensor:
    return torch.tensor(
        [liked(some[~gone].tolist(), row) for some, gone, row in zip(tokens, masked, rows.tolist(), strict=True)]
    )


def literally(row: int, given: list[int], count: int, weight: float) -> tuple[list[int], list[int]]:
    """At each step every masked place with every piece; of the ``count`` likeliest the best one with the guide."""
    x, order = list(given), []
    while MASK in x:
        eta = log_probs(torch.tensor(x), row)
        pairs = [(float(eta[i, k]), i, k) for i in range(len(x)) if x[i] == MASK for k in range(V)]
        likely = sorted(pairs, key=lambda pair: -pair[0])[:count]

        def value(pair: tuple[float, int, int], x: list[int] = x) -> float:
            tried = [pair[2] if i == pair[1] else piece for i, piece in enumerate(x)]
            return pair[0] + weight * liked([piece for piece in tried if piece != MASK], row)

        _, place, piece = max(likely, key=value)
        x[place] = piece
        order.append(place)
    return x, order


@pytest.mark.parametrize("count", [2, 5, V])
@pytest.mark.parametrize("weight", [0.3, 4.0])
def test_a_guided_step_shows_the_best_of_the_likeliest_pairs(count: int, weight: float) -> None:
    tokens = torch.full((4, 5), MASK)
    tokens[1, 2] = 3  # a given word stays, and the guide reads it
    found = unmask_guided(candidates(count), liken, tokens, tokens == MASK, weight)
    for row in range(4):
        written, order = literally(row, tokens[row].tolist(), count, weight)
        assert found.tokens[row].tolist() == written
        assert [int(found.step[row, place]) for place in order] == list(range(1, len(order) + 1))
    assert int(found.step[1, 2]) == 0 and float(found.confidence[1, 2]) == 0
    assert bool((found.confidence[found.step > 0] < 0).all())


def test_the_guide_changes_captions_and_no_weight_is_the_papers_decoding() -> None:
    tokens = torch.full((6, 6), MASK)
    plain = unmask(propose, tokens, tokens == MASK, most_confident)
    none, some = (unmask_guided(candidates(4), liken, tokens, tokens == MASK, weight) for weight in (0.0, 4.0))
    assert torch.equal(none.tokens, plain.tokens) and torch.equal(none.step, plain.step)
    assert torch.allclose(none.confidence, plain.confidence, atol=1e-6)
    assert not torch.equal(some.tokens, plain.tokens)


def test_the_likeliest_pairs_are_in_order_and_ties_go_to_the_first_place() -> None:
    where = torch.tensor([[True, False, True], [False, False, True]])
    values = torch.tensor([[0.5, 0.3, 0.2], [0.5, 0.4, 0.1], [0.2, 0.7, 0.1]]).log()
    found = likeliest(values, where, 3)
    assert found.places.tolist()[0] == [0, 2, 2] and found.pieces.tolist()[0] == [0, 0, 1]
    assert found.places[1].tolist() == [2, 2, 2] and found.pieces[1].tolist() == [1, 0, 2]
    assert bool((found.log_probs.diff(dim=1) <= 0).all())
    # more than there are: all pieces of the one place
    assert likeliest(values[2:], where[1:], 9).log_probs.shape == (1, 3)
