"""What a word looks at: the decoder's own attention, at the moment when the word was written."""

from __future__ import annotations

import pytest
import torch
import toy
from torch import Tensor

from mdc.demo.attention import cross_attention, looked_at
from mdc.models.captioner import Captioner
from mdc.predictors.folded import hidden_states, read_images
from mdc.predictors.writing import Written
from mdc.text import Vocabulary

WORDS = Vocabulary.corpus(range(toy.V - 2))


def model(causal: bool) -> Captioner:
    return Captioner(toy.BACKBONE, toy.V, 20, causal, seed=0).eval()


def memory(model: Captioner) -> object:
    images = toy.batch(1).images
    return read_images(model, images, "fp32")


@pytest.mark.parametrize("causal", [False, True])
def test_it_is_the_attention_that_the_decoder_computes(causal: bool) -> None:
    """With these weights the same hidden states come out, and each row is a distribution over the visual tokens."""
    captioner = model(causal)
    seen = memory(captioner)
    tokens = torch.randint(0, toy.V - 2, (3, 7), generator=torch.Generator().manual_seed(0))
    weights, hidden = cross_attention(captioner, tokens, seen)  # type: ignore[arg-type]
    with torch.no_grad():
        expected = hidden_states(captioner, tokens[None], seen)[0]  # type: ignore[arg-type]
    torch.testing.assert_close(hidden, expected, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(weights.sum(dim=-1), torch.ones(3, 7))
    assert weights.shape[-1] == (16 // toy.BACKBONE.patch_size) ** 2 and (weights >= 0).all()


def at(captioner: Captioner, seen: object, tokens: list[int], place: int) -> Tensor:
    return cross_attention(captioner, torch.tensor([tokens]), seen)[0][0, place]  # type: ignore[arg-type]


def test_a_masked_models_word_saw_what_was_revealed_before_it() -> None:
    captioner = model(causal=False)
    seen = memory(captioner)
    sot, eot, mask = WORDS.sot, WORDS.eot, WORDS.mask_id
    # the second word was given, the third was written first, then the first and the last together
    written = Written((3, 4, 5, 6), 0.0, (2, 0, 1, 2), (0.0,) * 4)
    found = looked_at(captioner, WORDS, seen, written)  # type: ignore[arg-type]
    for place, shown in enumerate(([mask, 4, 5, mask], [3, 4, 5, 6], [mask, 4, mask, mask], [mask, 4, 5, mask])):
        torch.testing.assert_close(found[place], at(captioner, seen, [sot, *shown, eot], place + 1))
    assert looked_at(captioner, WORDS, seen, Written((), 0.0, (), ())).shape == (0, found.shape[1])  # type: ignore[arg-type]


@pytest.mark.parametrize("reverse", [False, True])
def test_a_left_to_right_models_word_saw_those_before_it(reverse: bool) -> None:
    captioner = model(causal=True)
    seen = memory(captioner)
    written = Written((3, 4, 5), 0.0, (1, 2, 3), (0.0,) * 3)
    found = looked_at(captioner, WORDS, seen, written, reverse=reverse)  # type: ignore[arg-type]
    order = (5, 4, 3) if reverse else (3, 4, 5)
    for number in range(3):  # the token that a place predicts comes after it
        row = at(captioner, seen, [WORDS.sot, *order[:number]], number)
        torch.testing.assert_close(found[written.pieces.index(order[number])], row)
