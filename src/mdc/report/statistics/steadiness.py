"""How unsteady a training is: how far the loss and the gradient norm of one step lie from those of the steps beside it.

A loss falls while it is watched, so its plain standard deviation would measure how much was learnt. Everything here
starts from pseudo-residuals instead: a logged value against the straight line through its two neighbours. They are blind
to a level and a slope, need no bandwidth, and of independent noise around a straight trend their mean square is the
variance without bias (Gasser, Sroka and Jennen-Steinmetz, Residual variance and residual pattern in nonlinear
regression, Biometrika 73, 1986). What changes slowly is trend to them, so this is the noise of single steps: the batch,
the draw of t and the masks. N: logged steps after warm-up.

A value comes with its interval. A comparison is the interval of the logarithm of a ratio, which is 0 where both vary as much, so
that :func:`mdc.report.statistics.claims.decide` takes it as it is; :func:`factors` gives it as a ratio.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mdc.plan.records import UserError
from mdc.report.statistics.estimate import LEVEL, Component, Estimate, Kind, bounded
from mdc.report.statistics.estimate import over_seeds as student

Floats = NDArray[np.float64]

#: a residual needs a logged step on either side
NEEDED = 3
#: fewer residuals than this say nothing of their own uncertainty: two blocks of five
NEEDED_FOR_INTERVAL = 10
#: logged steps in the running median that is called the local level: enough to outvote a spike of two steps
LEVEL_WINDOW = 7


# --- one run --------------------------------------------------------------------------------------------------------


def residuals(steps: ArrayLike, values: ArrayLike) -> Floats:
    """Pseudo-residuals (N - 2,) of ``values`` (N,) logged at ``steps`` (N,), in the values' unit.

    r_i = (a x_{i-1} + b x_{i+1} - x_i) / √(1 + a² + b²), where a + b = 1 put the line at step i. Independent noise of
    variance σ² gives E[r_i²] = σ². UserError with fewer than ``NEEDED`` steps, or steps that do not increase.
    """
    at, x = np.asarray(steps, dtype=np.float64), np.asarray(values, dtype=np.float64)
    if len(at) < NEEDED or at.shape != x.shape:
        raise UserError(f"stability: {len(at)} steps and {len(x)} values, needed: as many, at least {NEEDED}")
    if not (np.diff(at) > 0).all() or not np.isfinite(x).all():
        raise UserError("stability: steps must increase and values be finite")
    a = (at[2:] - at[1:-1]) / (at[2:] - at[:-2])
    b = 1 - a
    return np.asarray((a * x[:-2] + b * x[2:] - x[1:-1]) / np.sqrt(1 + a**2 + b**2))


def level(values: ArrayLike, window: int = LEVEL_WINDOW) -> Floats:
    """Centred running median (N,), over fewer values at the ends, always symmetric about the point.

    A median, not a mean: a spike must not lift the level that it is measured against; and of a rising or falling series
    the symmetric median is the value itself, so a trend does not bias it.
    """
    x = np.asarray(values, dtype=np.float64)
    place = np.arange(len(x))
    reach = np.minimum(window // 2, np.minimum(place, len(x) - 1 - place))
    return np.array([np.median(x[i - r : i + r + 1]) for i, r in zip(place, reach, strict=True)])


def squares(steps: ArrayLike, values: ArrayLike) -> Floats:
    """r² (N - 2,); their mean is the variance around the trend, in the values' unit squared."""
    return np.asarray(residuals(steps, values) ** 2)


def relative_squares(steps: ArrayLike, values: ArrayLike) -> Floats:
    """(r / local level)² (N - 2,); the root of their mean is the coefficient of variation around the trend.

    UserError if a level is not above 0, where a share of it has no meaning.
    """
    apart, local = residuals(steps, values), level(values)[1:-1]
    if not (local > 0).all():
        raise UserError("stability: a level of 0 or below, which nothing can be a share of")
    return np.asarray((apart / local) ** 2)


def spike(values: ArrayLike) -> float:
    """The largest value over its local level: 1 where nothing stands out. UserError as ``relative_squares``."""
    local = level(values)
    if not (local > 0).all():
        raise UserError("stability: a level of 0 or below, which nothing can be a multiple of")
    return float((np.asarray(values, dtype=np.float64) / local).max())


def share_over(values: ArrayLike, limit: float) -> float:
    """The share of logged steps whose value lies above ``limit``."""
    return float((np.asarray(values, dtype=np.float64) > limit).mean())


# --- several runs ---------------------------------------------------------------------------------------------------


def over_seeds(values: Sequence[float], level: float = LEVEL) -> Estimate:
    """Geometric mean of positive values, one for each seed, with Student's interval on the log scale from three seeds on.

    On that scale an interval stays above 0, and a ratio of two means is the mean ratio. Of fewer seeds nothing is known
    but the value.
    """
    logs = np.log(values)
    if len(logs) < 3:
        return _unknown(float(np.exp(logs.mean())), len(logs), len(logs), "seeds")
    return _exponential(student(logs, level=level))


def ratio_over_seeds(values: Sequence[float], reference: Sequence[float], level: float = LEVEL) -> Estimate:
    """log of ``values`` over ``reference``, paired by seed: mean, and from three seeds on Student's interval and p."""
    logs = np.log(values) - np.log(reference)
    if len(logs) < 3:
        return _unknown(float(logs.mean()), len(logs), len(logs), "seeds")
    return student(logs, level=level, contrast=True)


def share_over_seeds(shares: Sequence[float], level: float = LEVEL) -> Estimate:
    """Plain mean of shares, one for each seed, with Student's interval (within 0 to 1) from three seeds on.

    Equal shares, such as 0 in every seed, have none: an interval without width would claim to be certain.
    """
    if len(shares) < 3 or len(set(shares)) == 1:
        return _unknown(float(np.mean(shares)), len(shares), len(shares), "seeds")
    return _within(student(shares, level=level))


def factors(log_ratio: Estimate) -> tuple[float, float | None, float | None]:
    """Value, low and high of a comparison as factors of the reference: the exponentials of its log ratio."""
    low, high = (None if end is None else math.exp(end) for end in (log_ratio.low, log_ratio.high))
    return math.exp(log_ratio.value), low, high


def _unknown(value: float, n: int, seeds: int, kind: Kind) -> Estimate:
    """A value of whose uncertainty nothing can be said."""
    return Estimate(value, None, None, n, seeds, kind)


def _exponential(of_logs: Estimate) -> Estimate:
    """From the log scale, where the standard error stays behind."""
    value, low, high = factors(of_logs)
    return replace(of_logs, value=value, low=low, high=high, of_seeds=None, of_items=None)


def _within(share: Estimate) -> Estimate:
    """A share's interval ends at 0 and 1."""
    if share.low is None or share.high is None:
        return share
    return replace(share, low=max(0.0, share.low), high=min(1.0, share.high))


# --- one or two runs: what their own steps say ----------------------------------------------------------------------


def block_length(count: int) -> int:
    """Logged steps in a block: count^(1/3) (Hall, Horowitz and Jing, 1995), at least five.

    A pseudo-residual shares values with two on either side, and a block must hold them.
    """
    return max(5, math.ceil(count ** (1 / 3)))


def over_steps(
    contributions: Sequence[ArrayLike],
    rng: np.random.Generator,
    draws: int,
    power: float,
    level: float = LEVEL,
) -> Estimate:
    """(mean q)^power with an interval that is about these runs only; q (M,) a run, one or two of them.

    ``power``: 1 for a variance, 0.5 for a deviation. Moving-block bootstrap over the logged steps (Künsch, 1989), the
    series closed to a circle so that its ends count as much as its middle (Politis and Romano, 1992). It gives the
    standard error of the logarithm; the interval is Student's with as many degrees of freedom as there are blocks
    beyond one for each run, because percentiles of so few blocks are too narrow. Several runs: their geometric mean. With fewer
    than ``NEEDED_FOR_INTERVAL`` contributions a run, only the value is known.
    """
    return _exponential(_of_logs(contributions, None, rng, draws, power, level))


def ratio_over_steps(
    contributions: Sequence[ArrayLike],
    reference: Sequence[ArrayLike],
    rng: np.random.Generator,
    draws: int,
    power: float,
    level: float = LEVEL,
) -> Estimate:
    """log of the ratio of two such values, with ``p``. Paired: at a step both runs of a seed saw the same batch, so both
    are resampled by the same blocks. UserError if they were not logged at as many steps."""
    return _of_logs(contributions, reference, rng, draws, power, level)


def _of_logs(
    runs: Sequence[ArrayLike],
    against: Sequence[ArrayLike] | None,
    rng: np.random.Generator,
    draws: int,
    power: float,
    level: float,
) -> Estimate:
    value, variance, freedom, n = 0.0, 0.0, 0, 0
    for seed, run in enumerate(runs):
        series = [np.asarray(run, dtype=np.float64)]
        if against is not None:
            series.append(np.asarray(against[seed], dtype=np.float64))
        if len({len(one) for one in series}) > 1:
            raise UserError("stability: runs that were not logged at as many steps cannot be compared step by step")
        if any(one.mean() <= 0 for one in series):
            raise UserError("stability: nothing varies, so no variation can be compared")
        count = len(series[0])
        value += _log_of_mean(np.stack(series)[:, None, :].mean(-1))[0]
        block = block_length(count)
        blocks = count // block
        freedom, n = freedom + blocks - 1, n + count
        if count >= NEEDED_FOR_INTERVAL:
            logs = _log_of_mean(_block_means(np.stack(series), rng, draws, block, blocks))
            # blocks drawn from this series vary about its own mean: too little by one part in as many as there are
            variance += float(logs.var()) * blocks / (blocks - 1)
    value = power * value / len(runs)
    if any(np.size(run) < NEEDED_FOR_INTERVAL for run in runs):
        return _unknown(value, n, len(runs), "steps")
    part = _part(power**2 * variance / len(runs) ** 2, freedom)
    found = Estimate(value, None, None, n, len(runs), "steps", draws=draws, of_items=part, level=level)
    return bounded(found, contrast=against is not None)


def _part(variance: float, freedom: int) -> Component:
    """Of steps; rounding alone makes no variance."""
    return Component(variance if variance > 1e-20 else 0.0, freedom)


def _log_of_mean(means: Floats) -> Floats:
    """log of the first row, less that of the second if there is one."""
    logs = np.log(means)
    return np.asarray(logs[0] - logs[1] if len(logs) == 2 else logs[0])


def _block_means(series: Floats, rng: np.random.Generator, draws: int, block: int, blocks: int) -> Floats:
    """Means (K, draws) of resamples of ``series`` (K, M): ``blocks`` blocks of ``block``, the same for all rows."""
    closed = np.concatenate([np.zeros((len(series), 1)), np.cumsum(np.hstack([series, series[:, :block]]), 1)], 1)
    sums = closed[:, block : block + series.shape[1]] - closed[:, : series.shape[1]]
    starts = rng.integers(0, series.shape[1], size=(draws, blocks))
    # a difference of running sums may miss 0 by a rounding
    means = np.stack([row[starts].mean(1) for row in sums]) / block
    return np.asarray(np.maximum(means, np.finfo(np.float64).tiny))


def share_over_steps(over: Sequence[ArrayLike], rng: np.random.Generator, draws: int, level: float = LEVEL) -> Estimate:
    """A share of logged steps, the mean over one run or two, whose steps ``over`` (N,) bool counts, with an interval
    that is about these runs only.

    Neighbouring steps are alike, so blocks of them are resampled, as in :func:`over_steps`: an exact interval of
    independent steps would be too narrow. A share of 0 or 1, or of too few steps, has none."""
    value, variance, freedom, n = 0.0, 0.0, 0, 0
    for run in over:
        series = np.asarray(run, dtype=np.float64)
        block = block_length(len(series))
        blocks = len(series) // block
        value, freedom, n = value + float(series.mean()), freedom + blocks - 1, n + len(series)
        if blocks > 1:
            means = _block_means(series[None], rng, draws, block, blocks)[0]
            variance += float(means.var()) * blocks / (blocks - 1)
    count = len(over)
    if any(np.size(run) < NEEDED_FOR_INTERVAL for run in over):
        return _unknown(value / count, n, count, "steps")
    part = _part(variance / count**2, freedom)
    found = Estimate(value / count, None, None, n, count, "steps", draws=draws, of_items=part, level=level)
    return _within(bounded(found, contrast=False))


# --- what the mathematics of the loss lets expect -------------------------------------------------------------------


def mean_inverse_t(low: float, high: float, least_t: float) -> float:
    """E[1/t] for t ~ U[low, high], where a t below ``least_t`` counts as ``least_t``."""
    if not 0 <= low <= high <= 1 or not 0 < least_t <= 1:
        raise UserError(f"range of t: [{low}, {high}] with least t {least_t}; needed: 0 <= low <= high <= 1, 0 < least")
    start, end = max(low, least_t), max(high, least_t)
    if high == low:
        return 1 / start
    return (max(0.0, min(high, least_t) - low) / least_t + math.log(end / start)) / (high - low)


def loss_variance(low: float, high: float, tokens: float, least_t: float, cost: float = 1.0) -> float:
    """Variance of the loss from the draw of t and masks alone, if each masked token cost ``cost`` nats.

    The loss is Σ_b (1/t_b) cost K_b / ``tokens``, K_b ~ Bin(L_b, t_b) of the caption's L_b tokens and ``tokens`` their
    sum over the batch. Given t its mean is ``cost`` whatever t, and its variance cost² Σ L_b (1 - t_b)/t_b / tokens²; so
    the variance is cost² (E[1/t] - 1) / tokens, stratified t or not. It grows without bound as t nears 0, and it
    grows as captions get shorter. Its root over ``cost`` is the coefficient of variation.
    """
    # E[1/t] is at least 1, but for a rounding
    return cost**2 * max(0.0, mean_inverse_t(low, high, least_t) - 1) / tokens
