"""Captions written by the models: against the plain model and the paper's text, alone and together, and from memory."""

import copy
import math
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch
import toy
from scipy.stats import chisquare
from test_caption_scores import images, model, plain
from torch import Tensor

from mdc.evaluation.predictors.generate import RunWriter
from mdc.evaluation.predictors.writing import Guiding
from mdc.models.text import Vocabulary
from mdc.plan.config.decoding import Beam, Unmasking
from mdc.plan.records import UserError

#: as many ids as the toy models have
WORDS = Vocabulary("corpus", tuple(range(toy.V - 2)))
KEYS = ["a", "b", "c"]


def unmasking(*lengths: int, **more: object) -> Unmasking:
    return Unmasking.model_validate({"kind": "unmask", "lengths": list(lengths), **more})


def beam(width: int, most: int, least: int = 1, penalty: float = 1.0) -> Beam:
    return Beam(kind="beam", num_beams=width, min_tokens=least, max_tokens=most, length_penalty=penalty)


def writer(method: str, batch_tokens: int = 8192) -> Any:
    return toy.writer(method, model(method), WORDS, "fp32", torch.device("cpu"), batch_tokens)


def barred(log_probs: Tensor) -> Tensor:
    """Log probabilities of pieces alone: SOT and EOT are not written into N' places."""
    return torch.cat([log_probs[..., : toy.SOT], torch.full((*log_probs.shape[:-1], 2), -math.inf)], dim=-1)


def _equation_6(
    image: int, tokens: list[int], allowed: Callable[[Tensor], Tensor], count: int = 1
) -> tuple[list[int], list[int], list[float]]:
    """Tokens, steps and log probabilities behind SOT: ``count`` masks a step, the most confident first; ``allowed`` bars
    scores."""
    steps, sure, step = [0] * len(tokens), [0.0] * len(tokens), 0
    while toy.MASK in tokens:
        step += 1
        eta = allowed(plain("mdc", image, torch.tensor(tokens))).log_softmax(dim=-1)
        confidence = {i: float(eta[i].max()) for i, token in enumerate(tokens) if token == toy.MASK}
        for place in sorted(confidence, key=lambda i: -confidence[i])[:count]:
            tokens[place], steps[place], sure[place] = int(eta[place].argmax()), step, confidence[place]
    return tokens[1:], steps[1:], sure[1:]


@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_unmasking_is_equation_6_with_a_visible_end(count: int) -> None:
    """… one piece a step, several, or all at once."""
    one = writer("mdc")
    for image, found in enumerate(one.unmasked(one.look(images()), unmasking(7, tokens_per_step=count), KEYS)):
        tokens, steps, sure = _equation_6(image, [toy.SOT, *[toy.MASK] * 7, toy.EOT], barred, count)
        assert found.pieces == tuple(tokens[:-1]) and found.step == tuple(steps[:-1])
        assert found.log_prob == pytest.approx(sum(sure), abs=1e-4) == pytest.approx(sum(found.confidence), abs=1e-4)
        assert found.calls == math.ceil(7 / count)


def reading(captions: object) -> Tensor:
    """A made-up CLIP's unit embeddings of captions (R, 4), each by all its tokens and their order."""
    rows = [
        torch.tensor([math.sin((place + 1) * token + axis) for place, token in enumerate(one)]).sum()
        for one in captions  # type: ignore[attr-defined]
        for axis in range(4)
    ]
    return torch.nn.functional.normalize(torch.stack(rows).view(-1, 4), dim=-1)


def guiding(images: list[int]) -> Guiding:
    seen = torch.nn.functional.normalize(torch.randn(3, 4, generator=torch.Generator().manual_seed(5)), dim=-1)
    return Guiding(reading, seen[images])


def test_a_guide_has_a_say_in_every_piece() -> None:
    """… by the cosine of the image and the pieces that are there, between SOT and EOT; written out place by place."""
    one, policy = writer("mdc"), unmasking(5, guide={"weight": 6.0, "candidates": 4})
    assert policy.guide is not None
    guide = guiding([0, 1, 2])
    for image, found in enumerate(one.unmasked(one.look(images()), policy, KEYS, guide)):
        tokens = [toy.SOT, *[toy.MASK] * 5, toy.EOT]
        for _ in range(5):
            eta = barred(plain("mdc", image, torch.tensor(tokens))).log_softmax(dim=-1)
            pairs = [(float(eta[i, k]), i, k) for i in range(1, 6) if tokens[i] == toy.MASK for k in range(toy.SOT)]
            values = {}
            for log_prob, place, piece in sorted(pairs, reverse=True)[:4]:
                tried = [piece if i == place else token for i, token in enumerate(tokens)]
                there = [token for token in tried if token != toy.MASK]
                values[place, piece] = log_prob + 6.0 * float(guide.images[image] @ reading([there])[0])
            place, piece = max(values, key=values.__getitem__)
            tokens[place] = piece
        assert found.pieces == tuple(tokens[1:-1])
    alone = [one.unmasked(one.look(images()[n : n + 1]), policy, [KEYS[n]], guiding([n]))[0].pieces for n in range(3)]
    for other in (one, writer("mdc", batch_tokens=1)):
        assert alone == [found.pieces for found in other.unmasked(other.look(images()), policy, KEYS, guide)]


def test_a_guide_that_would_read_other_words_is_refused() -> None:
    own, other = (SimpleNamespace(vocabulary=words, name="mdc") for words in (WORDS, Vocabulary.corpus([5, 9])))
    seen = torch.eye(2)
    assert RunWriter.guiding(cast(Any, own), SimpleNamespace(vocabulary=WORDS, read=reading), seen).images is seen
    with pytest.raises(UserError, match="mdc: its guide has another vocabulary"):
        RunWriter.guiding(cast(Any, own), other, seen)


@pytest.mark.parametrize(("width", "least", "most"), [(1, 1, 9), (1, 5, 5), (4, 1, 9)])
def test_a_searched_captions_probability_is_the_models(width: int, least: int, most: int) -> None:
    """… over the whole caption at once, which the cache never sees; of width 1 it is greedy decoding."""
    one = writer("arc")
    for image, found in enumerate(one.searched(one.look(images()), beam(width, most, least))):
        tokens = torch.tensor([toy.SOT, *found.pieces, toy.EOT])
        every = plain("arc", image, tokens)[:-1]
        log_probs = every.gather(1, tokens[1:, None]).squeeze(1)
        assert least <= len(found.pieces) <= most
        assert found.log_prob == pytest.approx(float(log_probs.sum()), abs=1e-4)
        assert found.confidence == pytest.approx(log_probs[:-1].tolist(), abs=1e-4)
        if width == 1:
            every[:, toy.SOT] = every[:least, toy.EOT] = -math.inf
            end = [toy.EOT] * (len(found.pieces) < most)  # else no place is left
            assert every.argmax(dim=1).tolist()[: len(found.pieces) + len(end)] == [*found.pieces, *end]


_ANCESTRAL = {"temperature": 1.0, "ancestral": 4}
_POLICIES = [
    unmasking(6, **more) for more in ({}, {"tokens_per_step": 2}, {"threshold": 0.2}, {"temperature": 1.0}, _ANCESTRAL)
]


@pytest.mark.parametrize("policy", [*_POLICIES, unmasking(3, 5, 8), beam(3, 9)])
def test_a_caption_does_not_depend_on_what_is_written_beside_it(policy: Unmasking | Beam) -> None:
    def written(numbers: list[int], **more: int) -> list[tuple[tuple[int, ...], tuple[int, ...], int]]:
        one = writer("arc" if isinstance(policy, Beam) else "mdc", **more)
        memory, keys = one.look(images()[numbers]), [KEYS[n] for n in numbers]
        found = one.searched(memory, policy) if isinstance(policy, Beam) else one.unmasked(memory, policy, keys)
        return [(caption.pieces, caption.step, caption.calls) for caption in found]

    together = written([0, 1, 2])
    assert written([0, 1, 2], batch_tokens=1) == together == [*written([0]), *written([1]), *written([2])]


@pytest.mark.parametrize("method", ["mdc", "arc"])
def test_an_image_is_read_once_however_many_steps_a_caption_takes(method: str) -> None:
    """… and each layer computes its keys and values for the cross-attention once, for all steps and beams."""
    one, read = writer(method), list[object]()
    parts = [one.model.encoder, *(block.cross_attention.key_value for block in one.model.blocks)]
    for part in parts:
        part.register_forward_hook(lambda part, *_: read.append(part))
    memory = one.look(images())
    if method == "mdc":
        for policy in (*_POLICIES, unmasking(4, 9)):
            one.unmasked(memory, policy, KEYS)
    else:
        one.searched(memory, beam(6, 9))
    assert read == parts


def test_one_at_a_time_is_the_papers_and_more_take_fewer_steps() -> None:
    one = writer("mdc")
    memory = one.look(images())
    papers = one.unmasked(memory, unmasking(9), KEYS)
    assert papers == one.unmasked(memory, unmasking(9, tokens_per_step=1), KEYS)
    assert papers == one.unmasked(memory, unmasking(9, threshold=1.0), KEYS)
    assert {max(found.step) for found in one.unmasked(memory, unmasking(9, tokens_per_step=3), KEYS)} == {3}
    assert {max(found.step) for found in one.unmasked(memory, unmasking(9, threshold=1e-9), KEYS)} == {1}


def test_a_free_length_is_the_best_by_its_own_likelihood() -> None:
    one = writer("mdc")
    memory = one.look(images())
    for penalty in (0.0, 1.0):
        each = [one.unmasked(memory, unmasking(length, length_penalty=penalty), KEYS) for length in (3, 5, 8)]
        free = one.unmasked(memory, unmasking(3, 5, 8, length_penalty=penalty), KEYS)
        for image in range(3):
            best = max((found[image] for found in each), key=lambda w: w.log_prob / len(w.pieces) ** penalty)
            assert free[image] == replace(best, calls=3 + 5 + 8)


def _ending() -> Any:
    """A model that finds an end likelier than any piece, everywhere."""
    found = toy.writer("mdc", copy.deepcopy(model("mdc")), WORDS, "fp32", torch.device("cpu"))
    with torch.no_grad():
        found.model.head.weight.zero_()
        found.model.head.weight[toy.EOT] = 1
        found.model.text.norm.bias.fill_(9)
    return found


@pytest.mark.parametrize("more", [{}, {"tokens_per_step": 3}, {"threshold": 0.5}, {"temperature": 1.0}], ids=str)
def test_no_word_that_is_given_is_lost_to_an_end(more: dict[str, object]) -> None:
    """… by a model that ends its captions itself, and would end them at the first gap."""
    templates = [[3, toy.MASK, 5, toy.MASK, 6], [toy.MASK, toy.MASK, 7], [1, toy.MASK]]
    for one in (_ending(), writer("mdc")):
        found = one.filled(one.look(images()), templates, unmasking(12, ends=True, **more), KEYS)
        # the caption ends where its text does, as one does that has a length
        assert found == one.filled(one.look(images()), templates, unmasking(12, **more), KEYS)
        for template, written in zip(templates, found, strict=True):
            assert len(written.pieces) == len(template) and max(written.pieces) < toy.SOT
            assert all(
                piece == given for piece, given in zip(written.pieces, template, strict=True) if given != toy.MASK
            )


def test_what_is_drawn_follows_from_the_seed_and_varies_with_it() -> None:
    one = writer("mdc")
    memory = one.look(images())

    def texts(**more: object) -> list[tuple[int, ...]]:
        return [found.pieces for found in one.unmasked(memory, unmasking(8, **more), KEYS)]

    assert texts(temperature=1.0) == texts(temperature=1.0) != texts(temperature=1.0, seed=1)
    assert texts(temperature=1e-3) == texts()


_SHARES = torch.tensor([[0.6, 0.3, 0.1], [0.5, 0.3, 0.2], [0.4, 0.4, 0.2], [0.9, 0.05, 0.05]])


def _factorised() -> Any:
    """A model in which places do not depend on one another: what place i shows has the probabilities of row i."""
    found = toy.writer("mdc", copy.deepcopy(model("mdc")), WORDS, "fp32", torch.device("cpu"))
    places = len(_SHARES)

    def hidden(memory: object, tokens: Tensor, where: Tensor, rows: Tensor, end: bool = True) -> Tensor:
        return torch.eye(places, toy.BACKBONE.decoder.width).expand(len(tokens), -1, -1)[where]

    found._hidden = hidden  # type: ignore[method-assign]
    with torch.no_grad():
        found.model.head.weight.fill_(-60)
        found.model.head.weight[:3, :places] = _SHARES.log().T
    return found


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("more", [{}, {"tokens_per_step": 2}, {"threshold": 0.45}, {"ancestral": 3}], ids=str)
def test_drawn_captions_follow_the_models_distribution(more: dict[str, object], temperature: float) -> None:
    """The places that are shown first must not be those at which a likely piece was drawn (chi-square over all captions)."""
    one, number = _factorised(), 6000
    shares = _SHARES.double() ** (1 / temperature)
    law = math.prod(
        part.view([-1 if axis == place else 1 for axis in range(4)])
        for place, part in enumerate(shares / shares.sum(dim=1, keepdim=True))
    )
    memory, keys = one.look(images()).of([0] * number), [f"image {n}" for n in range(number)]
    captions = one.unmasked(memory, unmasking(4, temperature=temperature, **more), keys)
    found = torch.tensor([caption.pieces for caption in captions])
    told = _SHARES.log().expand(number, -1, -1).gather(2, found[..., None]).squeeze(2)
    assert torch.allclose(torch.tensor([caption.confidence for caption in captions]).float(), told, atol=1e-5)
    cells = (found @ torch.tensor([27, 9, 3, 1])).bincount(minlength=81)
    expected = number * law.flatten()
    rare = (expected < 5) | (expected == expected.min())  # one cell together
    both = [torch.cat([one[~rare], one[rare].sum()[None]]) for one in (cells.double(), expected)]
    assert chisquare(*(one.numpy() for one in both)).pvalue > 1e-3


@pytest.mark.parametrize("steps", [1, 2, 100])
def test_ancestral_captions_follow_the_law_of_the_sampler(steps: int) -> None:
    """Two pieces, of a model in which they depend on one another: both at one step with chance 1/T, or one after the other."""
    one, number = writer("mdc"), 8000

    def shares(*given: int) -> Tensor:
        tokens = torch.tensor([toy.SOT, *given, toy.EOT])
        return barred(plain("mdc", 0, tokens)).log_softmax(dim=-1).double().exp()[1:3, : toy.SOT]

    alone, pieces = shares(toy.MASK, toy.MASK), range(toy.SOT)
    first_then = torch.stack([alone[0, k] * shares(k, toy.MASK)[1] for k in pieces])
    then_first = torch.stack([alone[1, k] * shares(toy.MASK, k)[0] for k in pieces], dim=1)
    together = alone[0][:, None] * alone[1]
    law = together / steps + (1 - 1 / steps) * (first_then + then_first) / 2
    memory = one.look(images()).of([0] * number)
    how = unmasking(2, temperature=1.0, ancestral=steps, seed=3)
    captions = one.unmasked(memory, how, [f"image {n}" for n in range(number)])
    assert {found.calls for found in captions} == ({1} if steps == 1 else {1, 2})
    found = torch.tensor([caption.pieces for caption in captions])
    cells = (found @ torch.tensor([toy.SOT, 1])).bincount(minlength=toy.SOT**2)
    expected = number * law.flatten() / law.sum()  # which is 1 up to float32
    rare = expected < 5
    both = [torch.cat([one[~rare], one[rare].sum()[None]]) for one in (cells.double(), expected)]
    assert chisquare(*(one.numpy() for one in both)).pvalue > 1e-3


def test_more_ancestral_steps_than_places_call_the_model_at_most_once_a_place() -> None:
    one = writer("mdc")
    memory = one.look(images()).of([0, 1, 2] * 200)
    keys = [str(n) for n in range(600)]
    for steps in (1, 15, 100):
        calls = [found.calls for found in one.unmasked(memory, unmasking(9, temperature=1.0, ancestral=steps), keys)]
        mean = steps * (1 - (1 - 1 / steps) ** 9)
        assert max(calls) <= min(9, steps) and sum(calls) / 600 == pytest.approx(mean, abs=0.25)


# --- eight images, learnt by heart ----------------------------------------------------------------------------------------

_WAYS = [{}, {"tokens_per_step": 3}, {"threshold": 0.5}, {"temperature": 0.3}, {"temperature": 0.3, "ancestral": 100}]


@cache
def _learnt(
    method: str, direction: str | None = None, canvas: int | None = None
) -> tuple[Any, Tensor, list[tuple[int, ...]]]:
    entry = toy.METHODS[method].model_copy(update={"direction": direction})
    found = toy.build_model(entry, toy.BACKBONE, toy.PROTOCOL, toy.V, 16, 0)
    more = {} if canvas is None else {"canvas": canvas}
    objective = toy.build_objective(found, entry, toy.PROTOCOL, toy.MASK, 8, "fp32", **more)
    optimizer = torch.optim.AdamW(found.parameters(), lr=3e-3, weight_decay=0)
    batch, generator = toy.batch(longest=10), torch.Generator().manual_seed(0)
    for _ in range(200):
        noise = {"jitter": torch.rand(8, generator=generator), "uniforms": torch.rand(8, 16, generator=generator)}
        optimizer.zero_grad()
        objective.backward(objective.prepare(replace(batch, **noise)))
        optimizer.step()
    rows = zip(batch.tokens.tolist(), batch.lengths.tolist(), strict=True)
    captions = [tuple(row[1 : length - 1]) for row, length in rows]
    return toy.writer(method, found.eval(), WORDS, "fp32", torch.device("cpu")), batch.images, captions


@pytest.mark.parametrize("more", _WAYS, ids=str)
def test_a_masked_model_that_knows_eight_images_writes_their_captions(more: dict[str, object]) -> None:
    """Free length by the model's own likelihood. Lengths are two apart: a caption without its last piece is about as likely a
    piece as the whole one, since no caption that was learnt says that its image may not have a shorter one."""
    one, pictures, captions = _learnt("mdc")
    memory = one.look(pictures)
    for number, caption in enumerate(captions):
        for lengths in ([len(caption)], [length for length in range(2, 14) if (length - len(caption)) % 2 == 0]):
            (found,) = one.unmasked(memory.of([number]), unmasking(*lengths, **more), ["x"])
            assert found.pieces == caption
    # with some of its words given, it finds the others
    templates = [[toy.MASK if n % 2 else piece for n, piece in enumerate(caption)] for caption in captions]
    filled = one.filled(memory, templates, unmasking(1, **more), [str(n) for n in range(8)])
    assert [found.pieces for found in filled] == captions
    # one that has learnt where its captions end, on a canvas, ends them there
    one, pictures, captions = _learnt("mdc", canvas=12)
    found = one.unmasked(one.look(pictures), unmasking(12, ends=True, **more), [str(n) for n in range(8)])
    assert [caption.pieces for caption in found] == captions


@pytest.mark.parametrize("direction", [None, "right_to_left"])
@pytest.mark.parametrize("width", [1, 6])
def test_an_autoregressive_model_that_knows_eight_images_writes_their_captions(
    width: int, direction: str | None
) -> None:
    one, pictures, captions = _learnt("arc", direction)
    found = one.searched(one.look(pictures), beam(width, 12), reverse=direction is not None)
    assert [caption.pieces for caption in found] == captions
    for caption, written in zip(captions, found, strict=True):
        steps = tuple(range(1, len(caption) + 1))
        assert written.step == (steps if direction is None else steps[::-1])


def test_a_model_that_ends_its_captions_sees_no_end_and_may_write_it_anywhere_but_first() -> None:
    """Equation 6 on a canvas: SOT and masks alone; what stands behind the first EOT is cut."""
    one = writer("mdc")
    how = unmasking(6, ends=True)

    def allowed(scores: Tensor) -> Tensor:
        scores[:, toy.SOT] = scores[1, toy.EOT] = -math.inf
        return scores[:, : toy.MASK]

    for image, found in enumerate(one.unmasked(one.look(images()), how, KEYS)):
        written, steps, sure = _equation_6(image, [toy.SOT, *[toy.MASK] * 6], allowed)
        end = written.index(toy.EOT) if toy.EOT in written else 6
        assert found.pieces == tuple(written[:end]) and found.step == tuple(steps[:end])
        assert found.log_prob == pytest.approx(sum(sure[: end + 1]), abs=1e-4)
    # with an end that is likely everywhere, captions have one piece and never none
    likely = _ending()
    assert {len(found.pieces) for found in likely.unmasked(likely.look(images()), how, KEYS)} == {1}
