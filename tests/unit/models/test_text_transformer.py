"""The text transformer on packed and padded captions, the weights that methods share, and what its words look at."""

import pytest
import torch
import toy
from torch import Tensor

from mdc.app.demo.attention import cross_attention, looked_at
from mdc.evaluation.predictors.folded import read_images
from mdc.evaluation.predictors.writing import DecodedCaption
from mdc.models.captioner import Captioner
from mdc.models.decoder import TextTransformer
from mdc.models.packing import packing
from mdc.models.text import Vocabulary
from mdc.plan.config.kinds.backbones import Decoder

V, CONTEXT, MEMORY = 40, 16, 24


def _text(causal: bool, cross: bool = True, seed: int = 0) -> TextTransformer:
    shape = Decoder(width=32, layers=2, heads=4)
    return TextTransformer(shape, V, CONTEXT, causal, seed, memory_width=MEMORY if cross else None).eval()


@pytest.mark.parametrize("cross", [True, False])
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("lengths", [[12, 7, 4], [12, 12, 12], [1, 12, 1]])
def test_packed_captions_are_padded_ones_without_their_padding(causal: bool, cross: bool, lengths: list[int]) -> None:
    """Hidden states and all gradients are those of the padded batch, one caption at a time as a third witness."""
    generator = torch.Generator().manual_seed(1)
    tokens, memory = torch.randint(V, (3, 12), generator=generator), torch.randn(3, 9, MEMORY, generator=generator)
    length = torch.tensor(lengths)
    where = packing(length, 12)
    assert where.padded == (min(lengths) < 12) and len(where.places) == sum(lengths)
    wanted = torch.randn(sum(lengths), 32, generator=torch.Generator().manual_seed(2))
    found = []
    for way in ("packed", "padded", "alone"):
        text = _text(causal, cross)
        seen = memory.clone().requires_grad_() if cross else None
        if way == "packed":
            hidden = text(tokens.flatten()[where.places], memory=seen, packing=where)
        elif way == "padded":
            hidden = text(tokens, length, seen).flatten(0, 1)[where.places]
        else:
            alone = [
                text(tokens[row : row + 1, :n], None, None if seen is None else seen[row : row + 1])[0]
                for row, n in enumerate(lengths)
            ]
            hidden = torch.cat(alone)
        (hidden * wanted).sum().backward()
        gradients = toy.gradients(text)
        found.append((hidden.detach(), gradients | ({"memory": seen.grad} if seen is not None else {})))
    (packed, ours), *others = found
    for hidden, theirs in others:
        assert torch.allclose(packed, hidden, atol=2e-6)
        assert ours.keys() == theirs.keys()
        for name, gradient in theirs.items():
            one = ours[name]
            assert gradient is not None and one is not None, name
            assert torch.allclose(one, gradient, rtol=1e-4, atol=1e-5 * float(gradient.abs().max())), name


def test_methods_share_the_weights_they_have_in_common() -> None:
    causal, bidirectional, clip = _text(True), _text(False), _text(True, cross=False)
    for name, parameter in causal.named_parameters():
        assert torch.equal(parameter, bidirectional.get_parameter(name))
    for name, parameter in clip.named_parameters():
        assert torch.equal(parameter, causal.get_parameter(name))
    assert not torch.equal(causal.token_embedding.weight, _text(True, seed=1).token_embedding.weight)


# --- what a word looks at ---------------------------------------------------------------------------------------------


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
        expected = captioner.hidden_states(tokens[None], seen)[0]  # type: ignore[arg-type]
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
    written = DecodedCaption((3, 4, 5, 6), 0.0, (2, 0, 1, 2), (0.0,) * 4, 2)
    found = looked_at(captioner, WORDS, seen, written)  # type: ignore[arg-type]
    for place, shown in enumerate(([mask, 4, 5, mask], [3, 4, 5, 6], [mask, 4, mask, mask], [mask, 4, 5, mask])):
        torch.testing.assert_close(found[place], at(captioner, seen, [sot, *shown, eot], place + 1))
    assert looked_at(captioner, WORDS, seen, DecodedCaption((), 0.0, (), (), 0)).shape == (0, found.shape[1])  # type: ignore[arg-type]


@pytest.mark.parametrize("reverse", [False, True])
def test_a_left_to_right_models_word_saw_those_before_it(reverse: bool) -> None:
    captioner = model(causal=True)
    seen = memory(captioner)
    written = DecodedCaption((3, 4, 5), 0.0, (1, 2, 3), (0.0,) * 3, 3)
    found = looked_at(captioner, WORDS, seen, written, reverse=reverse)  # type: ignore[arg-type]
    order = (5, 4, 3) if reverse else (3, 4, 5)
    for number in range(3):  # the token that a place predicts comes after it
        row = at(captioner, seen, [WORDS.sot, *order[:number]], number)
        torch.testing.assert_close(found[written.pieces.index(order[number])], row)
