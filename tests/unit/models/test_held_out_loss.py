"""The loss of held-out captions: that of training on the same captions, however many of them a batch has."""

from __future__ import annotations

import pytest
import toy

from mdc.config import Method

MDC, MCD = toy.METHODS["mdc"], toy.ALL_METHODS["mcd"]

BERT = MDC.model_copy(update={"t_range": (0.2, 0.2), "weight": "none", "normaliser": "masked_tokens"})


def _losses(batch_size: int, held_out: bool, entry: Method = MDC) -> tuple[float, float, float]:
    """Of three captions the sum and the number that ``evaluate`` gives, and the loss that is trained on."""
    model, places = toy.model(entry), {"length": 15} if entry is MCD else {}
    objective = toy.build_objective(model, entry, toy.PROTOCOL, toy.MASK, batch_size, "fp32", 1.0, **places)
    batch = toy.batch(size=3, draws=True)
    batch.caption_hash[2] = batch.caption_hash[0]  # which CLIP leaves out of its negatives
    prepared = objective.prepare(batch, held_out=held_out)
    total, count = objective.evaluate(prepared)
    return float(total), float(count), float(objective.backward(prepared)["loss"])


@pytest.mark.parametrize(
    "entry", [MDC, BERT, MCD, *(toy.METHODS[name] for name in ("arc", "clip"))], ids=lambda entry: entry.label
)
def test_it_is_the_training_loss_of_the_same_captions(entry: Method) -> None:
    total, count, trained = _losses(3, True, entry)
    assert total / count == pytest.approx(trained, rel=1e-5)


@pytest.mark.parametrize("entry", [MDC, MCD])
def test_times_of_a_short_held_out_batch_cover_their_whole_range(entry: Method) -> None:
    """They would else be those of the first strata alone, under which little is masked; in training they are."""
    assert _losses(8, True, entry)[0] == _losses(3, True, entry)[0] == _losses(3, False, entry)[0]
    assert _losses(8, False, entry)[0] != _losses(3, False, entry)[0]
