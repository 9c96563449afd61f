"""Estimates from encoders' items: which interval they get, against numpy, scipy and resamples by hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from mdc.plan.records import UserError
from mdc.report import estimates
from mdc.report.estimates import Estimator
from mdc.report.items import ProbeItems
from mdc.report.statistics import exact
from mdc.report.statistics.metrics import mean_average_precision

Encoders = list[dict[str, ProbeItems]]


def encoders(rng: np.random.Generator, seeds: int, share: float, n: int = 400, of_image: int = 1) -> Encoders:
    """Right or wrong on columns x and y, ``of_image`` items to an image; both columns show the same images."""
    ids = tuple(map(str, range(n)))
    groups = None if of_image == 1 else tuple(f"image {i // of_image}" for i in range(n))
    return [
        {k: ProbeItems(ids, value=(rng.random(n) < share).astype(float), groups=groups) for k in "xy"}
        for _ in range(seeds)
    ]


def values(group: Encoders, column: str = "x") -> np.ndarray:
    """(S, N)."""
    return np.array([member[column].value for member in group])


def test_one_seeds_level_is_exact_and_its_difference_a_paired_bootstrap() -> None:
    rng = np.random.default_rng(1)
    a, b = encoders(rng, 1, 0.7), encoders(rng, 1, 0.6)
    (x,), (y,) = values(a), values(b)
    estimator = Estimator(draws=20_000)
    assert estimator.level(a, ["x"]) == exact.proportion(int(x.sum()), 400).times(100)
    gap = estimator.difference(a, b, ["x"])
    error = 100 * (x - y).std() / 20
    assert gap.value == pytest.approx(100 * (x.mean() - y.mean()))
    assert (gap.kind, gap.seeds, gap.n, gap.draws) == ("bootstrap", 1, 400, 20_000)
    assert gap.se == pytest.approx(error, rel=0.03)
    assert gap.high - gap.low == pytest.approx(2 * 1.96 * error, rel=0.05)
    average = estimator.difference(a, b, ["x", "y"])
    both = 100 * np.hypot((x - y).std() / 20, (values(a, "y") - values(b, "y")).std() / 20) / 2
    assert average.se == pytest.approx(both, rel=0.03) and average.n == 800
    wide, narrow = (Estimator(draws=2000, level=level).difference(a, b, ["x"]) for level in (0.99, 0.8))
    assert wide.low < narrow.low < narrow.high < wide.high and narrow.level == 0.8


@pytest.mark.parametrize("columns", [["x"], ["x", "y"]])
def test_three_seeds_count_seeds_and_items(columns: list[str]) -> None:
    rng = np.random.default_rng(3)
    a, b = encoders(rng, 4, 0.7), encoders(rng, 4, 0.66)
    ours = Estimator(draws=20_000).difference(a, b, columns)
    apart = [values(a, k) - values(b, k) for k in columns]
    per_seed = np.mean([d.mean(axis=1) for d in apart], axis=0)
    of_seeds = per_seed.var(ddof=1) / 4
    of_items = [d.mean(axis=0).var(ddof=1) / 400 / len(columns) ** 2 for d in apart]
    variance = of_seeds + sum(of_items)
    df = variance**2 / (of_seeds**2 / 3 + sum(v**2 for v in of_items) / 399)
    assert ours.value == pytest.approx(100 * per_seed.mean())
    assert ours.se == pytest.approx(100 * variance**0.5, rel=0.02)
    assert ours.df == pytest.approx(df, rel=0.1)
    reach = np.hypot(stats.t(3).ppf(0.975) * of_seeds**0.5, stats.t(399).ppf(0.975) * sum(of_items) ** 0.5)
    assert (ours.high - ours.value, ours.value - ours.low) == (pytest.approx(100 * reach, rel=0.02),) * 2
    assert ours.p is not None
    edge = Estimator(draws=20_000, level=1 - ours.p).difference(a, b, columns)
    assert min(abs(edge.low), abs(edge.high)) == pytest.approx(0, abs=1e-6)
    assert (ours.kind, ours.seeds, ours.n, ours.draws) == ("seeds and items", 4, 400 * len(columns), 20_000)
    level = Estimator().level(a, columns)
    assert level.kind == "seeds and items" and level.p is None
    # paired by seed: another order is another pairing
    assert Estimator().difference(a, b[::-1], columns).se != Estimator().difference(a, b, columns).se


@pytest.mark.parametrize("seeds", [1, 2, 3])
def test_items_of_one_image_are_resampled_together(seeds: int) -> None:
    rng = np.random.default_rng(4)
    a = encoders(rng, seeds, 0.7, 400, of_image=4)
    if seeds < 3:
        level = Estimator(draws=20_000).level(a, ["x"])
        images = values(a).mean(axis=0).reshape(100, 4).mean(axis=1)
        assert level.kind == "bootstrap" and level.se == pytest.approx(100 * images.std() / 10, rel=0.03)
    alike = [{"x": m["x"], "y": replace(m["x"], value=1 - np.asarray(m["x"].value))} for m in a]
    # x and y are each other's opposite image by image, so that their average is always a half
    average = Estimator(draws=500).level(alike, ["x", "y"])
    assert (average.value, average.low, average.high) == pytest.approx((50, 50, 50))


def multi_label(n: int = 60, images: int | None = None) -> tuple[list[Encoders], np.ndarray]:
    """Two encoders, of three seeds each, and the targets."""
    rng = np.random.default_rng(4)
    ids, targets = tuple(map(str, range(n))), (rng.random((n, 2)) < 0.4).astype(np.int64)
    groups = None if images is None else tuple(str(i % images) for i in range(n))

    def encoder(good: float) -> dict[str, ProbeItems]:
        scores = targets * good + rng.normal(size=(n, 2))
        return {"x": ProbeItems(ids, scores=scores, targets=targets, groups=groups)}

    return [[encoder(good) for _ in range(3)] for good in (2.0, 0.0)], targets


@pytest.mark.parametrize("seeds", [1, 3])
@pytest.mark.parametrize("images", [None, 20])
def test_multi_label_is_resampled_average_precision(seeds: int, images: int | None) -> None:
    sides, targets = multi_label(images=images)
    sides = [side[:seeds] for side in sides]
    gap = Estimator(draws=2000).difference(*sides, ["x"])
    # by hand: the same items for both sides in every resample, and with images all of an image's
    draws = np.random.default_rng(9)
    if images is None:
        counts = np.stack([np.bincount(draws.integers(0, 60, 60), minlength=60) for _ in range(1000)]).astype(float)
    else:
        picks = (np.bincount(draws.integers(0, 20, 20), minlength=20) for _ in range(1000))
        counts = np.stack([np.tile(row, 3) for row in picks]).astype(float)

    def precision(side: Encoders, counts: np.ndarray) -> np.ndarray:
        return np.array([mean_average_precision(m["x"].scores, targets, counts) for m in side])

    a, b = (precision(side, counts).mean(axis=0) for side in sides)
    per_seed = np.subtract(*(precision(side, np.ones((1, 60)))[:, 0] for side in sides))
    assert gap.value == pytest.approx(100 * per_seed.mean())
    if seeds == 1:
        units = images or 60
        longer = (units / (units - 1)) ** 0.5 * stats.t(units - 1).ppf(0.975) / stats.norm.ppf(0.975)
        low, high = 100 * (longer * (np.quantile(a - b, [0.025, 0.975]) - (a - b).mean()) + per_seed.mean())
        assert (gap.low, gap.high) == (pytest.approx(low, abs=2), pytest.approx(high, abs=2))
    else:
        units = images or 60
        variance = (a - b).var(ddof=1) * units / (units - 1) + per_seed.var(ddof=1) / 3
        assert gap.se == pytest.approx(100 * variance**0.5, rel=0.08)


def test_a_number_does_not_depend_on_those_made_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    sides, _ = multi_label()
    one = [side[:1] for side in sides]
    for side in one:
        side[0]["y"] = ProbeItems(side[0]["x"].ids, value=np.arange(60) % 2 * 1.0)
    asked: list[Callable[[Estimator], object]] = [
        lambda e: e.level(one[0], ["x"]),
        lambda e: e.difference(one[0], one[1], ["y", "x"]),
        lambda e: e.difference(one[0], one[1], ["x"]),
        lambda e: e.level(sides[1], ["x"]),
    ]
    fresh = [ask(Estimator(200)) for ask in asked]
    together, scored = Estimator(200), []

    def counted(scores: np.ndarray, targets: np.ndarray, counts: np.ndarray) -> np.ndarray:
        scored.append(len(counts))
        return np.asarray(mean_average_precision(scores, targets, counts))

    monkeypatch.setattr(estimates, "mean_average_precision", counted)
    assert [ask(together) for ask in asked] == fresh == [ask(together) for ask in asked]
    assert sum(scored) == 4 * 201, "each encoder is scored once"
    # what is kept of scored resamples is bounded, and decides nothing
    monkeypatch.setattr(estimates, "_KEPT", 2)
    small = Estimator(200)
    assert [ask(small) for ask in reversed(asked)] == fresh[::-1]
    assert len(small._memo) == 2


@pytest.mark.parametrize("seeds", [1, 2, 3])
def test_a_difference_is_one_combination(seeds: int) -> None:
    rng = np.random.default_rng(3)
    a, b = encoders(rng, seeds, 0.5, 80), encoders(rng, seeds, 0.5, 80)
    estimator = Estimator(draws=500)
    apart, double = estimator.difference(a, b, ["x"]), estimator.combination([(2.0, a), (-2.0, b)], ["x"])
    expected = apart.times(2)
    for name in ("value", "low", "high", "p", "se"):
        assert getattr(double, name) == pytest.approx(getattr(expected, name))
    with pytest.raises(UserError, match="as many seeds"):
        estimator.combination([(1.0, a), (1.0, b), (1.0, a * 2)], ["x"])


def test_other_items_cannot_be_compared() -> None:
    rng = np.random.default_rng(5)
    a, b = encoders(rng, 3, 0.5), encoders(rng, 3, 0.5)
    one = b[2]["x"]
    for other in (replace(one, ids=one.ids[::-1]), replace(one, groups=one.ids)):
        b[2]["x"] = other
        for refused in (lambda: Estimator().difference(a, b, ["x"]), lambda: Estimator().level(b, ["x"])):
            with pytest.raises(UserError, match=r"benchmark x: .* same items"):
                refused()
