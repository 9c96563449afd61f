"""Methods of the paper's neighbours are scored and write as the family of each does; SuperClass is a bag of words."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import toy
from torch import Tensor

from mdc.evaluation.predictors.caption_scores import Pair
from mdc.evaluation.predictors.generate import RunWriter
from mdc.evaluation.predictors.score import RunScorer
from mdc.models.text import Vocabulary
from mdc.plan.config.decoding import Beam, Unmasking
from mdc.plan.config.read import load
from mdc.plan.records import UserError

ROOT = Path(__file__).resolve().parents[3]
METHODS = load(ROOT / "params.yaml").methods
WORDS = Vocabulary("corpus", tuple(range(toy.V - 2)))
CPU = torch.device("cpu")


def _run(method: str) -> Any:
    job = SimpleNamespace(
        method=METHODS[method], method_name=method, backbone=SimpleNamespace(image_size=16), job=f"runs/x/{method}"
    )
    made = toy.model(METHODS[method])
    return SimpleNamespace(job=job, vocabulary=WORDS, context_length=77, checkpoint=method, load=lambda: made)


def _images() -> Tensor:
    return toy.batch(3).images


@pytest.mark.parametrize("name", ["cappa", "bicaptioning", "arc_half"])
def test_they_are_scored_and_write_as_arc(name: str) -> None:
    run = _run(name)
    scorer = RunScorer(run, samples=16, precision="fp32", device=CPU)
    assert scorer.estimators == ("likelihood",)
    batch = toy.batch(3)
    pairs = [Pair(i, batch.tokens[i, :n].tolist()) for i, n in enumerate(batch.lengths.tolist())]
    found = scorer.score("likelihood", scorer.look(_images()), pairs, [])
    model = run.load()
    with torch.no_grad():
        logits = model.logits(model.encoder.prepared(batch.images), batch.tokens, batch.lengths).log_softmax(dim=-1)
    for i, n in enumerate(batch.lengths.tolist()):
        wanted = sum(float(logits[i, place, batch.tokens[i, place + 1]]) for place in range(n - 1))
        assert found[i].value == pytest.approx(wanted, abs=1e-4)
    writer = RunWriter(run, precision="fp32", device=CPU)
    policy = Beam(kind="beam", num_beams=2, min_tokens=1, max_tokens=5)
    assert len(writer.write(writer.look(_images()), policy, ["a", "b", "c"])) == 3
    with pytest.raises(UserError, match=f"{name} writes by .* and cannot fill words in; masked methods can"):
        writer.fill(None, [[0, WORDS.mask_id]], Unmasking(kind="unmask", lengths=[2]), ["a"])


def test_superclass_is_a_bag_of_words_that_neither_tells_orders_apart_nor_writes() -> None:
    run = _run("superclass")
    scorer = RunScorer(run, samples=16, precision="fp32", device=CPU)
    assert scorer.estimators == ("bag_of_words",)
    captions = ([3, 4, 5], [5, 4, 3], [3, 4, 5, 4], [3, 4])
    seen = scorer.look(_images())
    found = scorer.score("bag_of_words", seen, [Pair(1, [toy.SOT, *one, toy.EOT]) for one in captions], [])
    with torch.no_grad():
        log_probs = run.load().log_probabilities(run.load().encoder.prepared(_images()))[1]
    assert found[0].value == pytest.approx(float(log_probs[[3, 4, 5]].sum()), abs=1e-5)
    assert found[0].value == pytest.approx(found[1].value, abs=1e-12) == found[2].value
    assert found[3].value > found[0].value  # fewer words, each of them less than certain
    assert found[2].tokens.shape == (5,) and found[2].tokens[3:].tolist() == [0.0, 0.0]
    with pytest.raises(UserError, match="superclass has no estimator likelihood; allowed: bag_of_words"):
        scorer.score("likelihood", seen, [Pair(0, [toy.SOT, 3, toy.EOT])], [])
    with pytest.raises(UserError, match="a method with the objective superclass writes no captions"):
        RunWriter(run, precision="fp32", device=CPU)
