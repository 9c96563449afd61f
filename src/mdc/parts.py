"""What a job loads by name: each kind, objective and ability with the module that is it.

A module named here is imported only by the jobs that use it (``importlib.import_module``), so a job's fingerprint covers
the parts that it runs and no others (see :mod:`mdc.fingerprint`). Adding one is a file of its own and a line here.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

#: objective of a method → its module (build_model, build_objective)
OBJECTIVES = {
    "masked": "mdc.objectives.masked",
    "autoregressive": "mdc.objectives.autoregressive",
    "contrastive": "mdc.objectives.contrastive",
    "mask_and_replace": "mdc.objectives.mask_and_replace",
    "recurrent": "mdc.objectives.recurrent",
}

#: kind of a frozen encoder → its module (build, fetched)
TOWERS = {
    "open_clip": "mdc.encoders.open_clip",
    "timm": "mdc.encoders.timm",
    "torchvision": "mdc.encoders.torchvision",
    "efficientnet_lite0": "mdc.encoders.efficientnet_lite0",
    "run": "mdc.encoders.run",
    "codes": "mdc.encoders.codes",
}

#: kind of a corpus's source → its module (open_source)
CORPORA = {
    "scenes": "mdc.sources.corpora.scenes",
    "parquet": "mdc.sources.corpora.parquet",
    "caption_table": "mdc.sources.corpora.caption_table",
    "webdataset": "mdc.sources.corpora.webdataset",
    "pairs": "mdc.sources.corpora.pairs",
    "karpathy": "mdc.sources.corpora.karpathy",
    "coco_captions": "mdc.sources.corpora.coco_captions",
    "flickr8k": "mdc.sources.corpora.flickr8k",
    "cub": "mdc.sources.corpora.cub",
}

#: those of them that always lie in files of which each can be read alone (mdc.sources.cleaned.InParts); parquet files may
IN_PARTS = frozenset({"webdataset", "pairs"})

#: … of a labelled set's
PROBES = {
    "scenes": "mdc.sources.probes.scenes",
    "digits": "mdc.sources.probes.digits",
    "parquet": "mdc.sources.probes.parquet",
    "caption_nouns": "mdc.sources.probes.caption_nouns",
    "class_folder": "mdc.sources.probes.class_folder",
    "builder": "mdc.sources.probes.builder",
}

#: … of a set of images with one right caption among several
CHOICES = {
    "scenes": "mdc.sources.choices.scenes",
    "sugarcrepe_parquet": "mdc.sources.choices.sugarcrepe_parquet",
    "order_parquet": "mdc.sources.choices.order_parquet",
    "sugarcrepe": "mdc.sources.choices.sugarcrepe",
    "aro": "mdc.sources.choices.aro",
    "caption_order": "mdc.sources.choices.caption_order",
}

#: … of captions without images
TEXTS = {
    "caption_list": "mdc.sources.texts.caption_list",
}

#: what a predictor can be asked for → its module
ABILITIES = {
    "encode": "mdc.predictors.encode",
    "score": "mdc.predictors.score",
    "score_open_clip": "mdc.predictors.open_clip_score",
    "generate": "mdc.predictors.generate",
}

#: captioners of others → the script that runs in their own environment
OTHERS = {"coca": "mdc.others.coca"}


def load(parts: Mapping[str, str], name: str) -> Any:
    """The module of one of ``parts``, imported now."""
    return importlib.import_module(parts[name])
