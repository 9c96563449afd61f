"""What a job loads by name: each kind, objective and ability with the module that is it.

A module named here is imported only by the jobs that use it (``importlib.import_module``), so a job's fingerprint covers
the parts that it runs and no others (see :mod:`mdc.plan.fingerprint`). Adding one is a file of its own and a line here.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

#: objective of a method → its module (build_model, build_objective)
OBJECTIVES = {
    "masked": "mdc.training.objectives.masked",
    "autoregressive": "mdc.training.objectives.autoregressive",
    "contrastive": "mdc.training.objectives.contrastive",
    "mask_and_replace": "mdc.training.objectives.mask_and_replace",
    "recurrent": "mdc.training.objectives.recurrent",
    "cappa": "mdc.training.objectives.cappa",
    "bicaptioning": "mdc.training.objectives.bicaptioning",
    "complementary": "mdc.training.objectives.complementary",
    "superclass": "mdc.training.objectives.superclass",
}

#: objective → the one as whose models its own score and write, if that is another
FAMILIES = {"cappa": "autoregressive", "bicaptioning": "autoregressive", "complementary": "masked"}

#: kind of a frozen encoder → its module (build, fetched)
TOWERS = {
    "open_clip": "mdc.models.encoders.open_clip",
    "timm": "mdc.models.encoders.timm",
    "torchvision": "mdc.models.encoders.torchvision",
    "efficientnet_lite0": "mdc.models.encoders.efficientnet_lite0",
    "run": "mdc.models.encoders.run",
    "codes": "mdc.models.encoders.codes",
}

#: kind of a corpus's source → its module (open_source)
CORPORA = {
    "scenes": "mdc.data.sources.corpora.scenes",
    "parquet": "mdc.data.sources.corpora.parquet",
    "caption_table": "mdc.data.sources.corpora.caption_table",
    "caption_files": "mdc.data.sources.corpora.caption_files",
    "webdataset": "mdc.data.sources.corpora.webdataset",
    "pairs": "mdc.data.sources.corpora.pairs",
    "karpathy": "mdc.data.sources.corpora.karpathy",
    "coco_captions": "mdc.data.sources.corpora.coco_captions",
    "flickr8k": "mdc.data.sources.corpora.flickr8k",
    "cub": "mdc.data.sources.corpora.cub",
}

#: those of them that always lie in files of which each can be read alone (mdc.data.sources.cleaned.InParts); parquet files may
IN_PARTS = frozenset({"webdataset", "pairs"})

#: … of a labelled set's
PROBES = {
    "scenes": "mdc.data.sources.probes.scenes",
    "digits": "mdc.data.sources.probes.digits",
    "parquet": "mdc.data.sources.probes.parquet",
    "caption_nouns": "mdc.data.sources.probes.caption_nouns",
    "class_folder": "mdc.data.sources.probes.class_folder",
    "builder": "mdc.data.sources.probes.builder",
}

#: … of a set of images with one right caption among several
CHOICES = {
    "scenes": "mdc.data.sources.choices.scenes",
    "sugarcrepe_parquet": "mdc.data.sources.choices.sugarcrepe_parquet",
    "order_parquet": "mdc.data.sources.choices.order_parquet",
    "sugarcrepe": "mdc.data.sources.choices.sugarcrepe",
    "aro": "mdc.data.sources.choices.aro",
    "caption_order": "mdc.data.sources.choices.caption_order",
    "scenes_pairs": "mdc.data.sources.choices.scenes_pairs",
    "winoground": "mdc.data.sources.choices.winoground",
    "choice_table": "mdc.data.sources.choices.choice_table",
}

#: … of captions without images
TEXTS = {
    "caption_list": "mdc.data.sources.texts.caption_list",
}

#: what a predictor can be asked for → its module
ABILITIES = {
    "encode": "mdc.evaluation.predictors.encode",
    "score": "mdc.evaluation.predictors.score",
    "score_open_clip": "mdc.evaluation.predictors.open_clip_score",
    "generate": "mdc.evaluation.predictors.generate",
}

#: how an encoder is probed → its module (TOKENS, fit)
HEADS = {
    "linear": "mdc.evaluation.linear_probe",
    "attentive": "mdc.evaluation.attentive_probe",
    "knn": "mdc.evaluation.knn_probe",
}

#: captioners of others → the script that runs in their own environment
OTHERS = {"coca": "mdc.evaluation.others.coca"}


def family_of(objective: str) -> str:
    """The objective as whose models an objective's own score and write."""
    return FAMILIES.get(objective, objective)


def load(parts: Mapping[str, str], name: str) -> Any:
    """The module of one of ``parts``, imported now."""
    return importlib.import_module(parts[name])
