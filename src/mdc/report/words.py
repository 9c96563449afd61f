"""The sentences that tables and figures share: scales, intervals, p-values, verdicts."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from mdc.plan.config.params import ProtocolStatistics
from mdc.plan.jobs.shown import ArtefactJob, System
from mdc.report.estimates import interval_label
from mdc.report.lines import POOLINGS
from mdc.report.statistics.interval import Interval
from mdc.report.statistics.verdicts import Decision

#: what a mini or a self-made scale must not be taken for
_WARNING = "not a reproduction of the paper's numbers"


def scale_text(job: ArtefactJob) -> str:
    """The scale in a heading, with the warning that belongs to all but the paper's own."""
    label = job.scale_label
    named = f"scale {label if label.startswith(job.scale) else f'{job.scale} ({label})'}"
    return named if job.scale == "paper" else f"{named}: {_WARNING}"


def scale_column(job: ArtefactJob) -> str:
    """The same in a csv of the paper's layout, which has no caption."""
    return job.scale if job.scale == "paper" else f"{job.scale} ({_WARNING})"


def percent(share: float) -> str:
    """0.95 as "95 %"."""
    return f"{100 * share:g} %"


def dataset(system: System) -> str:
    """What a system was trained on."""
    return "none" if system.corpus is None else system.corpus.label


def method(system: System) -> str:
    """What a system is called in a row of its own: without a corpus its pooling is said too."""
    pooling = "" if system.corpus else f", {POOLINGS.get(system.pooling, system.pooling)}"
    return f"{system.method.label}{pooling}"


def minus(first: str, second: str) -> str:
    """What a difference is of: the one thing that both sides are, or the first minus the second."""
    return first if first == second else f"{first} − {second}"


def seeds(numbers: Sequence[int]) -> str:
    """Which seeds the numbers are of."""
    return f"seed{'s' if len(numbers) > 1 else ''} {' '.join(map(str, numbers))}"


def intervals(found: Iterable[Interval], numbers: Sequence[int], where: str = "In brackets the") -> str:
    """How the intervals of a table were made, and with how many resamples."""
    shown = list(found)
    kinds = ", or ".join(dict.fromkeys(interval_label(interval) for interval in shown))
    draws = sorted({interval.draws for interval in shown if interval.draws is not None})
    resampled = ""
    if draws:
        count = f"{draws[0]:,}" if len(draws) == 1 else f"{draws[0]:,} to {draws[-1]:,}"
        resampled = f" The bootstrap used {count} resamples."
    return f"{where} {percent(shown[0].level)} interval, {kinds} ({seeds(numbers)}).{resampled}"


def p_value(p: float, digits: int = 2) -> str:
    """A p-value in scientific notation with so many significant digits: it is never shown as 0.0000."""
    return f"{p:.{digits - 1}e}" if p else "< 1e-300"


def finite(value: float) -> float | None:
    """A number for a csv; None, which is empty there, if it is infinite."""
    return value if math.isfinite(value) else None


def verdict(decision: Decision, unit: str = "points") -> str:
    """A verdict as a table shows it; where nothing can be told, with the difference that would have been found."""
    if decision.verdict != "cannot be told" or not math.isfinite(decision.smallest_detectable):
        return decision.verdict
    return f"cannot be told ({decision.smallest_detectable:.1f} {unit})"


def signed(value: float) -> str:
    """A difference with its sign and one decimal."""
    return f"{round(value, 1) + 0.0:+.1f}".replace("-", "−")


def claims(job: ProtocolStatistics, count: int, unit: str = "points") -> tuple[str, ...]:
    """What the verdicts of a table mean, a sentence each."""
    least = f"{1 - job.level:.2g}"
    return (
        "Each row is a claim that was named before the results were seen: the first of the two is better.",
        f"Held: the corrected p is below {least} and the difference is above 0. Opposite: the corrected p is below {least} "
        f"and the difference is below 0. Comparable: neither, and the {percent(job.level)} interval lies within "
        f"±{job.comparable:g} {unit}. Otherwise it cannot be told; beside it stands the smallest true difference that a test "
        f"with as many seeds and items, uncorrected, finds with a probability of {percent(job.power)}.",
        f"p is corrected with Holm's method for the {count} comparison{'s' if count > 1 else ''} of this table.",
    )
