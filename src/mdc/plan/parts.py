"""The modules that jobs load by name: one for each kind, objective and ability.

A module named here is imported only by the jobs that use it (``importlib.import_module``), so a job's fingerprint covers
only the parts that it runs (see :mod:`mdc.plan.fingerprint`). A new part needs a file and a line here.
"""

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

#: objective → the objective whose scoring and decoding its models use, if it is another
FAMILIES = {"cappa": "autoregressive", "bicaptioning": "autoregressive", "complementary": "masked"}

#: kind of a frozen encoder → its module (tower)
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

#: corpora that are always split into files that can be read independently (mdc.data.sources.cleaned.InParts); parquet may be
IN_PARTS = frozenset({"webdataset", "pairs"})

#: kind of a labelled set's source → its module
PROBES = {
    "scenes": "mdc.data.sources.probes.scenes",
    "digits": "mdc.data.sources.probes.digits",
    "parquet": "mdc.data.sources.probes.parquet",
    "caption_nouns": "mdc.data.sources.probes.caption_nouns",
    "class_folder": "mdc.data.sources.probes.class_folder",
    "builder": "mdc.data.sources.probes.builder",
}

#: kind of a choice set's source (images with one right caption among several) → its module
CHOICES = {
    "scenes": "mdc.data.sources.choices.scenes",
    "sugarcrepe_parquet": "mdc.data.sources.choices.sugarcrepe",
    "order_parquet": "mdc.data.sources.choices.order_parquet",
    "sugarcrepe": "mdc.data.sources.choices.sugarcrepe",
    "aro": "mdc.data.sources.choices.aro",
    "caption_order": "mdc.data.sources.choices.caption_order",
    "scenes_pairs": "mdc.data.sources.choices.scenes_pairs",
    "winoground": "mdc.data.sources.choices.winoground",
    "choice_table": "mdc.data.sources.choices.choice_table",
}

#: kind of a source of captions without images → its module
TEXTS = {
    "caption_list": "mdc.data.sources.texts.caption_list",
}

#: ability of a predictor → its module
ABILITIES = {
    "encode": "mdc.evaluation.predictors.encode",
    "score": "mdc.evaluation.predictors.score",
    "score_open_clip": "mdc.evaluation.predictors.open_clip_score",
    "generate": "mdc.evaluation.predictors.generate",
}

#: kind of a probe's head → its module (TOKENS, fit)
HEADS = {
    "linear": "mdc.evaluation.linear_probe",
    "attentive": "mdc.evaluation.attentive_probe",
    "knn": "mdc.evaluation.knn_probe",
}

#: external captioners → the script that runs in their own environment
OTHERS = {"coca": "mdc.evaluation.others.coca"}


def family_of(objective: str) -> str:
    """The objective whose scoring and decoding an objective's models use."""
    return FAMILIES.get(objective, objective)


def load(parts: Mapping[str, str], name: str) -> Any:
    """The module of one of ``parts``, imported now."""
    return importlib.import_module(parts[name])
