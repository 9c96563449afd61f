"""What scoring computes, counted: images and their keys once, logits at masked places alone, few batches, shared masks."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import torch
import toy
from PIL import Image
from test_caption_scores import CAPTIONS, PAIRS, images
from test_caption_scores import scorer as caption_scorer
from test_option_scores import ITEMS, _Reader, questions, scorer

from mdc.evaluation.option_scores import boxed, picture, score_items
from mdc.models.decoder import Block
from mdc.predictors import caption_scores
from mdc.predictors.caption_scores import Pair
from mdc.predictors.draws import GROUPS, draws_of
from mdc.predictors.folded import blocks_of
from mdc.records import UserError


class _Boxed(_Reader):
    """Some of the items have a box, by their numbers."""

    def __init__(self, items: Any, pixels: torch.Tensor, boxes: dict[int, tuple[int, int, int, int]]) -> None:
        super().__init__(items, pixels)
        self.boxes = boxes

    def read(self, number: int) -> Any:
        key, data, record = super().read(number)
        return key, data, record | ({"box": self.boxes[number]} if number in self.boxes else {})


def _counted(monkeypatch: pytest.MonkeyPatch, model: Any) -> Counter[str]:
    """How many images the encoder reads, keys and values are made of and how many rows of hidden states get logits."""
    found: Counter[str] = Counter()

    def told(name: str) -> Any:
        return lambda module, inputs: found.update({name: len(inputs[0])})

    model.encoder.register_forward_pre_hook(told("images"))
    model.head.register_forward_pre_hook(told("logits"))
    for block in blocks_of(model):
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
    draws = [draws_of(f"item {n}", 0, 32, 76) for n in range(len(CAPTIONS))]
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

    one, asked = scorer("arc"), questions(items, pixels, 2)
    object.__setattr__(asked, "reader", _Boxed(items, pixels, dict.fromkeys(boxed_items, (0, 0, 8, 8))))
    count = _counted(monkeypatch, one.captioner.model)
    score_items(one, asked, range(6))
    assert count["images"] == 1 + distinct


def test_logits_are_made_at_masked_places_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    one = caption_scorer("mdc")
    count = _counted(monkeypatch, one.model)
    memory, draws = one.look(images()), [draws_of(f"item {n}", 0, 32, 76) for n in range(len(CAPTIONS))]
    masks = sum(int(where.sum()) for _, _, where in one.samples(memory, PAIRS, draws, 0, 2))
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
    hidden_states = caption_scores.hidden_states

    def told(model: Any, tokens: torch.Tensor, memory: Any) -> torch.Tensor:
        shapes.append(tuple(tokens.shape))
        return hidden_states(model, tokens, memory)

    monkeypatch.setattr(caption_scores, "hidden_states", told)
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
    masked = caption_scores.CaptionScorer.masked

    def told(self: Any, tokens: torch.Tensor, memory: Any, where: torch.Tensor) -> torch.Tensor:
        for row, masks in zip(tokens.tolist(), where, strict=True):
            seen.setdefault(tuple(row), []).append(masks)
        return masked(self, tokens, memory, where)

    monkeypatch.setattr(caption_scores.CaptionScorer, "masked", told)
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

    one, asked = scorer("arc"), questions(ITEMS, pixels, 2)
    object.__setattr__(asked, "reader", _Boxed(ITEMS, pixels, {1: (5, 9, 16, 16)}))
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
