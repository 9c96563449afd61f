"""The sentences that tables and figures share: scales, intervals, p-values, verdicts."""

from collections.abc import Iterable, Sequence

from mdc.plan.artefacts import declared
from mdc.plan.jobs.shown import ArtefactJob, Statistics, System, SystemsJob
from mdc.report.csv_file import signed
from mdc.report.frame import POOLINGS, Contrast
from mdc.report.statistics.claims import Decision
from mdc.report.statistics.estimate import NOT_COMPARED, Estimate

#: the warning of every scale but the paper's
_WARNING = "not a reproduction of the paper's numbers"


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


def _interval_label(estimate: Estimate) -> tuple[str, str]:
    """The method of an interval, and what it is over, in words."""
    of = "this checkpoint only" if estimate.seeds == 1 else f"mean of {estimate.seeds} seeds"
    return {
        "exact": ("exact (Clopper-Pearson)", f"over test items; {of}"),
        "bootstrap": ("bootstrap", f"over test items; {of}"),
        "seeds": ("t", f"over {estimate.seeds} seeds"),
        "splits": ("corrected resampled t", f"over {estimate.n} splits"),
        "seeds and items": ("t", f"over {estimate.seeds} seeds and test items"),
    }[estimate.kind]


def intervals(estimates: Iterable[Estimate], numbers: Sequence[int], where: str = "In brackets the") -> str:
    """The methods of a table's intervals, and the number of resamples, in words."""
    all_estimates = list(estimates)
    known = [estimate for estimate in all_estimates if estimate.low is not None]
    if not known:
        return f"No interval is known ({_seeds(numbers)})."
    by_scope: dict[str, dict[str, None]] = {}
    for kind, over in map(_interval_label, known):
        by_scope.setdefault(over, {})[kind] = None
    kinds = ", or ".join(f"{' or '.join(kinds_of_scope)} {over}" for over, kinds_of_scope in by_scope.items())
    draws = sorted({estimate.draws for estimate in known if estimate.draws is not None})
    resampled = ""
    if draws:
        count = f"{draws[0]:,}" if len(draws) == 1 else f"{draws[0]:,} to {draws[-1]:,}"
        resampled = f" The bootstrap used {count} resamples."
    return f"{where} {percent(known[0].level)} interval, {kinds} ({_seeds(numbers)}).{resampled}"


def bars(job: SystemsJob) -> str:
    """The line below a figure of a job's levels: what its bars are, and where its differences are."""
    level, seeds, name = percent(job.statistics.level), _seeds(job.seeds), job.artefact
    return f"Bars: {level} intervals ({seeds}); their kind: {name}.csv. Differences and verdicts: {name}_contrasts.csv."


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


def seen(images: str) -> str:
    """What follows the direction of a claim whose test images were trained on (:func:`mdc.report.seen.mark`)."""
    return f"; test images trained on: {images}" if images else ""


def size(decision: Decision, decimals: int = 1) -> str:
    """A claim's size with its margin: ``larger (> 2.0)``; a dash where there is no margin."""
    if decision.size == "" or decision.margin is None:
        return "–"
    sign = {"larger": "> ", "equivalent": "< "}.get(decision.size, "margin ")
    return decision.size if decision.size == "not tested" else f"{decision.size} ({sign}{decision.margin:.{decimals}f})"


def detectable(decision: Decision, decimals: int = 1) -> str:
    """The minimum detectable effect of an inconclusive claim."""
    return "" if decision.detectable is None else f"{decision.detectable:.{decimals}f}"


def verdict(decision: Decision, estimate: Estimate, decimals: int = 1) -> str:
    """Direction, size and minimum detectable effect, as in a figure's note."""
    parts = [direction(decision, estimate)]
    if decision.size not in ("", "undecided", "not tested"):
        parts.append(size(decision, decimals))
    if decision.detectable is not None:
        parts.append(f"minimum detectable {detectable(decision, decimals)}")
    return ", ".join(parts)


def claims(statistics: Statistics, contrasts: Sequence[Contrast]) -> tuple[str, ...]:
    """The meaning of the verdicts of a table's ``contrasts``, a sentence each."""
    least = f"{1 - statistics.level:.2g}"
    return (
        "Claims that the scale names. Predicted: whether the first side is higher or lower.",
        f"Direction: supported (as predicted) or reversed where p is below {least}, else inconclusive, with the minimum "
        f"detectable effect at {percent(statistics.power)} power.{_scopes(contrasts)}",
        "Size: larger or equivalent where the absolute difference is significantly above or below the margin, else undecided.",
        correction(statistics, contrasts),
    )


_SCOPES = {
    "checkpoints": "these checkpoints",
    "methods": "the methods (three seeds or more)",
    "splits": "other random splits of the same images",
}


def _scopes(contrasts: Sequence[Contrast]) -> str:
    """What verdicts are about, as far as it occurs among ``contrasts``."""
    known = {line.estimate.scope for line in contrasts if line.estimate is not NOT_COMPARED}
    about = ", or ".join(text for scope, text in _SCOPES.items() if scope in known)
    return f" In brackets what it is about: {about}." if about else ""


def correction(statistics: Statistics, contrasts: Sequence[Contrast]) -> str:
    """The correction for the claims among ``contrasts``, in words."""
    count = sum(line.decision is not None and line.decision.p is not None for line in contrasts)
    if statistics.order != "holm":
        return (
            "Claims are tested in this order, without correction, until the first that is not supported; a size is decided only "
            "if all earlier sizes are."
        )
    if count == 0:
        return "No claim has a p."
    return f"p is corrected with Holm's method {f'for {count} claims' if count > 1 else 'for one claim'}, an interval is not."


def claim_sentences(contrasts: Iterable[Contrast], decimals: int = 1) -> list[str]:
    """The claims among ``contrasts`` with their verdicts, as in a figure's note, which ends with :func:`correction`."""
    return [
        f"{contrast.name}{' (predicted lower)' * (contrast.predicted == 'lower')}: {shown(contrast.estimate, decimals)}, "
        f"{verdict(contrast.decision, contrast.estimate, decimals)}"
        for contrast in contrasts
        if contrast.decision is not None
    ]
