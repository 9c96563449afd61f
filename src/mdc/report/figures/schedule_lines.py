"""How unsteady each noise schedule trains: every number of it, and what it is of the reference schedule's."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mdc.plan.jobs.shown import SchedulesJob, ShownRun, Statistics
from mdc.plan.records import UserError
from mdc.report.statistics import steadiness
from mdc.report.statistics.claims import Claim, Decision, decide
from mdc.report.statistics.estimate import Estimate

LOSS, NORM, SPIKE, VARIANCE, NORM_VARIANCE, OVER = (
    "loss_cv",
    "grad_norm_cv",
    "grad_norm_largest_over_median",
    "loss_variance",
    "grad_norm_variance",
    "grad_norm_share_over_clip",
)


@dataclass(frozen=True)
class Track:
    """One run's log. ``steps`` (N,), ``loss`` (N,) nats per token, ``norm`` (N,) of the gradient before clipping.

    ``tokens``: supervised in a batch, middle of the log's; with ``least_t`` it says what the draw of t alone lets
    expect, and is None where that has no closed form (another weight or normaliser than the paper's).
    """

    run: ShownRun
    steps: tuple[int, ...]
    loss: tuple[float, ...]
    norm: tuple[float, ...]
    tokens: float | None = None
    least_t: float = 1e-3

    @property
    def method(self) -> str:
        """Its method's key."""
        return self.run.method.key

    def after(self, warmup: int) -> Track:
        """Only what was logged at full learning rate."""
        kept = [i for i, step in enumerate(self.steps) if step > warmup]
        loss, norm = (tuple(series[i] for i in kept) for series in (self.loss, self.norm))
        return replace(self, steps=tuple(self.steps[i] for i in kept), loss=loss, norm=norm)


@dataclass(frozen=True)
class Line:
    """One line of ``figure_schedules.csv``: a number of steadiness of one schedule, all its seeds together.

    ``run``: the schedule's first run. Deviations and shares are shares of 1, ``loss_variance`` is in nats²,
    ``grad_norm_variance`` in the norm's unit squared. Over seeds the mean is geometric, but for the share over the clipping
    norm. ``ratio``: the logarithm of what it is of the reference's. ``decision``: of the primary comparisons, whose claim is
    that the schedule varies more than the reference. ``expected``: from the draw of t and masks alone
    (:func:`mdc.report.statistics.steadiness.loss_variance`).
    """

    run: ShownRun
    statistic: str
    value: Estimate
    records: str
    logged_steps: int
    ratio: Estimate | None = None
    decision: Decision | None = None
    expected: float | None = None

    @property
    def place(self) -> tuple[str, str]:
        """The keys of its corpus and backbone."""
        return self.run.corpus.key, self.run.backbone.key

    @property
    def key(self) -> str:
        """Of its system: corpus, backbone and method."""
        return "/".join((*self.place, self.run.method.key))

    @property
    def claimed(self) -> str:
        """Its corpus and method, as claims name them."""
        return f"{self.run.corpus.key}/{self.run.method.key}"

    @property
    def detectable(self) -> float | None:
        """The ratio above 1 that would have been found; None if there is no decision, or nothing could have been."""
        found = None if self.decision is None else self.decision.detectable
        return None if found is None else float(np.exp(found))


def measure(tracks: Sequence[Track], job: SchedulesJob) -> list[Line]:
    """Every number of every corpus, backbone and schedule.

    The primary comparisons are those of the loss and of the gradient norm of each schedule that the job names with the
    reference. UserError if runs to compare differ in seeds or logged steps, or have too few steps after the
    warm-up.
    """
    lines = [line for here in places(tracks).values() for line in _of_place(here, job)]
    primary = [i for i, line in enumerate(lines) if line.statistic in (LOSS, NORM) and line.claimed in job.primary]
    how = job.statistics
    # no margin was named beforehand, so no ratio has a size
    claims = [Claim(ratio) for i in primary if (ratio := lines[i].ratio) is not None]
    decisions = decide(claims, how.level, how.power, how.order)
    for i, decision in zip(primary, decisions, strict=True):
        lines[i] = replace(lines[i], decision=decision)
    return lines


def places(tracks: Sequence[Track]) -> dict[tuple[str, str], list[Track]]:
    """The runs of each corpus and backbone, by schedule in the table's order, then by seed."""
    order = list(dict.fromkeys(track.method for track in tracks))
    found: dict[tuple[str, str], list[Track]] = {}
    for track in tracks:
        found.setdefault((track.run.corpus.key, track.run.backbone.key), []).append(track)
    return {place: sorted(here, key=lambda t: (order.index(t.method), t.run.seed)) for place, here in found.items()}


def place_name(run: ShownRun) -> str:
    """A corpus and backbone as people call them."""
    return f"{run.corpus.label}, {run.backbone.label}"


def _counted(here: Sequence[Track]) -> list[Track]:
    """The runs of one place after their longest warm-up, all logged at the same steps."""
    warmup = max(track.run.warmup_steps for track in here)
    first = here[0]
    for other in here:
        if other.steps != first.steps:
            raise UserError(
                f"schedules: {first.run.job} has {_steps(first)} and {other.run.job} has {_steps(other)}; needed: the "
                "same in both"
            )
    kept = [track.after(warmup) for track in here]
    if len(kept[0].steps) < steadiness.NEEDED:
        raise UserError(
            f"schedules: {first.run.job} has {len(kept[0].steps)} logged steps after its warm-up of {warmup}; needed: "
            f"{steadiness.NEEDED}, and {steadiness.NEEDED_FOR_INTERVAL + 2} for an interval of a single run; "
            "log more often (log_every) or train for longer"
        )
    return kept


def _steps(track: Track) -> str:
    return f"{len(track.steps)} logged steps up to {track.steps[-1] if track.steps else 0}"


def _of_place(here: Sequence[Track], job: SchedulesJob) -> list[Line]:
    reference = job.reference
    runs: dict[str, list[Track]] = {}
    for track in _counted(here):
        runs.setdefault(track.method, []).append(track)
    where = place_name(here[0].run)
    seeds = {method: [track.run.seed for track in group] for method, group in runs.items()}
    if reference not in runs:
        raise UserError(f"schedules: {where} has no run of {reference!r}, to which the others are compared")
    for method, found in seeds.items():
        if found != seeds[reference]:
            raise UserError(
                f"schedules: {where} has seeds {found} of {method} and {seeds[reference]} of {reference}; "
                "needed: the same, because schedules are compared seed by seed"
            )
    return [
        line
        for method, group in runs.items()
        for line in _of_schedule(group, None if method == reference else runs[reference], job.statistics)
    ]


#: statistic -> contributions of one run's logged steps, and the power of their mean that is the statistic
_OF_STEPS: dict[str, tuple[Callable[[Track], Any], float]] = {
    LOSS: (lambda track: steadiness.relative_squares(track.steps, track.loss), 0.5),
    VARIANCE: (lambda track: steadiness.squares(track.steps, track.loss), 1.0),
    NORM: (lambda track: steadiness.relative_squares(track.steps, track.norm), 0.5),
    NORM_VARIANCE: (lambda track: steadiness.squares(track.steps, track.norm), 1.0),
}


def _of_schedule(group: Sequence[Track], reference: Sequence[Track] | None, how: Statistics) -> list[Line]:
    found: dict[str, tuple[Estimate, Estimate | None]] = {}
    for name, (contributions, power) in _OF_STEPS.items():
        squares = [_named(track, contributions) for track in group]
        against = None if reference is None else [_named(track, contributions) for track in reference]
        found[name] = _varies(squares, against, power, how)
    spikes, others = ([_named(t, lambda one: steadiness.spike(one.norm)) for t in g] for g in (group, reference or ()))
    largest = steadiness.over_seeds(spikes, how.level)
    if largest.low is not None:
        largest = replace(largest, low=max(1.0, largest.low))  # no largest value lies below its level
    found[SPIKE] = largest, steadiness.ratio_over_seeds(spikes, others, how.level) if others else None
    shares = _share_over_clip(group, how)
    if shares is not None:
        found[OVER] = shares, None
    return [
        Line(
            run=group[0].run,
            statistic=name,
            value=value,
            records=" ".join(track.run.job for track in (*group, *(reference or ()))),
            logged_steps=len(group[0].steps),
            ratio=ratio,
            expected=_expected(group[0]) if name == LOSS else None,
        )
        for name, (value, ratio) in found.items()
    ]


def _named(track: Track, statistic: Callable[[Track], Any]) -> Any:
    """A refusal names its run."""
    try:
        return statistic(track)
    except UserError as error:
        raise UserError(f"{track.run.job}: {error}") from None


def _varies(
    squares: Sequence[Any], against: Sequence[Any] | None, power: float, how: Statistics
) -> tuple[Estimate, Estimate | None]:
    """A root or mean of squares, and the log of its ratio to the reference: over seeds if there are three."""
    if not all(0 < one.mean() < math.inf for one in (*squares, *(against or ()))):
        raise UserError(
            "schedules: a loss or gradient norm that never varies, or without bounds; nothing can be compared"
        )
    if len(squares) >= 3:
        values = [float(one.mean() ** power) for one in squares]
        others = [float(one.mean() ** power) for one in against or ()]
        ratio = steadiness.ratio_over_seeds(values, others, how.level) if others else None
        return steadiness.over_seeds(values, how.level), ratio
    # each estimate starts from the same generator, so no number depends on which others were made before it
    asked = how.bootstrap, power, how.level
    value = steadiness.over_steps(squares, np.random.default_rng(0), *asked)
    if against is None:
        return value, None
    return value, steadiness.ratio_over_steps(squares, against, np.random.default_rng(0), *asked)


def _share_over_clip(group: Sequence[Track], how: Statistics) -> Estimate | None:
    """None unless every run was clipped."""
    clipped = [(track.norm, limit) for track in group if (limit := track.run.clip_norm) is not None]
    if len(clipped) < len(group):
        return None
    if len(group) >= 3:
        shares = [steadiness.share_over(norm, limit) for norm, limit in clipped]
        return steadiness.share_over_seeds(shares, how.level)
    over = [np.asarray(norm) > limit for norm, limit in clipped]
    return steadiness.share_over_steps(over, np.random.default_rng(0), how.bootstrap, how.level)


def _expected(first: Track) -> float | None:
    """The coefficient of variation of the loss that the draw of t and masks would give alone.

    With t down to 0 it rests on rare draws of large weight: few logged steps show less than that, and then a spike.
    """
    if first.tokens is None or first.run.t_range is None:
        return None
    return math.sqrt(steadiness.loss_variance(*first.run.t_range, tokens=first.tokens, least_t=first.least_t))
