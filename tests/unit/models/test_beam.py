"""Beam search against all captions of a toy vocabulary, and against the plain greedy loop."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from torch import Tensor

from mdc.autoregressive.beam import Hypothesis, beam_search

START, END, V = 3, 4, 5  # pieces 0, 1, 2


class Toy:
    """Log probabilities that depend on the image and on everything written so far; follows beams as a model's cache does."""

    def __init__(self, images: int, seed: int = 0) -> None:
        self.seed, self.images = seed, images
        self.prefixes: dict[int, list[tuple[int, ...]]] = {}
        self.asked: list[int] = []

    def log_probs(self, image: int, prefix: tuple[int, ...]) -> Tensor:
        generator = torch.Generator().manual_seed(hash((self.seed, image, prefix)) % 2**31)
        return (2 * torch.randn(V, generator=generator)).log_softmax(dim=0)

    def __call__(self, images: Tensor, parents: Tensor, tokens: Tensor) -> Tensor:
        self.asked.append(len(images))
        rows = []
        for image, beams, written in zip(images.tolist(), parents.tolist(), tokens.tolist(), strict=True):
            former = self.prefixes.get(image, [()] * len(beams))
            self.prefixes[image] = [(*former[beam], token) for beam, token in zip(beams, written, strict=True)]
            rows.append(torch.stack([self.log_probs(image, prefix) for prefix in self.prefixes[image]]))
        return torch.stack(rows)

    def log_prob(self, image: int, caption: tuple[int, ...]) -> float:
        prefix, total = (START,), 0.0
        for token in caption:
            total += float(self.log_probs(image, prefix)[token])
            prefix = (*prefix, token)
        return total


def search(toy: Toy, width: int, least: int, most: int, penalty: float) -> list[Hypothesis]:
    return beam_search(toy, toy.images, width=width, start=START, end=END, least=least, most=most, penalty=penalty)


@pytest.mark.parametrize("penalty", [0.0, 0.7, 1.0])
@pytest.mark.parametrize(("least", "most"), [(0, 3), (1, 3), (2, 2)])
def test_a_beam_as_wide_as_the_tree_finds_the_best_of_all_captions(least: int, most: int, penalty: float) -> None:
    toy = Toy(images=6)
    for image, found in enumerate(search(toy, 3**most, least, most, penalty)):
        captions = [
            (*pieces, END) for length in range(least, most + 1) for pieces in itertools.product(range(3), repeat=length)
        ]
        best = max(captions, key=lambda one: toy.log_prob(image, one) / len(one) ** penalty)
        assert found.tokens == best
        assert found.log_prob == pytest.approx(toy.log_prob(image, best), abs=1e-5)
        assert found.score == pytest.approx(found.log_prob / len(best) ** penalty)


def _plain_beam(toy: Toy, image: int, width: int, least: int, most: int, penalty: float) -> tuple[int, ...]:
    """The search written out with lists, to the end; of width 1 the greedy loop."""
    beams, finished = [((), 0.0)], []
    for pieces in range(most + 1):
        found = []
        for prefix, total in beams:
            values = toy.log_probs(image, (START, *prefix))
            allowed = [END] if pieces == most else [0, 1, 2, END] if pieces >= least else [0, 1, 2]
            found += [((*prefix, token), total + float(values[token])) for token in allowed]
        found = sorted(found, key=lambda one: -one[1])[:width]
        finished += [one for one in found if one[0][-1] == END]
        beams = [one for one in found if one[0][-1] != END]
    return max(finished, key=lambda one: one[1] / len(one[0]) ** penalty)[0]


@pytest.mark.parametrize("penalty", [0.0, 0.7, 1.0])
@pytest.mark.parametrize("width", [1, 2, 3, 6])
@pytest.mark.parametrize(("least", "most"), [(0, 6), (1, 6), (4, 4)])
def test_a_beam_is_the_search_written_out(width: int, least: int, most: int, penalty: float) -> None:
    toy = Toy(images=12, seed=5)
    found = search(toy, width, least, most, penalty)
    assert [one.tokens for one in found] == [_plain_beam(toy, n, width, least, most, penalty) for n in range(12)]


def test_a_search_ends_when_nothing_can_overtake() -> None:
    """Without a penalty a caption only loses by going on: an image leaves as soon as a finished one is ahead."""
    toy = Toy(images=20, seed=4)
    found = search(toy, 3, 0, 30, 0.0)
    assert len(toy.asked) < 30 and toy.asked[-1] < 20
    longer = search(Toy(images=20, seed=4), 3, 0, 12, 0.0)
    assert [one.tokens for one in longer if len(one.tokens) < 12] == [
        one.tokens for one, other in zip(found, longer, strict=True) if len(other.tokens) < 12
    ]


def test_what_no_search_can_do_is_said() -> None:
    with pytest.raises(ValueError, match="the beam is at least 1"):
        search(Toy(images=1), 0, 1, 2, 0.0)
    with pytest.raises(ValueError, match="logits are not finite"):
        never = Toy(images=1)
        never.log_probs = lambda *_: torch.full((V,), -math.inf)  # type: ignore[method-assign]
        search(never, 2, 1, 2, 0.0)
