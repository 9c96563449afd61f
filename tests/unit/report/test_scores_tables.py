"""Ties, mismatched scores and recall, against brute force."""

import itertools
from typing import Any

import numpy as np
import pytest

from mdc.report.held_out import mismatched_scores, prior_subtracted, recall
from mdc.report.scored_sets import log_mean_exp, right_share, scores_of
from mdc.report.statistics.replicates import Items, resampled


def test_a_tie_among_k_counts_one_kth() -> None:
    scores = np.array([[2.0, 1.0, 0.0], [1.0, 1.0, 0.0], [1.0, 1.0, 1.0], [0.0, 1.0, 1.0], [3.0, 3.0, -np.inf]])
    there = np.array([[True] * 3] * 4 + [[True, True, False]])
    assert right_share(scores, there).tolist() == pytest.approx([1, 1 / 2, 1 / 3, 0, 1 / 2])
    assert right_share(scores, there, "right").tolist() == [1, 1, 1, 0, 1]
    assert right_share(scores, there, "wrong").tolist() == [1, 0, 0, 0, 0]
    scores[4, 2] = np.nan
    right_share(scores, there)  # an option that is not there has no score
    scores[0, 1] = np.nan
    with pytest.raises(ValueError, match="no number"):
        right_share(scores, there)


def test_a_table_of_scores_is_read_by_set_estimator_item_and_option() -> None:
    rows = [(n, k, how) for n in "ab" for k in range(2 if n == "a" else 3) for how in ("likelihood", "cosine")]
    order = np.random.default_rng(2).permutation(len(rows)).tolist()
    table: dict[str, list[Any]] = {"set": ["s"] * len(rows), "item": [], "option": [], "estimator": []}
    for n in order:
        for name, value in zip(("item", "option", "estimator"), rows[n], strict=True):
            table[name].append(value)
    numbers = "score error constant constant_error mismatched_error mismatched_covariance mismatched_mean_error"
    for place, name in enumerate((*numbers.split(), "pieces", "unseen", "same_as")):
        table[name] = [100 * place + n for n in order]
    table |= {"others": [[n, -n] for n in order], "image": [f"i{x}" for x in table["item"]], "group": table["item"]}
    one = scores_of(table)["s"]
    assert set(one.by) == {"likelihood", "cosine"} and one.images == tuple(f"i{item}" for item in one.items)
    assert one.present.tolist() == [[True, True, item == "b"] for item in one.items]
    for n, (item, option, how) in enumerate(rows):
        at = one.items.index(item), option
        assert (one.by[how].own[at], one.by[how].constant_error[at]) == (n, 300 + n)
        assert one.by[how].others[at].tolist() == [n, -n] and one.pieces[at] // 2 == (700 + n) // 2
    gap = one.items.index("a"), 2
    assert (one.by["cosine"].own[gap], one.by["cosine"].error[gap], one.pieces[gap]) == (-np.inf, 0, 0)
    table["score"][3] = np.nan
    with pytest.raises(ValueError, match=f"a score of item {table['item'][3]} is no number"):
        scores_of(table)


def test_the_log_of_the_mean_probability() -> None:
    values = np.array([[-1000.0, -1001.0], [0.0, -3.0]])
    expected = [-1000 + np.log((1 + np.exp(-1)) / 2), np.log((1 + np.exp(-3)) / 2)]
    assert log_mean_exp(values).tolist() == pytest.approx(expected)


def test_recall_is_its_mean_over_all_orders_of_ties() -> None:
    rng = np.random.default_rng(0)
    for _ in range(30):
        scores = rng.integers(0, 3, size=(1, 5)).astype(float)
        right = rng.random((1, 5)) < 0.4
        right[0, 0] = True
        for count in (1, 2, 3):
            found = []
            for order in itertools.permutations(range(5)):
                ranked = sorted(order, key=lambda place, order=order: (-scores[0, place], order.index(place)))
                found.append(any(right[0, place] for place in ranked[:count]))
            assert recall(scores, right, count)[0] == pytest.approx(np.mean(found))


def test_mismatched_scores_leave_out_the_image_that_is_asked_about() -> None:
    """Against a loop, also where one image alone has all of the probability, or two have the same."""
    rng = np.random.default_rng(3)
    scores = rng.normal(size=(7, 7)) * 40
    scores[2, 1] = 900.0
    scores[4, 3] = scores[5, 3] = 300.0
    for image, caption in itertools.product(range(7), range(7)):
        others = [scores[other, caption] for other in range(7) if other != image]
        top = max(others)
        expected = top + np.log(np.mean([np.exp(other - top) for other in others]))
        assert mismatched_scores(scores)[image, caption] == pytest.approx(expected, rel=1e-12)
        assert prior_subtracted(scores, 0.5)[image, caption] == pytest.approx(scores[image, caption] - 0.5 * expected)


def test_mismatched_scores_of_some_images_are_of_as_many_others() -> None:
    scores = np.random.default_rng(4).normal(size=(6, 6))
    found = mismatched_scores(scores, 2)
    for image in range(6):
        pairs = itertools.combinations([other for other in range(6) if other != image], 2)
        means = [np.log(np.exp(scores[list(pair)]).mean(axis=0)) for pair in pairs]
        assert any(found[image] == pytest.approx(mean) for mean in means)
    assert mismatched_scores(scores, 5) == pytest.approx(mismatched_scores(scores))


def test_a_column_of_parts_is_the_mean_of_its_parts_and_so_are_its_resamples() -> None:
    """Against a bootstrap written out: images drawn with replacement, the plain mean over the parts that are there."""
    rng = np.random.default_rng(1)
    values = rng.random(60)
    groups = tuple(f"g{n // 2}" for n in range(60))
    parts = tuple("a" if n < 50 else "b" for n in range(60))
    column = Items(tuple(map(str, range(60))), values, groups, parts)
    assert column.value == pytest.approx((values[:50].mean() + values[50:].mean()) / 2)
    found = resampled({"column": [column]}, 4000)["column"].values[0, 1:]
    brute = []
    for _ in range(4000):
        picks = rng.integers(0, 30, size=30)
        rows = np.concatenate([[2 * g, 2 * g + 1] for g in picks])
        means = [values[some].mean() for some in (rows[rows < 50], rows[rows >= 50]) if len(some)]
        brute.append(np.mean(means))
    assert found.mean() == pytest.approx(np.mean(brute), abs=0.005)
    assert found.std() == pytest.approx(np.std(brute), rel=0.06)
