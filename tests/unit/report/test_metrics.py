"""Metrics against scikit-learn and against counting by hand."""

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, balanced_accuracy_score

from mdc.plan.records import UserError
from mdc.report.statistics import metrics


def test_top1_counts_a_tie_as_a_share() -> None:
    scores = [[3, 1, 0], [1, 1, 0], [2, 2, 2], [0, 5, 5], [0, 0, 1], [0, 0, 0]]
    assert metrics.per_item_top1(scores, [0, 1, 2, 0, 1, 1]).tolist() == [1, 1 / 2, 1 / 3, 0, 0, 1 / 3]


@pytest.mark.parametrize("seed", range(5))
def test_top1_is_argmax_and_mean_per_class_balanced_accuracy(seed: int) -> None:
    rng = np.random.default_rng(seed)
    scores, target = rng.normal(size=(200, 8)), rng.choice([0, 2, 3, 7], p=[0.7, 0.1, 0.1, 0.1], size=200)
    assert metrics.per_item_top1(scores, target).tolist() == (scores.argmax(1) == target).tolist()
    guess = np.where(rng.random(200) < 0.6, target, 2)
    ours = metrics.mean_per_class_accuracy(guess == target, target)
    assert ours == pytest.approx(balanced_accuracy_score(target, guess), abs=1e-12)


@pytest.mark.parametrize("levels", [2, 5, 1000])
@pytest.mark.parametrize("seed", range(5))
def test_average_precision_is_scikit_learns(seed: int, levels: int) -> None:
    rng = np.random.default_rng(seed)
    scores = rng.integers(0, levels, 120) / levels - 0.3  # few levels: many ties
    target = rng.random(120) < 0.2
    found = metrics.mean_average_precision(scores[:, None], target[:, None])
    assert found == pytest.approx(average_precision_score(target, scores), abs=1e-12)


def test_mean_average_precision_leaves_out_columns_without_a_positive() -> None:
    rng = np.random.default_rng(0)
    scores, targets = rng.normal(size=(60, 4)), (rng.random((60, 4)) < 0.3).astype(int)
    targets[:, 1] = 0
    expected = np.mean([average_precision_score(targets[:, k], scores[:, k]) for k in (0, 2, 3)])
    assert metrics.mean_average_precision(scores, targets) == pytest.approx(expected, abs=1e-12)
    assert np.isnan(metrics.mean_average_precision(scores, np.zeros((60, 4), int)))


def test_counts_are_repeated_items() -> None:
    """A metric of counts equals the metric of the written-out resample."""
    rng = np.random.default_rng(1)
    n = 40
    scores, targets = rng.integers(0, 6, (n, 3)) / 6, (rng.random((n, 3)) < 0.15).astype(int)
    counts = rng.multinomial(n, np.full(n, 1 / n), size=25)
    precision = metrics.mean_average_precision(scores, targets, counts)
    for r in range(25):
        items = np.repeat(np.arange(n), counts[r])
        assert precision[r] == pytest.approx(metrics.mean_average_precision(scores[items], targets[items]), nan_ok=True)


def test_what_has_no_answer_is_refused() -> None:
    with pytest.raises(UserError, match="not a number"):
        metrics.per_item_top1([[np.nan, 1.0]], [0])
    with pytest.raises(UserError, match="must lie in 0 to 1"):
        metrics.per_item_top1([[0.0, 1.0]], [2])
    with pytest.raises(UserError, match="must be 0 or 1"):
        metrics.mean_average_precision([[0.0], [1.0]], [[2], [0]])
