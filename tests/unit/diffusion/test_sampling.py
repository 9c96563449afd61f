"""Decoding by unmasking, with a guide too, against equation 6 taken literally; beams against all captions of a toy vocabulary."""

import itertools
import math

import pytest
import torch
from scipy.stats import chisquare
from torch import Tensor

from mdc.diffusion.beam import Hypothesis, beam_search
from mdc.diffusion.guided import Candidates, likeliest, unmask_guided
from mdc.diffusion.sampling import (
    all_of_them,
    ancestral_turns,
    confident_enough,
    drawn,
    greedy,
    most_confident,
    unmask,
)

V, MASK = 6, 6


def log_probs(tokens: Tensor, row: int) -> Tensor:
    """(L, V): a made-up model that sees every token, its place and the row."""
    generator = torch.Generator().manual_seed(hash((row, *tokens.tolist())) % 2**31)
    return (2 * torch.randn(len(tokens), V, generator=generator)).log_softmax(dim=-1)


def propose(tokens: Tensor, where: Tensor, rows: Tensor, step: int) -> tuple[Tensor, Tensor, Tensor]:
    found = torch.stack([log_probs(one, row) for one, row in zip(tokens, rows.tolist(), strict=True)])
    best, confidence = greedy(found.flatten(0, 1))
    return best.view(tokens.shape), confidence.view(tokens.shape), confidence.view(tokens.shape)


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

    def noted(tokens: Tensor, where: Tensor, rows: Tensor, step: int) -> tuple[Tensor, Tensor, Tensor]:
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


# --- ancestral sampling -----------------------------------------------------------------------------------------------


def enumerated(model: Tensor, steps: int) -> dict[tuple[int, ...], float]:
    """The law of MDLM's sampler, step by step: from t to s a masked place stays one with probability s/t, and else is drawn
    from the model, which sees what is there at t. ``model``: state of three places, each one of 2 pieces or masked → (3, 2)."""
    law = {(2, 2, 2): 1.0}
    for step in range(steps, 0, -1):
        t, s = step / steps, (step - 1) / steps
        after: dict[tuple[int, ...], float] = {}
        for state, chance in law.items():
            ways = [
                {2: s / t, **{k: (1 - s / t) * float(model[state][place, k]) for k in (0, 1)}}
                if one == 2
                else {one: 1.0}
                for place, one in enumerate(state)
            ]
            for new in itertools.product(*ways):
                more = chance * math.prod(way[one] for way, one in zip(ways, new, strict=True))
                after[new] = after.get(new, 0.0) + more
        law = {state: chance for state, chance in after.items() if chance > 0}
    return law


@pytest.mark.parametrize("steps", [1, 2, 3, 15])
def test_ancestral_samples_follow_the_enumerated_law_of_the_sampler(steps: int) -> None:
    number, generator = 20_000, torch.Generator().manual_seed(steps)
    model = (2 * torch.randn(3, 3, 3, 3, 2, generator=generator)).double().softmax(dim=-1)
    asked = torch.zeros(number, dtype=torch.int64)

    def proposed(tokens: Tensor, where: Tensor, rows: Tensor, step: int) -> tuple[Tensor, Tensor, Tensor]:
        asked[rows] += 1
        here = model[tokens[:, 0], tokens[:, 1], tokens[:, 2]]
        uniforms = torch.rand(where.numel(), generator=generator)
        found, log_probs = drawn(here.log().flatten(0, 1), 1.0, uniforms)
        return found.view(where.shape), log_probs.view(where.shape), log_probs.view(where.shape)

    tokens = torch.full((number, 3), 2)
    turns = ancestral_turns(torch.rand(number, 3, generator=generator), steps)
    found = unmask(proposed, tokens, tokens == 2, all_of_them, turns)
    law = enumerated(model, steps)
    seen = (found.tokens @ torch.tensor([4, 2, 1])).bincount(minlength=8)
    expected = [number * law[state] for state in itertools.product((0, 1), repeat=3)]
    assert chisquare(seen.numpy(), expected).pvalue > 1e-3
    if steps > 1:  # the law of drawing all at once is another one, and the test would see it
        assert (
            chisquare(
                seen.numpy(), [number * enumerated(model, 1)[s] for s in itertools.product((0, 1), repeat=3)]
            ).pvalue
            < 1e-6
        )
    # steps that show nothing are not asked for, and those that are, are counted
    assert asked.tolist() == [len(set(row)) for row in turns.tolist()] == found.step.amax(dim=1).tolist()


# --- with a guide -----------------------------------------------------------------------------------------------------


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


# --- beam search ------------------------------------------------------------------------------------------------------


START, END, SIZE = 3, 4, 5  # pieces 0, 1, 2


class Toy:
    """Log probabilities that depend on the image and on everything written so far; follows beams as a model's cache does."""

    def __init__(self, images: int, seed: int = 0) -> None:
        self.seed, self.images = seed, images
        self.prefixes: dict[int, list[tuple[int, ...]]] = {}
        self.asked: list[int] = []

    def log_probs(self, image: int, prefix: tuple[int, ...]) -> Tensor:
        generator = torch.Generator().manual_seed(hash((self.seed, image, prefix)) % 2**31)
        return (2 * torch.randn(SIZE, generator=generator)).log_softmax(dim=0)

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
    return beam_search(
        toy,
        toy.images,
        num_beams=width,
        start=START,
        end=END,
        min_tokens=least,
        max_tokens=most,
        length_penalty=penalty,
    )


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
        never.log_probs = lambda *_: torch.full((SIZE,), -math.inf)  # type: ignore[method-assign]
        search(never, 2, 1, 2, 0.0)
