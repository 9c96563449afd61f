"""The learning rates that a scale's selection tried: the probe's accuracy by rate, and the rate that was chosen.

All methods are tuned alike: the same rates, seeds and items (:class:`mdc.plan.config.pretrain.LrSelection`).
"""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mdc.plan.config.types import Parameters
from mdc.plan.jobs.shown import ArtefactJob, ShownColumn, Statistics, System
from mdc.plan.records import read_json

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from mdc.plan.jobs.context import Context
    from mdc.report.figures.drawing import Axes
    from mdc.report.frame import Number
    from mdc.report.manifests import Manifests

SHOWN = {
    "artefacts": {"figure_lr": {"title": "Learning rates"}},
    "files": ".png .svg .pdf .csv _runs.csv",
    "caption": "Linear-probe accuracy at scale {scale} of runs with several learning rates, on training items that the probe "
    "leaves out, by seeds that no claim uses. The rate with the best mean, ringed, is that of all other runs of its method.",
    "config": "Block",
}


class Block(Parameters):
    """Every learning rate that ``pretrain.lr_selection`` tries. It has no keys."""

    sections = ("pretrain",)

    def misfits(self, params: Any, where: str) -> Iterator[str]:
        if params.pretrain is not None and params.pretrain.lr_selection is None:
            yield f"{where}: shows pretrain.lr_selection, which this scale does not have"


def rows(plan: Context, name: str, block: Block) -> dict[str, Any]:
    """A system for each rate of each method; ``more``: its rate, and the job that chooses."""
    selection = plan.scale.training.lr_selection
    assert selection is not None  # checked by the block
    chosen = {run.system: (run, job) for run in plan.runs if (job := plan.select_lr(run)) is not None}
    systems, jobs = list[System](), {job.job: job for _, job in chosen.values()}
    for run, job in chosen.values():
        for lr, probes in job.tried:
            jobs |= {probe: plan.made[probe] for probe in probes}
            systems.append(
                System(
                    key=f"{run.system}/lr-{lr:g}",
                    **plan.labels(run),
                    runs=[probe.removeprefix("probe/") for probe in probes],
                    records=list(probes),
                    pooling=plan.params.methods[run.method].pooling,
                    more={"lr": lr, "chosen_by": job.job},
                )
            )
    by = plan.scale.data.probes[selection.by]
    return {
        "jobs": jobs,
        "systems": systems,
        "columns": [ShownColumn(key=selection.by, label=f"{by.label}, held out", metric=by.source.probe_metric)],
        "seeds": selection.seeds,
        "statistics": Statistics(**dict(plan.params.protocol.statistics)),
    }


def make(job: ArtefactJob, manifests: Manifests, out: Path) -> None:
    """Write the figure and its csv files into ``out``; errors as of Table 1."""
    from mdc.report.figures.accuracy_panels import draw
    from mdc.report.frame import write_levels
    from mdc.report.results import Results

    class Tried(Results):
        def _labels_differ(self) -> None:
            """Rows of one method differ in their rates."""

    results = Tried(job.but(primary_metric=job.columns[0].key), manifests)
    rate = {system.key: system.more["lr"] for system in job.systems}
    best = {system.key: read_json(manifests[system.more["chosen_by"]])["lr"] for system in job.systems}
    columns = {
        "lr": [rate[number.system.key] for number in results.numbers],
        "chosen": [rate[number.system.key] == best[number.system.key] for number in results.numbers],
    }
    write_levels(out / "figure_lr.csv", job, results.numbers, **columns)
    dashes = dict(zip(results.backbones, itertools.cycle(("-", "--", ":", "-.")), strict=False))
    lines = ", ".join(f"{dash} {backbone}" for backbone, dash in dashes.items()) if len(dashes) > 1 else ""

    def line(number: Number) -> list[tuple[str, str]]:
        backbone = number.system.backbone.label
        return [(f"{number.method_key} {backbone}", dashes[backbone])]

    def ring(panel: Axes, styles: Mapping[str, tuple[str, str]], numbers: Sequence[Number]) -> None:
        for number in numbers:
            if rate[number.system.key] == best[number.system.key]:
                place, colour = [rate[number.system.key]], styles[number.method_key][0]
                panel.plot(place, [number.value], "o", markersize=13, markerfacecolor="none", markeredgecolor=colour)

    draw(
        results, out, "Learning rates:", f"learning rate (ringed: chosen) {lines}", lambda n: rate.get(n.system.key),
        lines=line, more=ring, log=True, by_corpus=True,
    )  # fmt: skip
