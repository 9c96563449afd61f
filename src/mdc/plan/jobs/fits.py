"""What a run's backbone asks of its corpus: known only of both together."""

from __future__ import annotations

from mdc.plan.config.backbones import Backbone
from mdc.plan.jobs.context import Context
from mdc.plan.jobs.ids import Run
from mdc.plan.records import UserError


def check_reads(plan: Context, run: Run) -> None:
    """UserError for a run whose decoder reads objects of images that are no rendered scenes."""
    backbone, corpus = plan.scale.training.backbones[run.backbone], plan.corpus_of(run)
    if not isinstance(backbone, Backbone) or backbone.reads != "objects":
        return
    if plan.scale.data.corpora[corpus].source.kind != "scenes":
        raise UserError(
            f"scales/{plan.params.scale}.yaml: run {run.id}: pretrain.backbones.{run.backbone}.reads = objects: objects "
            f"are found in rendered scenes alone, and the corpus {corpus} has none; allowed here: "
            "patches, mean, cls, grid_2, grid_3"
        )
