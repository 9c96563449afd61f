"""Verdicts on the primary contrasts of one artefact (docs/statistics.md)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from mdc.plan.records import UserError
from mdc.report.statistics.contrasts import holm
from mdc.report.statistics.interval import COMPARABLE, LEVEL, POWER, Interval

Verdict = Literal["held", "opposite", "comparable", "cannot be told"]


@dataclass(frozen=True)
class Decision:
    """The verdict on one primary contrast.

    ``p``: as the interval has it; ``p_holm``: corrected for all primary contrasts of the artefact.
    ``smallest_detectable``: see :func:`smallest_detectable`, in the interval's unit.
    """

    p: float
    p_holm: float
    verdict: Verdict
    smallest_detectable: float


def decide(
    primary: Sequence[Interval], level: float = LEVEL, comparable: float = COMPARABLE, power: float = POWER
) -> list[Decision]:
    """One decision for each of ``primary``, in their order; the claim is that each difference is above 0.

    Their p-values are Holm-corrected for exactly these. *held*: the corrected p is below 1 - ``level`` and the difference
    above 0. *opposite*: the same with the difference below 0. *comparable*: otherwise, if the paired interval lies within
    ± ``comparable`` (in the intervals' unit). Else *cannot be told*. UserError if one is a level, which has no p.
    """
    values = [_p(interval) for interval in primary]
    alpha = round(1 - level, 12)  # 1 - 0.95 is a little above 0.05
    return [
        Decision(
            p,
            corrected,
            _verdict(interval, corrected, alpha, comparable),
            smallest_detectable(interval, level, power),
        )
        for interval, p, corrected in zip(primary, values, holm(values).tolist(), strict=True)
    ]


def smallest_detectable(interval: Interval, level: float = LEVEL, power: float = POWER) -> float:
    """The true difference that a two-sided test with this standard error finds on its own side with probability ``power``.

    The test rejects where |difference| / se exceeds the quantile c of its law at 1 - (1 - ``level``)/2. Of an interval with
    degrees of freedom the law is Student's, and the ratio has the noncentral t distribution with noncentrality
    δ = difference / se; of a bootstrap it is the normal one, shifted by δ. The answer is δ · se with
    P(ratio > c | δ) = ``power``. The correction for other contrasts is left out: it depends on their p-values.
    Infinite where nothing is known of the standard error. UserError if ``power`` does not lie above (1 - ``level``)/2.
    """
    from scipy.optimize import brentq
    from scipy.stats import nct, norm, t

    tail = (1 - level) / 2
    if not tail < power < 1:
        raise UserError(f"power: {power}, must lie above {tail:.3g} and below 1")
    if interval.se is None:
        raise UserError("smallest detectable difference: the interval has no standard error")
    if not math.isfinite(interval.se):
        return math.inf
    df = interval.df
    critical = float(norm.isf(tail) if df is None else t.isf(tail, df))

    def lacking(shift: float) -> float:
        found = norm.sf(critical - shift) if df is None else nct.sf(critical, df, shift)
        return float(found) - power

    upper = critical + 1
    while lacking(upper) < 0:
        upper *= 2
    return float(brentq(lacking, 0.0, upper)) * interval.se


def _p(interval: Interval) -> float:
    if interval.p is None:
        raise UserError("verdict: a level has no p; only a difference can be decided on")
    return interval.p


def _verdict(interval: Interval, p_holm: float, alpha: float, comparable: float) -> Verdict:
    if p_holm < alpha and interval.value != 0:
        return "held" if interval.value > 0 else "opposite"
    if -comparable <= interval.low and interval.high <= comparable:
        return "comparable"
    return "cannot be told"
