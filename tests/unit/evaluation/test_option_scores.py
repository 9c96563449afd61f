"""Scores of choice sets: every estimator's row against brute force, the same other images for all, no work done twice."""

import itertools
import math
from collections import Counter
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import toy
from PIL import Image
from test_caption_scores import CAPTIONS, PAIRS, images, masked, model, plain
from test_caption_scores import scorer as caption_scorer

from mdc.app.scores import other_places
from mdc.data.formats.images import png
from mdc.evaluation.option_scores import Questions, boxed, picture, score_items
from mdc.evaluation.predictors.caption_scores import GROUPS, Draws, Pair, Scored
from mdc.evaluation.predictors.mismatched import log_mean_probability, mean_score
from mdc.evaluation.predictors.score import RunScorer, numbers
from mdc.methods.masked.score import Scorer
from mdc.models.captioner import Captioner
from mdc.models.decoder import Block
from mdc.models.text import clip_pieces
from mdc.plan.records import UserError

CONTEXT = 8


class _Vocabulary:
    """Pieces by their remainder, so that any caption can be scored by a toy model."""

    mask_id = toy.MASK

    def encode_pieces(self, pieces: list[int], context_length: int) -> list[int]:
        return [toy.SOT, *(piece % toy.SOT for piece in pieces), toy.EOT]


class _Reader:
    """Items that were read from shards: (options, image), in memory; some of them have a box, by their numbers."""

    def __init__(self, items: list[tuple[list[str], int]], pixels: torch.Tensor, boxes: Any) -> None:
        self.items, self.pixels, self.boxes = items, pixels, boxes

    def read(self, number: int) -> tuple[str, bytes, dict[str, Any]]:
        options, image = self.items[number]
        box = {"box": self.boxes[number]} if number in self.boxes else {}
        told = {"options": options, "captions": options, "image": f"p{image}", "group": "g"}
        return f"i{number}", png(self.pixels[image].permute(1, 2, 0).numpy()), told | box

    def __len__(self) -> int:
        return len(self.items)


def scorer(method: str, samples: int = 512, **more: Any) -> RunScorer:
    found = toy.ALL_METHODS[method].model_copy(update=more)
    job = SimpleNamespace(method=found, method_name=method, backbone=SimpleNamespace(image_size=16))
    run: Any = SimpleNamespace(
        job=job, vocabulary=_Vocabulary(), context_length=CONTEXT, checkpoint="toy", load=lambda: model(method)
    )
    return RunScorer(run, samples=samples, precision="fp32", device=torch.device("cpu"))


def questions(
    items: list[tuple[list[str], int]], pixels: torch.Tensor, others: int, samples: int = 512, boxes: Any = ()
) -> Questions:
    reader: Any = _Reader(items, pixels, boxes)
    named = [f"p{image}" for _, image in items]
    trained = frozenset(clip_pieces("red circle blue"))
    return Questions("set", reader, named, trained, 0, others, samples, CONTEXT)


ITEMS = [
    (["red circle", "blue circle", "red circle"], 0),
    (["a red square", "a square red"], 1),
    (["blue", "red blue red"], 2),
]


def _expected(tokens: list[int], image: int, counts: list[int]) -> float:
    """The mean, over the numbers of masks ``counts``, of the mean over all masks of so many of (L/l) Σ log p."""
    length, total = len(tokens) - 1, 0.0
    for count in counts:
        terms = []
        for chosen in itertools.combinations(range(1, length + 1), count):
            log_probs = plain("mdc", image, masked(tokens, set(chosen)))
            terms.append(length / count * sum(float(log_probs[place, tokens[place]]) for place in chosen))
        total += sum(terms) / len(terms) / len(counts)
    return total


@pytest.mark.parametrize(
    ("t_range", "estimator", "counts"),
    [
        # the whole numbers of [0.5 L, L] and, of a fixed ratio, the nearest to 0.4 L, written out for L = 2, 3 and 4
        ((0.5, 1.0), "monte_carlo_range", {2: [1, 2], 3: [2, 3], 4: [2, 3, 4]}),
        ((0.5, 1.0), "monte_carlo", {2: [1, 2], 3: [1, 2, 3], 4: [1, 2, 3, 4]}),
        ((0.4, 0.4), "fixed_ratio", {2: [1], 3: [1], 4: [2]}),
        ((0.4, 0.4), "pseudo_likelihood", {2: [1], 3: [1], 4: [1]}),
    ],
)
def test_a_row_of_each_estimator_is_its_mean_over_all_masks(
    t_range: tuple[float, float], estimator: str, counts: dict[int, list[int]]
) -> None:
    one = scorer("mdc", t_range=t_range)
    every, _ = score_items(one, questions(ITEMS, images(), 2), [0, 1, 2])
    rows = [row for row in every if row["estimator"] == estimator]
    assert len(rows) == 7
    for row in rows:
        number = int(row["item"][1:])
        texts, image = ITEMS[number]
        tokens = one.tokens(texts[row["option"]])
        length = len(tokens) - 1
        # a pseudo-likelihood is a sum over single masks, where equation 8 at one mask is L times their mean
        expected = _expected(tokens, image, counts[length])
        assert abs(row["score"] - expected) <= 4 * row["error"] + 1e-3
        assert (row["error"] > 0) == (estimator != "pseudo_likelihood" and not (length == 2 and counts[2] == [2]))
        others = [ITEMS[place][1] for place in questions(ITEMS, images(), 2).other_items(number)]
        for value, error, other in zip(row["others"], row["others_error"], others, strict=True):
            assert abs(value - _expected(tokens, other, counts[length])) <= 4 * error + 1e-3
        assert row["pieces"] == length - 1


def test_equal_options_get_one_score_and_unseen_pieces_are_counted() -> None:
    every, _ = score_items(scorer("arc"), questions(ITEMS, images(), 2), [0, 1])
    rows = {(row["item"], row["option"]): row for row in every}
    first, same = rows["i0", 0], rows["i0", 2]
    assert same["same_as"] == 0 and rows["i0", 1]["same_as"] == 1
    assert all(same[name] == first[name] for name in ("score", "constant", "others"))
    assert [rows["i0", 0]["unseen"], rows["i1", 0]["unseen"]] == [0, 2]  # "a" and "square"


@pytest.mark.parametrize("method", ["mdc", "arc"])
def test_mismatched_columns_are_the_scorers_own_scores(method: str) -> None:
    """Against the mean colour and each mismatched image, one call each, and their errors as the mismatched module gives them."""
    one = scorer(method, samples=64)
    asked = questions(ITEMS, images(), 2, samples=64)
    rows, _ = score_items(one, asked, [2])
    colour = torch.tensor([round(255 * share) for share in (0.48145466, 0.4578275, 0.40821073)], dtype=torch.uint8)
    flat = colour[:, None, None].expand(3, 16, 16)
    for row in rows:
        pair = [Pair(0, one.tokens(ITEMS[2][0][row["option"]]))]

        def alone(shown: torch.Tensor, name: str = row["estimator"], pair: list[Pair] = pair) -> Scored:
            return one.score(name, one.look(shown[None]), pair, [asked.draws(2)])[0]

        others = [alone(images()[ITEMS[n][1]]) for n in asked.other_items(2)]
        own, constant = alone(images()[2]), alone(flat)
        for name, expected in (("", own), ("constant_", constant)):
            found = row["constant" if name else "score"], row[f"{name}error"]
            assert found == pytest.approx((expected.value, expected.error), abs=1e-4)
        assert row["others"] == pytest.approx([other.value for other in others], abs=1e-4)
        assert row["others_error"] == pytest.approx([other.error for other in others], abs=1e-4)
        assert (row["constant_error"] > 0) == (row["mismatched_error"] > 0) == (row["error"] > 0)
        for control, prefix in ((log_mean_probability, "mismatched"), (mean_score, "mismatched_mean")):
            assert row[f"{prefix}_error"] == pytest.approx(control(own, others).error, abs=1e-4)
        assert row["mismatched_covariance"] == pytest.approx(log_mean_probability(own, others).covariance, abs=1e-4)


def test_scores_that_are_no_numbers_are_never_counted_as_wrong() -> None:
    scores = [Scored(value, 0.0, torch.empty(0)) for value in (-1.0, -math.inf, math.nan)]
    assert numbers("mdc", scores[:2]) == scores[:2]
    with pytest.raises(UserError, match="mdc: a score is no number"):
        numbers("mdc", scores)


def test_an_item_with_an_option_that_is_too_long_is_left_out_whole() -> None:
    """Its other options too, and the items beside it are what they were."""
    long = [*ITEMS, (["red", "red " * (CONTEXT - 1)], 1)]
    fits = [*ITEMS, (["red", "red " * (CONTEXT - 2)], 1)]
    one = scorer("arc")
    rows, left = score_items(one, questions(long, images(), 2), [0, 3, 1])
    assert left == ["i3"] and {row["item"] for row in rows} == {"i0", "i1"}
    alone, none = score_items(one, questions(ITEMS, images(), 2), [0, 1])
    assert none == [] and [row["score"] for row in rows] == pytest.approx([row["score"] for row in alone], abs=1e-5)
    assert score_items(one, questions(long, images(), 2), [3]) == ([], ["i3"])
    assert {row["option"] for row in score_items(one, questions(fits, images(), 2), [3])[0]} == {0, 1}


def test_eight_other_images_are_seen_none_twice_and_never_the_own() -> None:
    """The scores above say that it is these that are shown, whatever the method."""
    asked = questions([(["red"], n % 12) for n in range(16)], images(), 8)
    seen = [tuple(asked.images[place] for place in asked.other_items(number)) for number in range(16)]
    assert all(len({asked.images[number], *some}) == 9 for number, some in enumerate(seen)) and len(set(seen)) > 8


def test_a_person_is_never_shown_the_image_itself_as_another() -> None:
    """Wherever it stands among the held-out ones and however often; the places that it leaves are filled up to eight."""
    pixels = torch.randint(0, 256, (12, 3, 16, 16), generator=torch.Generator().manual_seed(7), dtype=torch.uint8)
    pixels[9] = pixels[3]
    for own, expected in ((3, [0, 1, 2, 4, 5, 6, 7, 8]), (0, list(range(1, 9))), (11, list(range(8)))):
        assert other_places(pixels, pixels[own]) == expected
    with pytest.raises(UserError, match="two held-out images"):
        other_places(pixels[[3, 9, 0]], pixels[3])


def test_the_seed_decides_which_images_stand_in_and_which_masks_are_drawn() -> None:
    one = questions([(["red circle"], image % 3) for image in range(9)], images(), 2)
    asked = [replace(one, images=[f"p{image}" for image in range(9)], seed=seed) for seed in (0, 0, 1)]
    for found in (lambda other: other.other_items(4), lambda other: other.draws(0)):
        first, again, another = map(found, asked)
        assert first == again != another


# --- what scoring computes, counted -----------------------------------------------------------------------------------


def _counted(monkeypatch: pytest.MonkeyPatch, model: Any) -> Counter[str]:
    """How many images the encoder reads, keys and values are made of and how many rows of hidden states get logits."""
    found: Counter[str] = Counter()

    def told(name: str) -> Any:
        return lambda module, inputs: found.update({name: len(inputs[0])})

    model.encoder.register_forward_pre_hook(told("images"))
    model.head.register_forward_pre_hook(told("logits"))
    for block in model.blocks:
        remember = block.cross_attention.remember

        def counted(visual: torch.Tensor, remember: Any = remember) -> Any:
            found["keys"] += len(visual)
            return remember(visual)

        monkeypatch.setattr(block.cross_attention, "remember", counted)
    return found


def test_images_and_their_keys_are_computed_once_for_all_captions_samples_and_steps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one = caption_scorer("mdc")
    count = _counted(monkeypatch, one.model)
    memory = one.look(images())
    draws = [Draws(f"item {n}", 0, 32, 76) for n in range(len(CAPTIONS))]
    one.monte_carlo(memory, PAIRS, draws, 32)
    one.heuristic(memory, PAIRS)
    one.pseudo_likelihood(memory, PAIRS)
    layers = sum(isinstance(block, Block) for block in one.model.text.blocks)
    assert (count["images"], count["keys"]) == (3, 3 * layers) and layers > 0


@pytest.mark.parametrize(("boxed_items", "distinct"), [((), 3), ((2, 5), 3), ((2,), 4)])
def test_items_that_show_one_image_have_it_read_once(
    monkeypatch: pytest.MonkeyPatch, boxed_items: tuple[int, ...], distinct: int
) -> None:
    """As their own or another's image, beside that of the mean colour; one box of an image is an image of its own."""
    pixels = torch.randint(0, 256, (3, 3, 16, 16), generator=torch.Generator().manual_seed(3), dtype=torch.uint8)
    items = [([f"red {word}", "blue"], image) for word in ("circle", "square") for image in range(3)]

    one, asked = scorer("arc"), questions(items, pixels, 2, boxes=dict.fromkeys(boxed_items, (0, 0, 8, 8)))
    count = _counted(monkeypatch, one.captioner.model)
    score_items(one, asked, range(6))
    assert count["images"] == 1 + distinct


def test_logits_are_made_at_masked_places_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    one = caption_scorer("mdc")
    count = _counted(monkeypatch, one.model)
    memory, draws = one.look(images()), [Draws(f"item {n}", 0, 32, 76) for n in range(len(CAPTIONS))]
    masks = sum(int(where.sum()) for _, _, where in one.samples(memory, PAIRS, draws, 2))
    everywhere = sum(32 * (len(pair.tokens) - 1) for pair in PAIRS)
    assert count["logits"] == masks < 0.7 * everywhere
    count.clear()
    one.pseudo_likelihood(memory, PAIRS)
    assert count["logits"] == sum(len(pair.tokens) - 1 for pair in PAIRS)
    count.clear()
    pair = PAIRS[2]
    one.heuristic(memory, [pair])
    length = len(pair.tokens) - 1
    assert count["logits"] == sum(range(1, length + 1)) + length, (
        "confidences of what is masked, and the token that is shown"
    )


def test_captions_of_many_images_go_together_by_length(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four lengths are four batches, in each of which no token is padding; a small bound on tokens makes more of them."""
    shapes: list[tuple[int, ...]] = []
    hidden_states = Captioner.hidden_states

    def told(model: Captioner, tokens: torch.Tensor, memory: Any) -> torch.Tensor:
        shapes.append(tuple(tokens.shape))
        return hidden_states(model, tokens, memory)

    monkeypatch.setattr(Captioner, "hidden_states", told)
    one = caption_scorer("mdc")
    pairs = [Pair(image, tokens) for image in range(3) for tokens in [*CAPTIONS, [toy.SOT, 7, 1, 2, toy.EOT]]]
    one.parallel(one.look(images()), pairs)
    lengths = Counter(len(pair.tokens) for pair in pairs)
    assert sorted(shapes) == sorted((count, 1, length) for length, count in lengths.items())
    shapes.clear()
    small = caption_scorer("mdc", batch_tokens=20)
    small.parallel(small.look(images()), pairs)
    assert all(count * length <= 20 for count, _, length in shapes) and len(shapes) > len(lengths)


def test_options_of_an_item_share_their_masks_and_items_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """Equal lengths the very masks, with every image; other lengths the share of masked tokens."""
    seen: dict[tuple[int, ...], list[torch.Tensor]] = {}
    masked = Scorer.masked

    def told(self: Any, tokens: torch.Tensor, memory: Any, where: torch.Tensor) -> torch.Tensor:
        for row, masks in zip(tokens.tolist(), where, strict=True):
            seen.setdefault(tuple(row), []).append(masks)
        return masked(self, tokens, memory, where)

    monkeypatch.setattr(Scorer, "masked", told)
    one = scorer("mdc", samples=64, t_range=(0.0, 1.0))
    monkeypatch.setattr(one, "estimators", ("monte_carlo",))
    items = [(["red circle", "blue circle", "red blue circle"], 0), (["green circle", "green"], 1)]
    score_items(one, questions(items, images(), 1, samples=64), [0, 1])
    first, second, longer = (seen[tuple(one.tokens(text))] for text in items[0][0])
    assert len(first) == 3, "its own image, none and another"
    assert all(torch.equal(masks, first[0]) for masks in [*first, *second])
    # ⌊u·3⌋ + 1 of three tokens and ⌊u·4⌋ + 1 of four, for the same u
    counts = torch.stack([first[0].sum(dim=1), longer[0].sum(dim=1)], dim=1)
    assert {tuple(row) for row in counts.tolist()} == {(1, 1), (1, 2), (2, 2), (2, 3), (3, 3), (3, 4)}
    (other, *_) = seen[tuple(one.tokens("green circle"))]
    assert len(other) == 64 and len(first[0]) == 64 and GROUPS == 16
    assert not torch.equal(other, first[0])


def test_an_item_with_a_box_is_seen_within_it() -> None:
    """As ARO crops: left, top, width, height. Of an item without a box the whole image is seen."""
    pixels = torch.randint(0, 256, (3, 3, 32, 40), generator=torch.Generator().manual_seed(3), dtype=torch.uint8)

    one, asked = scorer("arc"), questions(ITEMS, pixels, 2, boxes={1: (5, 9, 16, 16)})
    assert torch.equal(picture(one, asked, 1), pixels[1, :, 9:25, 5:21])
    assert not torch.equal(picture(one, asked, 0), pixels[0, :, 9:25, 5:21])
    whole = Image.new("RGB", (4, 3))
    assert boxed(whole, None) is whole and boxed(whole, [1, 0, 2, 3]).size == (2, 3)


def test_an_option_with_a_piece_that_the_model_lacks_names_its_item(monkeypatch: pytest.MonkeyPatch) -> None:
    one = scorer("arc")

    def refuse(pieces: list[int], context_length: int) -> list[int]:
        raise UserError("the piece 'zebra' is outside this vocabulary")

    monkeypatch.setattr(one, "vocabulary", type("Small", (), {"encode_pieces": staticmethod(refuse)}))
    with pytest.raises(UserError, match="choice set set, item i1: the piece 'zebra' is outside"):
        score_items(one, questions(ITEMS, images(), 2), [1])
