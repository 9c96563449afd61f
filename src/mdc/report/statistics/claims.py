"""Estimates → claims: direction and size of differences that were named beforehand (docs/statistics.md)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mdc.plan.records import UserError
from mdc.report.statistics.estimate import LEVEL, NOT_COMPARED, POWER, Estimate, estimate, half_width
from mdc.report.statistics.replicates import Replicates

Direction = Literal[
    "supported",
    "reversed",
    "inconclusive",
    "below control",
    "too few groups",
    "no variation",
    "not tested",
    "not compared",
]
Size = Literal["", "equivalent", "larger", "undecided", "not tested"]
Order = Literal["holm", "fixed"]

#: the margin of a caption metric, as a share of the second side's score above its control
CAPTION_MARGIN = 0.1


@dataclass(frozen=True)
class Claim:
    """That a difference is above 0. ``margin``: in its unit; None if there is none, and so no size. ``above``, ``below``: the
    difference plus and minus the margin. ``below_control``: neither side is above its control, so that it has no verdict."""

    difference: Estimate
    margin: float | None = None
    above: Estimate | None = None
    below: Estimate | None = None
    below_control: bool = False

    @property
    def p(self) -> float | None:
        """The p of its direction, before correction: 1 below control; None without one."""
        return 1.0 if self.below_control and not self.difference.few else self.difference.p


@dataclass(frozen=True)
class Decision:
    """The result of a claim. ``p``, ``p_size``: of its direction and size; ``p_holm``, ``p_size_holm``: corrected for the other
    claims of its table. ``detectable``: the minimum detectable effect of an inconclusive claim (:func:`minimum_detectable`)."""

    direction: Direction
    size: Size
    margin: float | None
    p: float | None = None
    p_holm: float | None = None
    p_size: float | None = None
    p_size_holm: float | None = None
    detectable: float | None = None


def claim(replicates: Replicates, margin: float | Replicates | None, level: float = LEVEL) -> Claim:
    """The claim that ``replicates`` is above 0. An estimated margin has the same resamples."""
    difference = estimate(replicates, level, contrast=True)
    if margin is None:
        return Claim(difference)
    if isinstance(margin, float):
        margin = replicates.of(lambda values: np.full_like(values, margin))
    above, below = (estimate(shifted, level, contrast=True) for shifted in (replicates + margin, replicates - margin))
    return Claim(difference, float(margin.values[:, 0].mean()), above, below)


def caption_margin(second: Replicates, control: Replicates, level: float = LEVEL) -> Replicates | None:
    """A tenth of the second side's score above its control; None if the interval of that is not above 0."""
    above = second - control
    low = estimate(above, level, contrast=True).low
    return None if low is None or low <= 0 else above.times(CAPTION_MARGIN)


def decide(
    claims: Sequence[Claim], level: float = LEVEL, power: float = POWER, order: Order = "holm"
) -> list[Decision]:
    """One decision for each claim of a table, in order.

    Direction and size are two families, each at 1 - ``level``. Holm's correction, over the claims that have a p; or,
    with ``order`` "fixed", each claim is tested without correction, until the first that is not supported, and later
    ones are not tested; a size is decided only if all earlier sizes are.

    *Below control*: neither side is above its control; its p is 1, and it counts in the correction. If such claims were left
    out, tables of six true null hypotheses would hold a false verdict in up to 9 of 100.

    *Supported*: p is below 1 - ``level`` and the difference above 0; *reversed*: the same below 0;
    else *inconclusive*. *Equivalent*: the difference is less than the margin (two one-sided tests, each at 1 -
    ``level``); *larger*: it is more (two-sided); else *undecided*."""
    alpha = round(1 - level, 12)  # 1 - 0.95 is a little above 0.05
    ps = [claim.p for claim in claims]
    sizes = [None if claim.p is None else _size(claim) for claim in claims]
    corrected, size_corrected = _corrected(ps, order), _corrected([size and size[1] for size in sizes], order)
    family = 1 if order == "fixed" else max(1, sum(p is not None for p in ps))
    decisions: list[Decision] = []
    for claim, size, p, p_size in zip(claims, sizes, corrected, size_corrected, strict=True):
        known = claim.margin, claim.p
        if order == "fixed" and decisions and decisions[-1].direction != "supported":
            # without a margin there is no size
            decisions.append(Decision("not tested", "not tested" if size else "", *known, p_size=size and size[1]))
            continue
        direction = _direction(claim, p, alpha)
        named: Size = "" if size is None or p_size is None else size[0] if p_size < alpha else "undecided"
        least = minimum_detectable(claim.difference, alpha / family, power) if direction == "inconclusive" else None
        decisions.append(Decision(direction, named, *known, p, size and size[1], p_size, least))
    return decisions


def _corrected(values: Sequence[float | None], order: Order) -> list[float | None]:
    """Corrected p-values, None where there is none; in a fixed order the greatest p so far."""
    tested = [p for p in values if p is not None]
    adjusted = iter(
        holm(tested).tolist() if order == "holm" else np.maximum.accumulate(tested).tolist() if tested else []
    )
    return [None if p is None else float(next(adjusted)) for p in values]


def _direction(claim: Claim, p: float | None, alpha: float) -> Direction:
    difference = claim.difference
    if claim.below_control and p is not None:
        return "below control"
    if difference is NOT_COMPARED:
        return "not compared"
    if p is None:
        # no standard error, as for a run of few logged steps
        return "too few groups" if difference.few or difference.se is None else "no variation"
    if p < alpha and difference.value != 0:
        return "supported" if difference.value > 0 else "reversed"
    return "inconclusive"


def _size(claim: Claim) -> tuple[Size, float] | None:
    """The size that its value suggests, and its p; None without a margin."""
    value, margin, above, below = claim.difference.value, claim.margin, claim.above, claim.below
    if claim.below_control and margin is not None:
        return "undecided", 1.0
    if margin is None or above is None or below is None or above.p is None or below.p is None:
        return None
    if abs(value) < margin:
        # two one-sided tests: half of a two-sided p
        return "equivalent", max(above.p, below.p) / 2
    return "larger", below.p if value > 0 else above.p


def minimum_detectable(estimate: Estimate, alpha: float, power: float = POWER) -> float | None:
    """The true difference that a two-sided test at ``alpha`` detects, with the right sign, with probability ``power``, given this
    standard error.

    The test rejects where |difference| exceeds the half-width at 1 - ``alpha``, c standard errors. The ratio of the two
    has about a noncentral t distribution with noncentrality δ = difference / se; the answer is δ · se with P(ratio > c
    | δ) = ``power``. None without a standard error. UserError if ``power`` is not above ``alpha`` / 2."""
    from scipy.optimize import brentq
    from scipy.special import nctdtr

    if not alpha / 2 < power < 1:
        raise UserError(f"power: {power}, must lie above {alpha / 2:.3g} and below 1")
    if not estimate.se or estimate.df is None:
        return None
    critical, df = half_width(estimate.parts, 1 - alpha) / estimate.se, estimate.df

    def lacking(shift: float) -> float:
        return 1 - float(nctdtr(df, shift, critical)) - power

    upper = critical + 1
    while lacking(upper) < 0:
        upper *= 2
    return float(brentq(lacking, 0.0, upper)) * estimate.se


def holm(pvalues: ArrayLike) -> NDArray[np.float64]:
    """Holm's step-down adjusted p-values, (M,) in the input's order; reject where they are below the level.

    The i-th smallest of M p-values (i from 1) times (M - i + 1), made monotone, at most 1 (Holm, A simple sequentially
    rejective multiple test procedure, 1979). UserError if one is not in 0 to 1.
    """
    p = np.asarray(pvalues, dtype=np.float64)
    if p.ndim != 1 or not ((p >= 0) & (p <= 1)).all():
        raise UserError("p-values: each must lie in 0 to 1")
    order = np.argsort(p, kind="stable")
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1)))
    return adjusted
