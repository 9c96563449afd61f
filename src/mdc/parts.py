"""What a job loads by name: each kind, objective and ability with the module that is it.

A module named here is imported only by the jobs that use it (``importlib.import_module``), so a job's fingerprint covers
the parts that it runs and no others (see :mod:`mdc.jobs.code`). Adding one is a file of its own and a line here.
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
}

#: kind of a corpus's source → its module (open_source)
CORPORA = {
    "scenes": "mdc.sources.scenes_corpus",
    "parquet": "mdc.sources.parquet_corpus",
    "caption_table": "mdc.sources.caption_table",
    "webdataset": "mdc.sources.webdataset",
    "pairs": "mdc.sources.pairs",
    "karpathy": "mdc.sources.karpathy",
    "coco_captions": "mdc.sources.coco_captions",
    "flickr8k": "mdc.sources.flickr8k",
    "cub": "mdc.sources.cub",
}

#: … of a labelled set's
PROBES = {
    "scenes": "mdc.sources.scenes_probe",
    "digits": "mdc.sources.digits",
    "parquet": "mdc.sources.parquet_probe",
    "caption_nouns": "mdc.sources.caption_nouns",
    "class_folder": "mdc.sources.class_folder",
    "builder": "mdc.sources.builder",
}

#: … of a set of images with one right caption among several
CHOICES = {
    "sugarcrepe": "mdc.sources.sugarcrepe",
    "aro": "mdc.sources.aro",
    "caption_order": "mdc.sources.caption_order",
}

#: … of captions without images
TEXTS = {
    "caption_list": "mdc.sources.caption_list",
}

#: what a predictor can be asked for → its module
ABILITIES = {
    "encode": "mdc.predictors.encode",
}


def load(parts: Mapping[str, str], name: str) -> Any:
    """The module of one of ``parts``, imported now."""
    return importlib.import_module(parts[name])
