"""Training stability of each noise schedule: every number, and its ratio to the reference schedule's."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mdc.plan.jobs.shown import SchedulesJob, ShownRun
from mdc.plan.records import UserError, read_json
from mdc.report.frame import LOG_RATIO, Contrast, Side, decided
from mdc.report.manifests import Manifests, run_log, run_place
from mdc.report.statistics import steadiness
from mdc.report.statistics.claims import Claim
from mdc.report.statistics.estimate import Estimate

LOSS, NORM, SPIKE, VARIANCE, NORM_VARIANCE, OVER = (
    "loss_cv",
    "grad_norm_cv",
    "grad_norm_largest_over_median",
    "loss_variance",
    "grad_norm_variance",
    "grad_norm_share_over_clip",
)
#: statistic → its label and unit
STATISTICS = {
    LOSS: ("loss, coefficient of variation", "share"),
    NORM: ("gradient norm, coefficient of variation", "share"),
    SPIKE: ("gradient norm, largest over median", "multiple"),
    VARIANCE: ("loss, variance", "nats²"),
    NORM_VARIANCE: ("gradient norm, variance", "norm²"),
    OVER: ("steps over the clipping norm", "share"),
}


@dataclass(frozen=True, eq=False)
class Track:
    """One run's log. ``steps`` (N,), ``loss`` (N,) nats per token, ``norm`` (N,) of the gradient before clipping.

    ``expected``: the coefficient of variation of the loss due to the draw of t and masks alone; None where it has no closed form
    (another weight or normaliser than the paper's). With t down to 0 it depends on rare draws of large weight: few logged steps
    show less variation, and then a spike.
    """

    run: ShownRun
    steps: NDArray[np.int64]
    loss: NDArray[np.float64]
    norm: NDArray[np.float64]
    expected: float | None

    @classmethod
    def of(cls, run: ShownRun, job: SchedulesJob, manifests: Manifests) -> "Track":
        """From the run's log; UserError if a loss has no gradient norm."""
        logged = run_log(manifests, run.job)
        lines = [line for line in logged if "loss" in line]
        for line in lines:
            if not isinstance(line.get("grad_norm"), int | float):
                raise UserError(f"{run.job}: step {line['step']} has no grad_norm; retrain the run")
        steps = np.array([line["step"] for line in lines])
        loss, norm = (np.array([line[key] for line in lines], dtype=np.float64) for key in ("loss", "grad_norm"))
        return cls(run, steps, loss, norm, _expected(run, read_json(manifests[run.job])["config"], lines))

    @property
    def method(self) -> str:
        """Its method's key."""
        return self.run.method.key


def _expected(run: ShownRun, config: Mapping[str, Any], lines: Sequence[Mapping[str, Any]]) -> float | None:
    """From the supervised tokens of the median batch, where the loss is equation 5 over all of them."""
    try:
        least_t = float(config["protocol"]["pretrain"]["least_t"])
        method = config["method"].get("weight"), config["method"].get("normaliser")
    except (KeyError, TypeError, ValueError, AttributeError):
        raise UserError(f"{run.job}: its configuration names no method or no least_t; train it again") from None
    counts = [count for line in lines if isinstance(count := line.get("tokens"), int | float) and count > 0]
    if method != ("inverse_t", "valid_tokens") or run.t_range is None or len(counts) < len(lines):
        return None
    return math.sqrt(steadiness.loss_variance(*run.t_range, tokens=float(np.median(counts)), least_t=least_t))


@dataclass(frozen=True)
class Line:
    """One line of ``figure_schedules.csv``: a stability statistic of one schedule, all its seeds together.

    ``run``: the schedule's first run. Deviations and shares are in 0 to 1, ``loss_variance`` is in nats²,
    ``grad_norm_variance`` in the norm's unit squared. ``ratio``: the log ratio to the reference; primary comparisons have a
    decision, whose claim is that the schedule varies more than the reference. ``expected``: of :class:`Track`.
    """

    run: ShownRun
    statistic: str
    value: Estimate
    logged_steps: int
    ratio: Contrast | None
    expected: float | None


def measure(tracks: Sequence[Track], job: SchedulesJob) -> list[Line]:
    """Every number of every corpus, backbone and schedule.

    Primary comparisons: loss and gradient norm of each schedule that the job names against the reference. UserError if runs
    differ in logged steps, or have too few steps after the warm-up.
    """
    lines: list[Line] = []
    for here in places(tracks).values():
        runs: dict[str, list[Track]] = {}
        for track in _counted(here):
            runs.setdefault(track.method, []).append(track)
        for method, group in runs.items():
            lines += _of_schedule(group, None if method == job.reference else runs[job.reference], job)
    ratios: list[Contrast] = []
    claims: list[Claim | None] = []
    for line in lines:
        if line.ratio is not None:
            named = line.statistic in (LOSS, NORM) and f"{line.run.corpus.key}/{line.run.method.key}" in job.primary
            ratios.append(line.ratio)
            # without a margin, a ratio has no size
            claims.append(Claim(line.ratio.estimate) if named else None)
    with_decisions = iter(decided(ratios, claims, job.statistics))
    return [line if line.ratio is None else replace(line, ratio=next(with_decisions)) for line in lines]


def places(tracks: Sequence[Track]) -> dict[str, list[Track]]:
    """The runs of each corpus and backbone."""
    by_place: dict[str, list[Track]] = {}
    for track in tracks:
        by_place.setdefault(run_place(track.run), []).append(track)
    return by_place


def place_name(run: ShownRun) -> str:
    """The labels of a run's corpus and backbone."""
    return f"{run.corpus.label}, {run.backbone.label}"


def _counted(here: Sequence[Track]) -> list[Track]:
    """The runs of one corpus and backbone after their longest warm-up, all logged at the same steps."""
    warmup = max(track.run.warmup_steps for track in here)
    steps = here[0].steps
    for track in here:
        if not np.array_equal(track.steps, steps):
            each = (f"{t.run.job} has {len(t.steps)} logged steps up to {t.steps[-1]}" for t in (here[0], track))
            raise UserError(f"schedules: {' and '.join(each)}; needed: the same in both")
    kept = steps > warmup
    if kept.sum() < steadiness.NEEDED:
        raise UserError(
            f"schedules: {here[0].run.job} has {kept.sum()} logged steps after its warm-up of {warmup}; needed: "
            f"{steadiness.NEEDED}, and {steadiness.NEEDED_FOR_INTERVAL + 2} for an interval of a single run; "
            "log more often (log_every) or train for longer"
        )
    return [replace(t, steps=t.steps[kept], loss=t.loss[kept], norm=t.norm[kept]) for t in here]


#: statistic -> contributions of one run's logged steps, and the power of their mean
_VARIES: dict[str, tuple[Callable[[Track], Any], float]] = {
    LOSS: (lambda track: steadiness.relative_squares(track.steps, track.loss), 0.5),
    VARIANCE: (lambda track: steadiness.squares(track.steps, track.loss), 1.0),
    NORM: (lambda track: steadiness.relative_squares(track.steps, track.norm), 0.5),
    NORM_VARIANCE: (lambda track: steadiness.squares(track.steps, track.norm), 1.0),
    SPIKE: (lambda track: [steadiness.spike(track.norm)], 1.0),
}


def _of_schedule(group: Sequence[Track], reference: Sequence[Track] | None, job: SchedulesJob) -> list[Line]:
    statistics, run = job.statistics, group[0].run
    lines = []
    for name, (contributions, power) in _VARIES.items():
        own = [_named(track, contributions) for track in group]
        value = steadiness.factors(steadiness.variation(own, power, statistics.bootstrap, statistics.level))
        if name == SPIKE:
            value = value.within(1)  # a largest value is at least its level
        ratio = None
        if reference is not None:
            others = [_named(track, contributions) for track in reference]
            log_ratio = steadiness.variation(own, power, statistics.bootstrap, statistics.level, others)
            ratio = Contrast(
                kind="ratio",
                first=Side.of(run),
                second=Side.of(reference[0].run),
                column=name,
                label=STATISTICS[name][0],
                metric=STATISTICS[name][0],
                unit=LOG_RATIO,
                estimate=log_ratio,
            )
        expected = group[0].expected if name == LOSS else None
        lines.append(Line(run, name, value, len(group[0].steps), ratio, expected))
    over = [track.norm > limit for track in group if (limit := track.run.clip_norm) is not None]
    if len(over) == len(group):  # where every run was clipped
        share = steadiness.share(over, statistics.bootstrap, statistics.level)
        lines.append(Line(run, OVER, share, len(group[0].steps), None, None))
    return lines


def _named(track: Track, statistic: Callable[[Track], Any]) -> Any:
    """The statistic of a run, whose UserError names the run."""
    try:
        return statistic(track)
    except UserError as error:
        raise UserError(f"{track.run.job}: {error}") from None
