"""What a run's backbone asks of its corpus and of its method: known only of both together."""

from __future__ import annotations

from mdc.plan.config.backbones import Backbone
from mdc.plan.jobs.context import Context
from mdc.plan.jobs.ids import Run
from mdc.plan.records import UserError


def check_fits(plan: Context, run: Run) -> None:
    """UserError for a run whose decoder reads objects of images that are no rendered scenes, has no half of its layers, or reads
    less of an image than its method asks for."""
    backbone, corpus = plan.scale.training.backbones[run.backbone], plan.corpus_of(run)
    method, where = plan.params.methods[run.method], f"scales/{plan.params.scale}.yaml: run {run.id}:"
    if (method.layers is not None or method.objective == "bicaptioning") and backbone.decoder.layers % 2:
        raise UserError(
            f"{where} {run.method} has decoders of half the layers, and pretrain.backbones.{run.backbone}.decoder.layers = "
            f"{backbone.decoder.layers}; allowed: an even number"
        )
    if not isinstance(backbone, Backbone) or backbone.reads == "patches":
        return
    if method.patches_kept is not None or method.objective == "superclass":
        raise UserError(
            f"{where} {run.method} is of patch tokens, and pretrain.backbones.{run.backbone}.reads = {backbone.reads}; "
            "allowed: patches"
        )
    if backbone.reads == "objects" and plan.scale.data.corpora[corpus].source.kind != "scenes":
        raise UserError(
            f"{where} pretrain.backbones.{run.backbone}.reads = objects: objects "
            f"are found in rendered scenes alone, and the corpus {corpus} has none; allowed here: "
            "patches, mean, cls, grid_2, grid_3"
        )
