"""Curves held against each other at equal x: lines whose answer is known, and intervals against those of plain means."""

import numpy as np
import pytest
from numpy.typing import NDArray

from mdc.extensions.mc_diffusion.figures.curves import above, common, difference, reached
from mdc.report.statistics.estimate import Component, estimate, over_seeds
from mdc.report.statistics.replicates import Items, Replicates, resampled

Floats = NDArray[np.float64]


def line(slope: float, height: float, low: float = 0.0, high: float = 10.0) -> Floats:
    x = np.linspace(low, high, 4)
    return np.stack([x, height + slope * x], axis=-1)


def test_what_two_curves_share() -> None:
    assert common(line(1, 0, 0, 10)[None], line(1, 0, 4, 20)[None]) == (4, 10)
    assert common(line(1, 0, 0, 3)[None], line(1, 0, 4, 20)[None]) is None


def test_curves_are_compared_where_every_seed_has_both() -> None:
    """The seeds' mean curves share 0 to 8; the second's second seed ends at 6."""
    first = np.stack([line(-1, 10, 0, 10)] * 2)[:, None]
    second = np.stack([line(-1, 10, 0, 10), line(-1, 10, 0, 6)])[:, None]
    found = difference(first, second)
    assert found is not None and found[1] == (0, 6)
    assert found[0] == pytest.approx(np.zeros((2, 1)), abs=0.05)


def test_a_curve_that_falls_is_read_where_it_stands() -> None:
    at = np.array([0.0, 2.5, 7.0, 10.0, 11.0])
    assert reached(line(-1, 10), at)[:4].tolist() == pytest.approx([10, 7.5, 3, 0], abs=0.06)
    assert reached(line(-1, 10), at)[4] == pytest.approx(0)  # its end


def test_a_curve_that_rises_gives_its_best_at_any_less() -> None:
    """More x and more y can be had at once, so nobody would stop earlier."""
    assert reached(line(1, 0), np.array([0.0, 5.0, 10.0])).tolist() == pytest.approx([10, 10, 10])


def test_a_curve_that_turns() -> None:
    curve = np.array([[2.0, 0.0], [6.0, 4.0], [4.0, 8.0], [0.0, 9.0]])
    assert reached(curve, np.array([6.0, 5.0, 4.0, 2.0])).tolist() == pytest.approx([4, 6, 8, 8.5], abs=0.1)


def test_parallel_lines_are_apart_by_their_heights() -> None:
    assert above(line(-1, 13), line(-1, 10), (1, 9)) == pytest.approx(3, abs=0.05)


def _estimated(rng: np.random.Generator, seeds: int, images: int, draws: int, height: float) -> tuple[Floats, Floats]:
    """Curves (S, 1 + R, points, 2) that are estimated from images, and each image's own height (S, images)."""
    own = height + rng.normal(0, 2, (seeds, images)) + rng.normal(0, 0.5, (seeds, 1))
    shares = np.random.default_rng(1).multinomial(images, np.full(images, 1 / images), size=draws) / images
    weights = np.concatenate([np.full((1, images), 1 / images), shares])
    heights = own @ weights.T
    return np.stack([[line(-1, value) for value in row] for row in heights]), own


@pytest.mark.parametrize("seeds", [1, 2, 3, 4])
def test_of_parallel_lines_the_interval_is_that_of_the_heights(seeds: int) -> None:
    images, draws = 60, 400
    (a, own_a), (b, own_b) = (_estimated(np.random.default_rng(n), seeds, images, draws, 10 + n) for n in (1, 0))
    found = difference(a, b)
    assert found is not None
    values, span = found
    interval = estimate(Replicates(values, images, images), contrast=True)
    apart = own_a - own_b
    assert span == common(a[:, 0], b[:, 0]) and interval.value == pytest.approx(apart.mean(), abs=0.02)
    if seeds < 3:
        names = tuple(map(str, range(images)))
        whole = resampled({"apart": [Items(names, row, names) for row in apart]}, 20_000)["apart"]
        expected = estimate(whole, contrast=True)
        assert interval.kind == "bootstrap"
    else:
        items = Component(float(apart.mean(axis=0).var(ddof=1)) / images, images - 1)
        expected = over_seeds(apart.mean(axis=1), items, images, contrast=True)
        assert interval.kind == "seeds and items"
    assert None not in (interval.low, interval.high, expected.low, expected.high)
    assert interval.high - interval.low == pytest.approx(expected.high - expected.low, rel=0.2)
    assert interval.seeds == seeds and interval.n == images and interval.p is not None


def test_curves_that_share_no_x_cannot_be_compared() -> None:
    assert difference(line(1, 0, 0, 1)[None, None], line(1, 0, 2, 3)[None, None]) is None
