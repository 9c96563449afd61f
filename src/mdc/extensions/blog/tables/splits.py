"""Captions by runs on several splits of the same images, compared over all of them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, product
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from pydantic import Field, model_validator

from mdc.plan.config.types import Claims, Name, Side, check_reference
from mdc.plan.jobs.shown import ArtefactJob
from mdc.report.tables import table3

if TYPE_CHECKING:
    from mdc.plan.jobs.context import Context
    from mdc.report.manifests import Manifests

SHOWN = {
    "kind": "captions_over_splits",
    "artefacts": {
        "table_splits": {
            "title": "Several splits",
            "what": "Captions by runs on several random splits of the same images",
        },
    },
    "files": ".csv _long.csv _contrasts.csv _sets.csv _over.csv _runs.csv .html .md .tex",
    "what": "Captions",
    "caption": "{what} at scale {scale}, compared with references by the metrics of the COCO caption challenge, and by "
    "a CLIP; what of the captions is true, where it is known.",
    "config": "Block",
}


class Block(table3.Block):
    """A table of captions on splits of the same images.

    ``over``: pairs of systems that are compared over all datasets; for each pair the claim is that the first is better.
    ``beside``: datasets that this comparison leaves out, such as an official split beside random ones.
    """

    over: Claims[Side] = Field(default_factory=list)
    beside: list[Name] = Field(default_factory=list)

    def misfits(self, params: Any, where: str) -> Iterator[str]:
        yield from super().misfits(params, where)
        sides = (f"{name}/{key}" for name, key in product(self.datasets, chain(*self.over)))
        yield from self.strangers(params.captions, f"{where}.over", sides)

    @model_validator(mode="after")
    def _enough(self) -> Self:
        for name in self.beside:
            check_reference("beside", name, self.datasets, "dataset of this table (datasets)")
        compared = [name for name in self.datasets if name not in self.beside]
        if self.over and len(compared) < 2:
            raise ValueError(f"over: compares over datasets, and there is {' '.join(compared) or 'none'} alone")
        if self.over and self.primary:
            raise ValueError(
                "over: its pairs are the claims of the table; leave primary out, or name it in another table"
            )
        if self.beside and not self.over:
            raise ValueError("beside: beside the datasets that are compared over, and over names no pair of systems")
        for side in (side for pair in self.over for side in pair):
            check_reference("over", side, self.systems, "system of this table (systems)")
        return self


def rows(plan: Context, name: str, block: Block) -> dict[str, Any]:
    """The values of a table of captions; the corpora, which hold the numbers of training images; and the differences within each
    dataset."""
    from mdc.plan.jobs.caption_jobs import captions_of
    from mdc.plan.jobs.context import compared

    values = table3.rows(plan, name, block)
    if not block.over:
        return values
    section = captions_of(plan)
    pairs = [[f"{name}/{first}", f"{name}/{second}"] for name in block.datasets for first, second in block.over]
    corpora = {name: plan.corpus(plan.scale.corpus_of(section.datasets[name].pretrained)) for name in block.datasets}
    entries = {
        name: {
            "key": name,
            "label": section.datasets[name].label,
            "trained_on": job.job,
            "images": section.datasets[name].images,
        }
        for name, job in corpora.items()
    }
    return values | {
        "jobs": values["jobs"] | {job.job: job for job in corpora.values()},
        "contrasts": compared(values["contrasts"], pairs)["contrasts"],
        "over": {
            "pairs": block.over,
            "datasets": [entry for name, entry in entries.items() if name not in block.beside],
            "beside": [entries[name] for name in block.beside],
        },
    }


def make(job: ArtefactJob, manifests: Manifests, out: Path) -> None:
    """Write the table's files into ``out``; errors as of Table 3."""
    from mdc.extensions.blog.tables.over_datasets import OverDatasets
    from mdc.report.caption_numbers import Captioned

    results = Captioned(job, manifests)
    if "over" not in job.more:
        table3.write(results, out)
        return
    over = OverDatasets(job, manifests, results, job.more["over"])
    table3.write(results, out, over.tables([key for key in results.parts_of["paper"] if key in results.columns]))
    over.write(out / f"{job.artefact}_over.csv")
