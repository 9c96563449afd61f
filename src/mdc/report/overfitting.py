"""Runs whose last weights are worse on held-out pairs than earlier ones: what a table that measures them says below its block."""

from collections.abc import Iterator, Sequence

from mdc.plan.jobs.shown import ArtefactJob
from mdc.report.manifests import Manifests, run_log

#: the least rise of the held-out loss from its best to its last that is reported, as a share of its drop from first to best
RISE = 0.05


def overfitted(job: ArtefactJob, manifests: Manifests) -> list[str]:
    """One sentence on the runs of ``job`` whose last weights it measures, with their losses and steps; empty if none overfitted.
    Errors as of :func:`run_log`."""
    shown = {tuple(system.runs): None for system in job.systems if system.weights != "best"}
    if not (found := [text for runs in shown for text in _worst(job, manifests, runs)]):
        return []
    return [
        "Overfitted: the last weights, which are measured here, have a higher held-out loss than earlier ones, by more than "
        f"{100 * RISE:g} % of its drop: {'; '.join(found)}."
    ]


def _worst(job: ArtefactJob, manifests: Manifests, runs: Sequence[str]) -> Iterator[str]:
    """The seed of one system whose loss rose most, and how many more rose; nothing where none did."""
    risen = []
    for run in (run for run in dict.fromkeys(runs) if f"runs/{run}" in job.expected):
        lines = run_log(manifests, f"runs/{run}")
        losses = {line["step"]: line["validation_loss"] for line in lines if "validation_loss" in line}
        if not losses:
            continue
        best = min(losses, key=losses.__getitem__)
        rise, drop = losses[max(losses)] - losses[best], losses[min(losses)] - losses[best]
        if rise > RISE * drop:
            risen.append(
                (rise, f"{run} {losses[max(losses)]:.2f} at step {max(losses)}, {losses[best]:.2f} at step {best}")
            )
    if risen:
        more = len(risen) - 1
        yield max(risen)[1] + (f" (and {more} more seed{'s' * (more > 1)})" if more else "")
