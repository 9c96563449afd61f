"""The LSTM with soft attention against the equations of Xu et al. (2015) written out, word by word."""

import math
from typing import Any

import pytest
import torch
import toy
from torch import Tensor

from mdc.app.demo.attention import looked_at
from mdc.evaluation.predictors.caption_scores import Pair
from mdc.extensions.blog.recurrent.generate import Writer
from mdc.extensions.blog.recurrent.model import RecurrentCaptioner
from mdc.methods.autoregressive.score import Scorer
from mdc.models.text import Vocabulary
from mdc.plan.config.decoding import Beam

LSTM = toy.METHODS["lstm"]
#: as many ids as the toy models have
WORDS = Vocabulary("corpus", tuple(range(toy.V - 2)))
CAPTIONS = [[toy.SOT, 3, 9, 4, toy.EOT], [toy.SOT, 5, 5, 7, 11, 2, toy.EOT], [toy.SOT, 12, toy.EOT]]


def model(seed: int = 0) -> Any:
    return toy.perturbed("lstm", seed, by=0.2)


def images(count: int = 3) -> Tensor:
    return torch.randint(0, 256, (count, 3, 16, 16), generator=torch.Generator().manual_seed(1), dtype=torch.uint8)


@torch.no_grad()
def written_out(one: RecurrentCaptioner, image: Tensor, tokens: list[int]) -> tuple[Tensor, Tensor]:
    """log p (T, V) of what follows each of ``tokens``, and α (T, M): plain sums over annotation vectors and numbers."""
    text: Any = one.text
    width = text.token_embedding.weight.shape[1]
    a = one.visual(one.encoder.prepared(image[None]))[0]  # (M, E)
    of_h, bias = text.recurrent.weight, text.recurrent.bias
    w_h, f_beta, gates_h = of_h[:width], of_h[width], of_h[width + 1 :]
    mean = sum(a) / len(a)
    h = torch.tanh(text.first_hidden.weight @ mean + text.first_hidden.bias)
    c = torch.tanh(text.first_cell.weight @ mean + text.first_cell.bias)
    rows, attentions = [], []
    for token in tokens:
        word = text.token_embedding.weight[token]
        # equations 4 and 5
        e = torch.stack(
            [text.scores.weight[0] @ torch.tanh(text.annotation.weight @ a_i + w_h @ h + bias[:width]) for a_i in a]
        )
        alpha = e.exp() / e.exp().sum()
        # equation 13, and the gate β of section 4.2.1
        beta = 1 / (1 + math.exp(-float(f_beta @ h + bias[width])))
        z = beta * sum(alpha_i * a_i for alpha_i, a_i in zip(alpha, a, strict=True))
        # equations 1 to 3
        gates = text.gates_of_word.weight @ word + gates_h @ h + bias[width + 1 :] + text.gates_of_context.weight @ z
        i, f, o, g = gates.view(4, width)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        h = torch.sigmoid(o) * torch.tanh(c)
        # equation 7
        rows.append(
            (one.head.weight @ (word + text.out_hidden.weight @ h + text.out_context.weight @ z)).log_softmax(0)
        )
        attentions.append(alpha)
    return torch.stack(rows), torch.stack(attentions)


def test_it_is_the_equations_of_the_paper() -> None:
    one = model()
    shown = one.encoder.prepared(images())
    for place, tokens in enumerate(CAPTIONS):
        expected, attention = written_out(one, images()[place], tokens)
        with torch.no_grad():
            hidden, alphas = one.text(torch.tensor([tokens]), *one.text.remember(one.visual(shown[place : place + 1])))
            found, alpha = one.head(hidden)[0].log_softmax(dim=-1), alphas[0]
        assert torch.allclose(found, expected, atol=1e-5) and torch.allclose(alpha, attention, atol=1e-6)
        assert float(alpha.std()) > 1e-3  # it looks somewhere


@pytest.mark.parametrize("parts", [1, 2])
def test_the_loss_is_equation_14_over_the_batchs_tokens(parts: int) -> None:
    """−log p of the pieces and EOT, and λ Σ_i (1 − Σ_t α_ti)² over the steps that write them, whatever a batch is cut into."""
    one = model()
    batch = toy.batch(8)
    objective = toy.build_objective(one, LSTM, toy.PROTOCOL, toy.MASK, 8, "fp32")
    entropy = uneven = 0.0
    for image, tokens, length in zip(batch.images, batch.tokens.tolist(), batch.lengths.tolist(), strict=True):
        real = tokens[:length]
        log_probs, alpha = written_out(one, image, real)
        entropy -= sum(float(log_probs[t, real[t + 1]]) for t in range(length - 1))
        uneven += sum((1 - float(alpha[: length - 1, i].sum())) ** 2 for i in range(alpha.shape[1]))
    count = int((batch.lengths - 1).sum())
    told = toy.backward(objective, batch, parts)
    assert float(told["loss"]) == pytest.approx(entropy / count, rel=1e-4)
    assert float(told["attention"]) == pytest.approx(0.7 * uneven / count, rel=1e-4)
    total, number = objective.evaluate(objective.prepare(batch, held_out=True))
    assert float(total) == pytest.approx(entropy, rel=1e-4) and int(number) == count


def test_both_terms_are_learnt() -> None:
    """The gradient, which the trainer follows, is that of the sum of the two."""
    batch, gradients = toy.batch(8), []
    for weight in (0.0, 0.7, 1.4):
        one = model()
        method = LSTM.model_copy(update={"doubly_stochastic": weight})
        toy.backward(toy.build_objective(one, method, toy.PROTOCOL, toy.MASK, 8, "fp32"), batch)
        gradients.append(one.text.scores.weight.grad)
    none, once, twice = gradients
    assert none is not None and once is not None and twice is not None
    assert not torch.allclose(none, once, atol=1e-6)
    assert torch.allclose(twice - once, once - none, atol=1e-6)


def test_scores_are_the_sums_of_log_probabilities() -> None:
    one = model()
    scorer = Scorer(one, toy.MASK, "fp32", torch.device("cpu"))
    pairs = [Pair(image, tokens, place) for place, tokens in enumerate(CAPTIONS) for image in (0, 2)]
    for pair, found in zip(pairs, scorer.autoregressive(scorer.look(images()), pairs), strict=True):
        log_probs, _ = written_out(one, images()[pair.image], list(pair.tokens))
        expected = [float(log_probs[t, pair.tokens[t + 1]]) for t in range(len(pair.tokens) - 1)]
        assert found.tokens.tolist() == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("width", [1, 4])
def test_a_searched_captions_probability_is_the_equations(width: int) -> None:
    """Beams change places and images leave the search one by one, and each keeps its own state."""
    one = model()
    with torch.no_grad():  # an end that is often among the likeliest
        one.head.weight[toy.EOT] = one.head.weight[: toy.SOT].topk(4, dim=0).values[-1] * 0.8
    writer = Writer(one, WORDS, "fp32", torch.device("cpu"))
    found = writer.searched(writer.look(images(5)), Beam(kind="beam", num_beams=width, min_tokens=1, max_tokens=9))
    assert width == 1 or len({len(caption.pieces) for caption in found}) > 1
    for image, caption in enumerate(found):
        tokens = [toy.SOT, *caption.pieces, toy.EOT]
        log_probs, _ = written_out(one, images(5)[image], tokens)
        expected = [float(log_probs[t, tokens[t + 1]]) for t in range(len(tokens) - 1)]
        assert caption.log_prob == pytest.approx(sum(expected), abs=1e-3)
        if width == 1:
            # greedy: no piece but SOT was likelier where one was written
            rows = log_probs[: len(tokens) - 1].clone()
            rows[:, toy.SOT] = -math.inf
            rows[0, toy.EOT] = -math.inf
            assert rows.argmax(dim=1).tolist()[: len(caption.pieces)] == list(caption.pieces)


def test_the_demo_shows_alpha() -> None:
    one = model()
    writer = Writer(one, WORDS, "fp32", torch.device("cpu"))
    seen = writer.look(images(1))
    (found,) = writer.searched(seen, Beam(kind="beam", num_beams=1, min_tokens=4, max_tokens=4))
    _, alpha = written_out(one, images(1)[0], [toy.SOT, *found.pieces])
    assert torch.allclose(looked_at(one, writer.vocabulary, seen, found), alpha[:-1], atol=1e-5)
