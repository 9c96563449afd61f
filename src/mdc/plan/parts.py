"""The modules that jobs load by name: one for each kind, objective and ability.

A module named here is imported only by the jobs that use it (``importlib.import_module``), so a job's fingerprint covers
only the parts that it runs (see :mod:`mdc.plan.fingerprint`). A new part needs a file and its name here.
"""

import importlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).resolve().parents[1]


def _declared(*patterns: str) -> Iterator[Path]:
    """The files of this package that match, the core's before those of extensions."""
    for pattern in patterns:
        yield from sorted(_ROOT.glob(pattern))


def _package(folder: Path) -> str:
    return ".".join(("mdc", *folder.relative_to(_ROOT).parts))


def _in(package: str, names: str) -> dict[str, str]:
    """Name → the module of this name in ``package``."""
    return {name: f"mdc.{package}.{name}" for name in names.split()}


#: objective → its folder, whose ``method.py`` declares its parameters and the modules that its jobs load
METHODS = {
    path.parent.name: _package(path.parent) for path in _declared("methods/*/method.py", "extensions/*/*/method.py")
}

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

#: ability of a predictor → its module; methods have a part of their own of the last two
ABILITIES = _in("evaluation.predictors", "encode score generate")
ABILITIES["score_open_clip"] = "mdc.evaluation.predictors.open_clip_score"

#: kind of a probe's head → its module (TOKENS, fit)
HEADS = {kind: f"mdc.evaluation.{kind}_probe" for kind in ("linear", "attentive", "knn")}


def load(parts: Mapping[str, str], name: str) -> Any:
    """The module of one of ``parts``, imported now."""
    return importlib.import_module(parts[name])
