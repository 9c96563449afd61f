"""The modules that jobs load by name: one for each kind, objective and ability.

A module named here is imported only by the jobs that use it (``importlib.import_module``), so a job's fingerprint covers
only the parts that it runs (see :mod:`mdc.plan.fingerprint`). A new part needs a file and its name here.
"""

import importlib
from collections.abc import Mapping
from typing import Any


def _in(package: str, names: str) -> dict[str, str]:
    """Name → the module of this name in ``package``."""
    return {name: f"mdc.{package}.{name}" for name in names.split()}


#: objective of a method → its module (build_model, build_objective)
OBJECTIVES = _in(
    "training.objectives",
    "masked autoregressive contrastive mask_and_replace recurrent cappa bicaptioning complementary superclass",
)

#: objective → the objective whose scoring and decoding its models use, if it is another
FAMILIES = {"cappa": "autoregressive", "bicaptioning": "autoregressive", "complementary": "masked"}

#: kind of a frozen encoder → its module (tower)
TOWERS = _in("models.encoders", "open_clip timm efficientnet_lite0 run codes")

#: kind of a corpus's source → its module (open_source)
CORPORA = _in(
    "data.sources.corpora",
    "scenes parquet caption_table caption_files webdataset pairs karpathy coco_captions flickr8k cub",
)

#: corpora that are always split into files that can be read independently (mdc.data.sources.cleaned.InParts); parquet may be
IN_PARTS = frozenset({"webdataset", "pairs"})

#: kind of a labelled set's source → its module
PROBES = _in("data.sources.probes", "scenes digits parquet caption_nouns class_folder builder")

#: kind of a choice set's source (images with one right caption among several) → its module
CHOICES = _in(
    "data.sources.choices",
    "scenes sugarcrepe order_parquet aro caption_order scenes_pairs winoground choice_table",
)
CHOICES["sugarcrepe_parquet"] = CHOICES["sugarcrepe"]

#: kind of a source of captions without images → its module
TEXTS = _in("data.sources.texts", "caption_list")

#: ability of a predictor → its module
ABILITIES = _in("evaluation.predictors", "encode score generate")
ABILITIES["score_open_clip"] = "mdc.evaluation.predictors.open_clip_score"

#: kind of a probe's head → its module (TOKENS, fit)
HEADS = {kind: f"mdc.evaluation.{kind}_probe" for kind in ("linear", "attentive", "knn")}


def family_of(objective: str) -> str:
    """The objective whose scoring and decoding an objective's models use."""
    return FAMILIES.get(objective, objective)


def load(parts: Mapping[str, str], name: str) -> Any:
    """The module of one of ``parts``, imported now."""
    return importlib.import_module(parts[name])
