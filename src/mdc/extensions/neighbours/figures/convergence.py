"""Probe accuracy after shares of a training's steps: how fast methods converge.

The paper says that parallel decoding converges slowly. A snapshot's learning rate is still high, where a shorter run would have
ended its schedule: its accuracy is below that of such a run. Methods are comparable at equal shares only.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from mdc.plan.config.pretrain import Recipe, snapshot_name
from mdc.plan.config.probe_tables import MethodTable
from mdc.plan.jobs.ids import Run, Snapshot
from mdc.plan.jobs.shown import ArtefactJob
from mdc.plan.records import UserError

if TYPE_CHECKING:
    from mdc.plan.jobs.context import Context
    from mdc.report.manifests import Manifests

SHOWN = {
    "artefacts": {"figure_convergence": {"title": "Convergence"}},
    "files": ".png .svg .pdf .csv _contrasts.csv _runs.csv",
    "caption": "Linear-probe accuracy at scale {scale} of snapshots of each run, after shares of its steps, with intervals, and "
    "the differences between methods that the scale claims. A snapshot's learning rate is still high, so it is not what a "
    "shorter run would be.",
    "config": "Block",
}


class Block(MethodTable):
    """Accuracy over training: the snapshots of the runs (pretrain.recipe.snapshots) and their last weights.

    ``contrasts`` are shown after each share of the steps; ``primary`` is tested at the share ``claimed_at``.
    """

    claimed_at: Annotated[float, Field(gt=0, le=1)] = 1.0

    def snapshots(self, recipe: Recipe) -> list[float]:
        return recipe.snapshots


def rows(plan: Context, name: str, block: Block) -> dict[str, Any]:
    """:func:`probing` of snapshots: comparisons after each share of the steps, claims after one. UserError if the runs of a
    corpus have none, or different ones."""
    from mdc.plan.jobs.probe_rows import probing

    values = probing(plan, name, block)
    where, last = f"{plan.file}: tables.{name}", dict[str, Run]()
    shares: dict[str, float] = {}
    for run in plan.runs_of(block):
        first = last.setdefault(run.corpus, run)
        taken, expected = plan.recipe(run).snapshots, plan.recipe(first).snapshots
        if not taken or taken != expected:
            problem = f"{run.id} keeps {taken or 'none'}" + (
                "" if run == first else f", {first.id} {expected or 'none'}"
            )
            raise UserError(f"{where}: needs the same snapshots of all runs of a corpus (recipe.snapshots): {problem}")
        if block.claimed_at not in (*taken, 1.0):
            raise UserError(f"{where}.claimed_at = {block.claimed_at:g}: no snapshot of {run.id}; it keeps {taken}")
        shares |= {Snapshot(run, share).system: share for share in taken} | {run.system: 1.0}

    def at(pair: list[str], share: float) -> list[str]:
        return [side if share == 1 else f"{side}/{snapshot_name(share)}" for side in pair]

    every = dict.fromkeys(shares.values())
    contrasts = [both for pair in values["contrasts"] for share in every if set(both := at(pair, share)) <= set(shares)]
    primary = [at(pair, block.claimed_at) for pair in values["primary"]]
    return {**values, "contrasts": contrasts, "primary": primary, "shares": shares}


def make(job: ArtefactJob, manifests: Manifests, out: Path) -> None:
    """Write the figure, its numbers and its comparisons into ``out``; errors as of Table 1."""
    from mdc.report.figures.accuracy_panels import draw
    from mdc.report.frame import write_contrasts, write_levels
    from mdc.report.results import Results

    results = Results(job, manifests)
    shares = [job.more["shares"].get(number.system.key) for number in results.numbers]
    seen = [results.training(number.system, "samples_seen") for number in results.numbers]
    write_levels(out / "figure_convergence.csv", job, results.numbers, share=shares, samples_seen=seen)
    write_contrasts(out / "figure_convergence_contrasts.csv", job, results.contrasts())
    label = "share of the steps done (%)"
    draw(results, out, "Convergence:", label, lambda n: 100 * job.more["shares"][n.system.key], by_corpus=True)
