"""Whether what captioning asks for can be done: each of Table 3's systems by its method, its finetuning and its vocabulary."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from mdc.config.caption import Unmasking, longest
from mdc.config.caption_table import CaptionedImages, CaptionSystem, RunClip
from mdc.config.pretrain import Method
from mdc.config.types import known, own_labels

if TYPE_CHECKING:
    from mdc.config.params import Scale


def check_captioning(scale: Scale, methods: Mapping[str, Method], context_length: int, where: str) -> None:
    """ValueError, which begins with ``where``, for the first thing that does not fit."""
    data = scale.data
    for name, tuned in scale.finetune.items():
        known(f"{where}.finetune.{name}.corpus", tuned.corpus, data.corpora, "corpus")
        if tuned.canvas is not None and tuned.canvas > context_length - 1:
            raise ValueError(
                f"{where}.finetune.{name}.canvas = {tuned.canvas}: at most {context_length - 1} tokens fit the context"
            )
    table = scale.tables.table3
    if table is None:
        return
    where = f"{where}.tables.table3"
    for name in table.backbones:
        known(f"{where}.backbones", name, scale.training.backbones, "backbone")
    own_labels(f"{where}.datasets", {key: dataset.label for key, dataset in table.datasets.items()})
    own_labels(f"{where}.systems", {key: f"{one.label} · {one.length}" for key, one in table.systems.items()})
    for key, dataset in table.datasets.items():
        _dataset(scale, dataset, f"{where}.datasets.{key}")
        if dataset.backbone is not None:
            known(f"{where}.datasets.{key}.backbone", dataset.backbone, scale.training.backbones, "backbone")
        for system, one in table.systems_of(key).items():
            _system(scale, methods, dataset, one, context_length, f"{where}.systems.{system}")
    if isinstance(table.clip_score, RunClip):
        _clip(methods, table.clip_score.method, where)


def _dataset(scale: Scale, dataset: CaptionedImages, where: str) -> None:
    data = scale.data
    for key in ("corpus", "pretrained", "training"):
        known(f"{where}.{key}", getattr(dataset, key), data.corpora, "corpus")
    vocabulary = data.vocabulary_of(dataset.pretrained)
    for key, name in dataset.tuned.items():
        if name is None:
            continue
        known(f"{where}.tuned.{key}", name, scale.finetune, "finetuning (finetune)")
        corpus = scale.finetune[name].corpus
        if data.vocabulary_of(corpus) != vocabulary:
            raise ValueError(
                f"{where}.tuned.{key}: {corpus} has the vocabulary {data.vocabulary_of(corpus)}, and {dataset.pretrained}, on "
                f"which the runs are pretrained, has {vocabulary}; a run keeps its vocabulary, so give both the same"
            )
        listed = data.vocabularies[vocabulary]
        if listed != "full" and corpus not in listed:
            raise ValueError(
                f"{where}.tuned.{key}: the vocabulary {vocabulary} does not cover {corpus}; add it to its list"
            )


def _system(
    scale: Scale,
    methods: Mapping[str, Method],
    dataset: CaptionedImages,
    system: CaptionSystem,
    context_length: int,
    where: str,
) -> None:
    known(f"{where}.method", system.method, dict(methods), "method")
    objective, write = methods[system.method].objective, system.write
    writes = {"masked": "unmask", "autoregressive": "beam"}.get(objective)
    if writes is None:
        raise ValueError(f"{where}.method = {system.method}: the objective {objective} writes no captions")
    if write.kind != writes:
        raise ValueError(f"{where}.write.kind = {write.kind}: {system.method} writes by {writes}")
    room = context_length - (1 if isinstance(write, Unmasking) and write.ends else 2)
    if longest(write) > room:
        raise ValueError(f"{where}.write: {longest(write)} word pieces; at most {room} fit the context")
    name = dataset.tuned_as(system)
    tuned = scale.finetune[name] if name is not None else None
    if tuned is not None and tuned.canvas is not None and objective != "masked":
        raise ValueError(f"{where}.tuned = {system.tuned}: it has a canvas, which {system.method} cannot learn")
    if isinstance(write, Unmasking) and write.ends and (tuned is None or tuned.canvas is None):
        raise ValueError(f"{where}.write.ends: needs a finetuning with a canvas, on which a model learns where to end")


def _clip(methods: Mapping[str, Method], name: str, where: str) -> None:
    known(f"{where}.clip_score.method", name, dict(methods), "method")
    if methods[name].objective != "contrastive":
        raise ValueError(f"{where}.clip_score.method = {name}: its objective is {methods[name].objective}, not CLIP's")
