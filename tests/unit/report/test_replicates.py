"""Replicates: against enumeration of all resamples, brute force and exact laws."""

import itertools
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from mdc.plan.records import UserError
from mdc.report.statistics import replicates
from mdc.report.statistics.estimate import estimate
from mdc.report.statistics.metrics import mean_average_precision
from mdc.report.statistics.replicates import Items, counted, mean, resampled


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def items(of: object, groups: Sequence[object] | None = None, n: int | None = None, **more: object) -> Items:
    """Of values or of a statistic; without groups, items share nothing."""
    count = n if callable(of) else len(np.asarray(of))
    ids = tuple(f"item {place}" for place in range(count or 0))
    labels = ids if groups is None else tuple(map(str, groups))
    return Items(ids, of if callable(of) else np.asarray(of, float), labels, **more)  # type: ignore[arg-type]


def rows(*columns: Items, draws: int = 20_000) -> list[np.ndarray]:
    """The replicates of each, (R,)."""
    found = resampled({place: [one] for place, one in enumerate(columns)}, draws)
    return [found[place].values[0, 1:] for place in range(len(columns))]


def same_law(found: np.ndarray, exact: np.ndarray, within: float = 0.006) -> bool:
    return all(
        abs(np.isclose(found, v).mean() - np.isclose(exact, v).mean()) < within for v in np.unique(exact.round(12))
    )


def test_means_of_groups_have_the_exact_distribution_on_a_small_case() -> None:
    """All 3^3 resamples of three groups of unlike sizes, as a mean and as a statistic of counts."""
    x, groups = np.array([1.0, 0.0, 0.5, 1.0, 1.0]), ("a", "a", "b", "c", "c")
    of_group = {one: x[[g == one for g in groups]] for one in "abc"}
    exact = np.array(
        [np.concatenate([of_group[one] for one in pick]).mean() for pick in itertools.product("abc", repeat=3)]
    )
    as_counts = items(lambda counts: counts @ x / counts.sum(axis=1), groups, n=5)
    by_mean, by_counts = rows(items(x, groups), as_counts, draws=100_000)
    assert same_law(by_mean, exact) and np.allclose(by_mean, by_counts, atol=1e-12)
    assert resampled({"x": [items(x, groups)]}, 5)["x"].values[0, 0] == x.mean()


def test_parts_are_averaged_over_those_that_a_resample_has() -> None:
    x, parts, groups = np.array([1.0, 0.0, 0.0]), ("p", "p", "q"), ("a", "b", "c")
    exact = []
    for pick in itertools.product(range(3), repeat=3):
        means = [x[some].mean() for part in "pq" if (some := [i for i in pick if parts[i] == part])]
        exact.append(np.mean(means))
    (found,) = rows(items(x, groups, parts=parts), draws=100_000)
    assert same_law(found, np.array(exact)) and items(x, groups, parts=parts).value == 0.25


def test_what_shares_images_shares_one_draw() -> None:
    images = [i // 2 for i in range(200)]
    x = np.repeat(rng(1).normal(size=100), 2) + rng(2).normal(size=200) / 10
    one, opposite = items(x, images), items(-x, images)
    statistic = items(lambda counts: -(counts @ x) / counts.sum(axis=1), images, n=200)
    apart = items(x, [f"other {i}" for i in images])
    first, second, third, fourth = rows(one, opposite, statistic, apart)
    assert np.allclose(first, -second, atol=1e-12) and np.allclose(first, -third, atol=1e-12)
    assert abs(np.corrcoef(first, fourth)[0, 1]) < 0.03
    # the analytic standard error: groups of two
    error = x.reshape(100, 2).mean(axis=1).std() / 10
    assert first.std() == pytest.approx(error, rel=0.03)


def test_columns_that_share_no_image_are_drawn_apart_unless_another_joins_them() -> None:
    x = rng(1).normal(size=306)
    small, large = items(x[:6], [i // 2 for i in range(6)]), items(x[6:], [100 + i // 2 for i in range(300)])
    assert not np.isnan(rows(small, large, draws=2000)).any()
    middle = items(np.ones(2), [0, 100])
    assert np.isnan(rows(small, middle, large, draws=2000)[0]).any(), "one draw of 153 groups may lack those of three"


def test_a_column_may_lack_images_that_another_has() -> None:
    """Two images each, three in all: a column is not defined where none of its own was drawn."""
    first, second = rows(items([0.0, 1.0], "ab"), items([0.0, 1.0], "bc"), draws=40_000)
    picks = ["".join(pick) for pick in itertools.product("abc", repeat=3)]
    both = [
        (pick.count("b") / (pick.count("a") + pick.count("b")) + pick.count("c") / (pick.count("b") + pick.count("c")))
        / 2
        for pick in picks
        if set(pick) & set("ab") and set(pick) & set("bc")
    ]
    found = (first + second) / 2
    assert np.isnan(found).mean() == pytest.approx(1 - len(both) / len(picks), abs=0.01)
    assert same_law(found[~np.isnan(found)], np.array(both), within=0.01)


def test_an_average_has_the_variance_of_independent_columns() -> None:
    parts = [rng(1).normal(5, 1, 200), rng(2).normal(1, 3, 50), rng(3).normal(0, 2, 800)]
    columns = {place: [items(x, [f"{place} {i}" for i in range(len(x))])] for place, x in enumerate(parts)}
    found = estimate(mean(list(resampled(columns, 20_000).values())))
    assert found.value == pytest.approx(np.mean([x.mean() for x in parts])) and (found.n, found.groups) == (1050, 50)
    error = np.sqrt(sum(x.var() / len(x) for x in parts) / 9 * 50 / 49)
    assert found.se == pytest.approx(error, rel=0.03)


def test_memory_and_company_decide_nothing_about_a_draw(monkeypatch: pytest.MonkeyPatch) -> None:
    groups = ("a", "b", "a", "c", "c", "c", "d", "b", "e")
    one, other = items(np.arange(9.0), groups), items(np.arange(4.0), "vwxy")
    (whole,) = rows(one, draws=45)
    assert (rows(other, one, draws=45)[1] == whole).all()
    monkeypatch.setattr(replicates, "_CELLS", 70)
    assert [len(block) for block in counted(["a", "b", "c", "d", "e"], 45, 9)] == [7, 7, 7, 7, 7, 7, 3]
    assert (rows(one, draws=45)[0] == whole).all()


def test_only_what_is_biased_is_shifted_to_its_value() -> None:
    """Average precision on resamples is biased upwards; its spread over fresh samples says what the interval should be."""

    def sample(source: np.random.Generator, n: int = 400) -> tuple[np.ndarray, np.ndarray]:
        targets = (source.random((n, 3)) < 0.08).astype(np.int64)
        return source.normal(size=(n, 3)) + 0.7 * targets, targets

    fresh = [float(mean_average_precision(*sample(rng(1000 + seed)))) for seed in range(300)]
    spread = np.std(fresh)
    inside = 0
    for seed in range(40):
        scores, targets = sample(rng(seed))
        one = items(
            lambda counts, s=scores, t=targets: mean_average_precision(s, t, counts), n=len(scores), biased=True
        )
        (row,) = rows(one, draws=300)
        assert row.mean() == pytest.approx(one.value)
        found = estimate(resampled({"x": [one]}, 300)["x"])
        assert found.low is not None and found.high is not None
        assert 0.5 * spread < (found.high - found.low) / (2 * 1.96) < 2 * spread
        inside += found.low <= np.mean(fresh) <= found.high
    assert inside >= 33, f"{inside} of 40 intervals hold the true value; a 95 % interval rarely holds fewer than 33"
    (row,) = rows(replace(one, biased=False), draws=300)
    assert row.mean() > one.value + 0.1 * spread


def test_what_cannot_be_resampled_is_refused_by_its_name() -> None:
    with pytest.raises(UserError, match="the result of item 1 is no finite number"):
        items([1.0, np.nan, 2.0])
    with pytest.raises(UserError, match="not defined on the items"):
        resampled({"x": [items(lambda counts: np.full(len(counts), np.nan), n=9)]}, 5)
    with pytest.raises(UserError, match="5 items in 1 group"):
        resampled({"x": [items(np.ones(5), "aaaaa")]}, 5)
    with pytest.raises(UserError, match="2 items in 1 group"):
        resampled({"x": [items(np.ones(2), "aa")], "y": [items(np.ones(4), "abcd")]}, 5)
    with pytest.raises(UserError, match="x, y: its seeds were not tested on the same items"):
        resampled({("x", "y"): [items(np.ones(2)), items(np.ones(3))]}, 5)
    for of, groups in (([], []), ([1.0, 2.0], "abc")):
        with pytest.raises(UserError, match="one or more, and one value and group each"):
            items(of, groups)
