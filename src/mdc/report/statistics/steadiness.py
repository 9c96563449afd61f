"""Training stability: variation of the loss and the gradient norm from step to step.

The loss falls during training, so its plain standard deviation would measure the progress. Everything here is computed from
pseudo-residuals: a logged value minus the straight line through its two neighbours. They do not depend on level or slope, need
no bandwidth, and their mean square is an unbiased estimate of the variance of independent noise around a straight trend
(Gasser, Sroka and Jennen-Steinmetz, Residual variance and residual pattern in nonlinear regression, Biometrika 73, 1986). Slow
changes are trend, so this is the noise of single steps: the batch, the draw of t and the masks. N: logged steps after warm-up.

Every estimate is of one or several runs. Three seeds or more: Student's t over their values. One or two: a moving-block
bootstrap over the logged steps (Künsch, 1989), circular so that the ends count as much as the middle (Politis and Romano,
1992), about these runs only. It gives the standard error; the interval is Student's with blocks minus one degrees of freedom
for each run, because percentiles of so few blocks are too narrow.

Variation is estimated as a logarithm: its interval stays above 0, and means over seeds are geometric, so the ratio of two is the
mean ratio. A comparison is a log ratio, which is 0 where both vary equally, as :func:`mdc.report.statistics.claims.decide` needs
it; :func:`factors` gives the ratio.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mdc.plan.records import UserError
from mdc.report.statistics.estimate import LEVEL, Component, Estimate, Kind, bounded
from mdc.report.statistics.estimate import over_seeds as student

Floats = NDArray[np.float64]

#: logged steps that a residual needs
NEEDED = 3
#: the fewest residuals with an interval: two blocks of five
NEEDED_FOR_INTERVAL = 10
#: logged steps in the running median (the local level), robust to a spike of two steps
LEVEL_WINDOW = 7
#: the fewest seeds with an interval over seeds
SEEDS = 3


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

    A spike does not raise its own level, and a monotone trend does not bias it.
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

    UserError if a level is not above 0.
    """
    return np.asarray((residuals(steps, values) / _positive_level(values)[1:-1]) ** 2)


def spike(values: ArrayLike) -> float:
    """The largest value over its local level: 1 where nothing stands out. UserError as ``relative_squares``."""
    return float((np.asarray(values, dtype=np.float64) / _positive_level(values)).max())


def _positive_level(values: ArrayLike) -> Floats:
    local = level(values)
    if not (local > 0).all():
        raise UserError("stability: a level of 0 or below, which nothing can be a share or multiple of")
    return local


# --- one run or several ---------------------------------------------------------------------------------------------


def variation(
    runs: Sequence[ArrayLike],
    power: float,
    draws: int,
    level: float = LEVEL,
    against: Sequence[ArrayLike] | None = None,
) -> Estimate:
    """log of (mean q)^power, q (M,) of each run; minus that of ``against``, paired by seed, with ``p``.

    ``power``: 1 for a variance, 0.5 for a deviation. With one number per run, q (1,), fewer than three seeds have no interval.
    Both runs of a seed saw the same batch at a step, so both are resampled by the same blocks. UserError if nothing varies, or
    without bounds.
    """
    series = [np.atleast_2d(np.asarray(run, dtype=np.float64)) for run in runs]
    if against is not None:
        series = [np.vstack(pair) for pair in zip(series, against, strict=True)]
    if not all(0 < mean < math.inf for run in series for mean in run.mean(axis=1)):
        raise UserError(
            "stability: a loss or gradient norm that never varies, or without bounds; nothing can be compared"
        )

    def of(means: Floats) -> Floats:
        logs = power * np.log(means)
        return np.asarray(logs[0] if against is None else logs[0] - logs[1])

    return _over_runs(series, of, draws, level, contrast=against is not None)


def share(runs: Sequence[ArrayLike], draws: int, level: float = LEVEL) -> Estimate:
    """The mean share of logged steps that are True, (N,) bool of each run, with an interval within 0 to 1.

    Neighbouring steps are correlated, so an exact interval for independent steps would be too narrow. A share that never varies
    has no interval.
    """
    series = [np.atleast_2d(np.asarray(run, dtype=np.float64)) for run in runs]
    return _over_runs(series, lambda means: means[0], draws, level, contrast=False).within(0, 1)


def _over_runs(
    runs: Sequence[Floats], of: Callable[[Floats], Floats], draws: int, level: float, contrast: bool
) -> Estimate:
    """The mean over ``runs`` of a number ``of`` the means (K, …) of a run's series (K, M)."""
    values = [float(of(run.mean(axis=1))) for run in runs]
    if len(runs) >= SEEDS:
        return student(values, level=level, contrast=contrast)
    lengths = [run.shape[1] for run in runs]
    kind: Kind = "steps" if max(lengths) > 1 else "seeds"
    result = Estimate(float(np.mean(values)), None, None, sum(lengths), len(runs), kind)
    if min(lengths) < NEEDED_FOR_INTERVAL:
        return result
    # each estimate has the same seed, so no number depends on others
    rng, variance, freedom = np.random.default_rng(0), 0.0, 0
    for run in runs:
        block = block_length(run.shape[1])
        blocks = run.shape[1] // block
        freedom += blocks - 1
        # blocks vary about the series' own mean: Bessel's correction
        variance += float(of(_block_means(run, rng, draws, block, blocks)).var()) * blocks / (blocks - 1)
    variance /= len(runs) ** 2
    part = Component(variance if variance > 1e-20 else 0.0, freedom)  # rounding alone makes no variance
    return bounded(replace(result, draws=draws, of_items=part, level=level), contrast)


def block_length(count: int) -> int:
    """Logged steps in a block: 2 · count^(1/3), at least five.

    The rate is that of Hall, Horowitz and Jing (1995). A pseudo-residual shares values with two on either side, and a block must
    hold them: with the factor 1, intervals of 100 to 200 steps covered 91 to 93 %, with 2 they cover 94 %.
    """
    return max(5, math.ceil(2 * count ** (1 / 3)))


def _block_means(series: Floats, rng: np.random.Generator, draws: int, block: int, blocks: int) -> Floats:
    """Means (K, draws) of resamples of ``series`` (K, M): ``blocks`` blocks of ``block``, the same for all rows."""
    closed = np.concatenate([np.zeros((len(series), 1)), np.cumsum(np.hstack([series, series[:, :block]]), 1)], 1)
    sums = closed[:, block : block + series.shape[1]] - closed[:, : series.shape[1]]
    starts = rng.integers(0, series.shape[1], size=(draws, blocks))
    # a difference of running sums may miss 0 by a rounding
    means = np.stack([row[starts].mean(1) for row in sums]) / block
    return np.asarray(np.maximum(means, np.finfo(np.float64).tiny))


def factors(log: Estimate) -> Estimate:
    """The exponential of a logarithm, without standard error and ``p``."""
    low, high = (None if end is None else math.exp(end) for end in (log.low, log.high))
    return replace(log, value=math.exp(log.value), low=low, high=high, p=None, of_seeds=None, of_items=None)


# --- expected variation ---------------------------------------------------------------------------------------------


def mean_inverse_t(low: float, high: float, least_t: float) -> float:
    """E[1/t] for t ~ U[low, high], 0 <= low <= high <= 1, where a t below ``least_t`` > 0 counts as ``least_t``."""
    start, end = max(low, least_t), max(high, least_t)
    if high == low:
        return 1 / start
    return (max(0.0, min(high, least_t) - low) / least_t + math.log(end / start)) / (high - low)


def loss_variance(low: float, high: float, tokens: float, least_t: float) -> float:
    """Variance of the loss from the draw of t and masks alone, if each masked token cost one nat.

    The loss is Σ_b (1/t_b) K_b / ``tokens``, K_b ~ Bin(L_b, t_b) of the caption's L_b tokens and ``tokens`` their sum
    over the batch. Given t, its mean is 1 whatever t, and its variance Σ L_b (1 - t_b)/t_b / tokens²; so the variance is
    (E[1/t] - 1) / tokens, stratified t or not. It grows without bound as t nears 0, and as captions get shorter. Its root is the
    coefficient of variation, whatever a token costs.
    """
    # E[1/t] is at least 1, but for a rounding
    return max(0.0, mean_inverse_t(low, high, least_t) - 1) / tokens
