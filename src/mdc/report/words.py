"""The sentences that tables, figures and pages share: scales, intervals, p-values, verdicts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mdc.plan.artefacts import declared
from mdc.plan.jobs.shown import ArtefactJob, Statistics, System
from mdc.report.csv_file import signed
from mdc.report.frame import POOLINGS, comparison_name
from mdc.report.statistics.claims import Decision
from mdc.report.statistics.estimate import NOT_COMPARED, Estimate

#: the warning of every scale but the paper's
_WARNING = "not a reproduction of the paper's numbers"
#: how the numbers of a list of claims are to be read
TOGETHER = (
    "An interval is of its difference alone. A verdict also takes the other claims of its table or figure into account, so it "
    "may be inconclusive where the interval leaves out 0."
)


def scale_text(job: ArtefactJob) -> str:
    """The scale in a heading, with the warning."""
    label = job.scale_label
    named = f"scale {label if label.startswith(job.scale) else f'{job.scale} ({label})'}"
    return named if job.scale == "paper" else f"{named}: {_WARNING}"


def heading(job: ArtefactJob) -> str:
    """The heading of a table or figure: ``Table 4. Ablation on t``."""
    name, _, what = declared(job.artefact, job.kind, job.title).title.partition(": ")
    return f"{name}. {what[0].upper()}{what[1:]}" if what else name


def percent(share: float) -> str:
    """0.95 as "95 %"."""
    return f"{100 * share:g} %"


def method(system: System) -> str:
    """A system's row label: without a corpus with its pooling."""
    pooling = "" if system.corpus else f", {POOLINGS.get(system.pooling, system.pooling)}"
    return f"{system.method.label}{pooling}"


def minus(first: str, second: str) -> str:
    """The label of a difference: the common label, or ``first − second``."""
    return first if first == second else f"{first} − {second}"


def _seeds(numbers: Sequence[int]) -> str:
    """``seeds 0 1 2``."""
    return f"seed{'s' if len(numbers) > 1 else ''} {' '.join(map(str, numbers))}"


def intervals(statistics: Statistics, seeds: Sequence[int]) -> str:
    """What the intervals of a table are, by the rules of docs/statistics.md; each row of its csv files says which applied."""
    return (
        f"In brackets the {percent(statistics.level)} interval ({_seeds(seeds)}): of three seeds or more Student's t over seeds "
        f"and test items, about the methods; of fewer a bootstrap of {statistics.bootstrap:,} resamples of test items, or exact, "
        "about these checkpoints only. Without an interval: equal on every resample, or too few items."
    )


def bars(job: ArtefactJob) -> str:
    """The line below a figure of a job's levels: what its bars are, and where its differences are decided."""
    verdicts = f" Verdicts: {job.artefact}_contrasts.csv." if f"{job.artefact}_contrasts.csv" in job.files else ""
    return f"Bars: {percent(job.statistics.level)} intervals ({_seeds(job.seeds)}).{verdicts}"


def p_value(p: float | None) -> str:
    """A p-value with three digits."""
    if p is None:
        return ""
    return f"{p:.3g}" if p >= 1e-300 else "< 1e-300"


def corrected_p(decision: Decision, estimate: Estimate) -> str:
    """A claim's corrected p. A bootstrap has no p below 2 / (resamples + 1), so there it is an upper bound: ``≤ 0.0004``."""
    if decision.p_holm is None:
        return ""
    least = 2 / (estimate.draws + 1) if estimate.kind == "bootstrap" and estimate.draws else 0.0
    return ("≤ " if estimate.p is not None and estimate.p <= least else "") + p_value(decision.p_holm)


def shown(estimate: Estimate, decimals: int = 1) -> str:
    """A difference with its interval, if any: ``+7.1 [5.7, 8.4]``; a dash for one that does not exist."""
    if estimate is NOT_COMPARED:
        return "–"
    value = signed(estimate.value, decimals)
    if estimate.low is None or estimate.high is None:
        return value
    return f"{value} [{signed(estimate.low, decimals)}, {signed(estimate.high, decimals)}]"


def direction(decision: Decision, estimate: Estimate) -> str:
    """A claim's direction with its scope: ``supported (methods)``."""
    return decision.direction + (f" ({estimate.scope})" if estimate is not NOT_COMPARED else "")


def asides(rates: str, images: str) -> str:
    """What follows the direction of a claim: how learning rates were chosen (:attr:`mdc.report.frame.Contrast.rates`), and test
    ``images`` that were trained on (:func:`mdc.report.seen.mark`)."""
    return (f"; {rates}" if rates else "") + (f"; test images trained on: {images}" if images else "")


def size(decision: Decision, decimals: int = 1) -> str:
    """A claim's size with its margin: ``larger (> 2.0)``; a dash where there is no margin."""
    if decision.size == "" or decision.margin is None:
        return "–"
    sign = {"larger": "> ", "equivalent": "< "}.get(decision.size, "margin ")
    return decision.size if decision.size == "not tested" else f"{decision.size} ({sign}{decision.margin:.{decimals}f})"


def detectable(decision: Decision, decimals: int = 1) -> str:
    """The minimum detectable effect of an inconclusive claim."""
    return "" if decision.detectable is None else f"{decision.detectable:.{decimals}f}"


def claims(statistics: Statistics) -> tuple[str, ...]:
    """The meaning of the verdicts of a table, a sentence each."""
    return (
        "Claims that the scale names. Predicted: whether the first side is higher or lower.",
        f"Direction: supported (as predicted) or reversed where p is below {1 - statistics.level:.2g}, else inconclusive, with "
        f"the minimum detectable effect at {percent(statistics.power)} power. In brackets what it is about: these checkpoints, "
        "the methods (three seeds or more), or other random splits of the same images. Behind it how the learning "
        "rates of two methods were chosen: selected for each alike, one for all, or by hand.",
        "Below control: neither side is significantly above its control, so nothing is decided; it counts in the correction.",
        "Size: larger or equivalent where the absolute difference is significantly above or below the margin, else undecided.",
        "p is corrected with Holm's method for the claims of a table, an interval is not."
        if statistics.order == "holm"
        else "Claims are tested in this order, without correction, until the first that is not supported; a size is decided only "
        "if all earlier sizes are.",
    )


@dataclass(frozen=True)
class Claimed:
    """``comparison``: both sides, dataset, column, and whether the first is predicted to be lower; ``difference``: with interval
    and unit; ``about``: the ``direction`` with its scope (:func:`direction`) and images that were trained on; ``detectable``: the
    minimum detectable effect of an inconclusive claim, else ""."""

    comparison: str
    difference: str
    direction: str
    about: str
    size: str
    detectable: str

    @property
    def verdict(self) -> str:
        """``inconclusive (methods), equivalent, minimum detectable 2.3``"""
        size = self.size if self.size not in ("undecided", "not tested") else ""
        least = f"minimum detectable {self.detectable}" if self.detectable else ""
        return ", ".join(part for part in (self.about, size, least) if part)


def claimed(row: Mapping[str, Any]) -> Claimed:
    """A line of a csv file of differences (:data:`mdc.report.frame.CLAIMS`), or the cells of one."""
    numbers = [float(row[key]) for key in ("value", "low", "high") if row[key] not in ("", None)]
    decimals = 1 if max(map(abs, numbers), default=0) >= 1 else 2
    value, *ends = [signed(number, decimals) for number in numbers] or ["–"]
    interval = f"[{', '.join(ends)}]" if len(ends) == 2 else ""
    parts = comparison_name(row), row["condition"], row["label"], "predicted lower" * (row["predicted"] == "lower")
    scope = f" ({row['scope']})" if row["scope"] else ""  # "not compared" has none
    return Claimed(
        comparison=", ".join(filter(None, parts)),
        difference=" ".join(filter(None, (value, interval, row["unit"] if numbers else ""))),
        direction=row["direction"],
        about=row["direction"] + scope + asides(row.get("rates") or "", row.get("seen") or ""),
        size=row["size"],
        detectable=f"{float(row['detectable']):#.2g}".rstrip(".") if row["detectable"] not in ("", None) else "",
    )
